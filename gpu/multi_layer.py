"""Multi-layer drafts on the GPU: a program owns the tokens of a request, or some words of its hidden states."""

from math import prod

import torch

from specsim.gpu.kernels import multi_layer as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch, launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
from specsim.gpu.launching.pointers import words_of

TOKENS, INTERPRETED_TOKENS = 1024, 4096
"""Tokens that a program shifts at a time: eight a thread of four warps. A window of any length takes several steps."""

WORDS, INTERPRETED_WORDS = 256, 4096
"""Words of a hidden state that a program owns: two a thread of four warps."""

TILE = 2048
"""Words of several hidden states that a program copies at a time: sixteen a thread of four warps."""


@operation
def rotate_input_ids(call: Call) -> Launch | None:
    """Shift the ids of each request left by one, in place; one program a request, with a barrier before it writes."""
    input_ids, num_requests, num_tokens = call.arguments["input_ids"], call.axes["request"], call.axes["token"]
    if not num_requests or not num_tokens:
        return None
    selected = () if call.arguments["select_index"] is None else ("select_index",)
    return Launch(
        Plan(
            kernels._rotate_input_ids_kernel,
            grid=(num_requests,),
            sizes={"num_tokens": num_tokens, **strides_of(input_ids, "token")},
            constants={} if selected else {"select_index_ptr": None},
            tunables={"TOKENS": choose_block(num_tokens, TOKENS, INTERPRETED_TOKENS)},
        ),
        inputs=call.contiguous("extend_start_loc", "extend_seq_lens", "next_tokens", *selected),
        outputs={"input_ids": input_ids},
    )


@operation
def assign_new_state(call: Call) -> Launch | None:
    """Grow each window by the position before it, out of place; grid: request, chunks of a hidden state."""
    axes, arguments, outputs = call.axes, call.arguments, call.outputs
    num_requests, num_tokens = axes["request"], axes["token"]
    if num_requests == 0:
        return None
    rows, pool = arguments["req_to_token"], arguments["hidden_states_pool"].contiguous()
    hidden = arguments["hidden_states"].contiguous()
    source, waiting, target = _alike(hidden, pool.flatten(0, 1), outputs.next_hidden_states)
    num_words = source.shape[1]
    words = choose_block(max(num_words, 1), WORDS, INTERPRETED_WORDS)
    tokens = choose_block(ceil_div(num_tokens, num_requests) + 1, max(1, TILE // words), LARGEST_TILE // words)
    return Launch(
        Plan(
            kernels._assign_new_state_kernel,
            grid=(num_requests, max(ceil_div(num_words, words), 1)),
            sizes={
                "num_tokens": num_tokens,
                "rows": (axes["row"], axes["position"], *rows.stride()),
                "num_words": num_words,
                "num_kept": axes["kept"],
                "draft_layer": axes["draft_layer"],
            },
            tunables={"TOKENS": tokens, "WORDS": words},
        ),
        inputs={
            "window": (
                *call.group("input_ids", "positions", "out_cache_loc"),
                source,
                *call.group("extend_start_loc", "extend_seq_lens"),
            ),
            "hidden_states_pool": waiting,
            "req_to_token": rows,
            **call.contiguous("next_tokens", "num_padding", "req_pool_indices", "forward_seq_lens"),
        },
        outputs={
            "next_window": (
                *(outputs.next_input_ids, outputs.next_positions, outputs.next_out_cache_loc),
                target,
                *(outputs.next_extend_start_loc, outputs.next_extend_seq_lens),
            )
        },
    )


@operation
def assign_hidden_states_pool(call: Call) -> Launch | None:
    """Append hidden states of committed positions, in place; a program owns some words of a request, oldest first."""
    axes, hidden, pool = call.axes, call.arguments["hidden_states"], call.arguments["hidden_states_pool"]
    if not axes["request"] or not pool.numel():
        return None
    packed = pool.contiguous()
    source, target = _alike(hidden.contiguous(), packed.flatten(0, 1))
    num_words = target.shape[1]
    words = choose_block(num_words, WORDS, INTERPRETED_WORDS)
    append = Launch(
        Plan(
            kernels._assign_hidden_states_pool_kernel,
            grid=(axes["request"], ceil_div(num_words, words)),
            sizes={
                "num_tokens": axes["token"],
                "num_rows": axes["row"],
                "num_words": num_words,
                "num_kept": axes["kept"],
            },
            tunables={"WORDS": words},
        ),
        inputs={"hidden_states": source, **call.contiguous("extend_start_loc", "num_committed", "req_pool_indices")},
        outputs={"hidden_states_pool": target},
    )
    if packed is pool:
        return append
    launch(append)
    pool.copy_(packed)
    return None


def _alike(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """View contiguous tensors [row, ...] as [row, word] in the widest word that fits all of them."""
    if not all(one.numel() for one in tensors):
        return [one.reshape(one.shape[0], prod(one.shape[1:])) for one in tensors]
    words = [words_of(one) for one in tensors]
    narrowest = min((one.dtype for one in words), key=lambda one: one.itemsize)
    return [one.view(narrowest) for one in words]
