"""Multi-layer drafts on the GPU: a program owns the tokens of a request, or some words of its hidden states."""

from math import prod

import torch

from specsim.gpu.kernels import multi_layer as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.launching.pointers import words_of
from specsim.operations.outputs import AssignNewStateOutputs

TOKENS, INTERPRETED_TOKENS = 1024, 4096
"""Tokens that a program shifts at a time: eight a thread of four warps. A window of any length takes several steps."""

WORDS, INTERPRETED_WORDS = 256, 4096
"""Words of a hidden state that a program owns: two a thread of four warps."""

TILE = 2048
"""Words of several hidden states that a program copies at a time: sixteen a thread of four warps."""


def rotate_input_ids(
    input_ids: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    next_tokens: torch.Tensor,
    select_index: torch.Tensor | None = None,
) -> None:
    """Shift the ids of each request left by one, in place; one program a request, with a barrier before it writes."""
    run("rotate_input_ids", launch_rotate_input_ids, locals())


def launch_rotate_input_ids(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    input_ids, select_index = call.arguments["input_ids"], call.arguments["select_index"]
    if call.axes["request"] and call.axes["token"]:
        launch(
            _plan_rotation(call.axes["request"], call.axes["token"], input_ids.stride(0), select_index is not None),
            inputs={
                **call.contiguous("extend_start_loc", "extend_seq_lens", "next_tokens"),
                **({} if select_index is None else call.contiguous("select_index")),
            },
            outputs={"input_ids": input_ids},
        )


@planned
def _plan_rotation(num_requests: int, num_tokens: int, token_stride: int, is_told: bool) -> Plan:
    return Plan(
        kernels._rotate_input_ids_kernel,
        grid=(num_requests,),
        sizes={"token_stride": token_stride, "num_tokens": num_tokens},
        constants={} if is_told else {"select_index_ptr": None},
        tunables={"TOKENS": choose_block(num_tokens, TOKENS, INTERPRETED_TOKENS)},
    )


def assign_new_state(
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    hidden_states: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    next_tokens: torch.Tensor,
    num_padding: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    forward_seq_lens: torch.Tensor,
    hidden_states_pool: torch.Tensor,
    draft_layer: int,
) -> AssignNewStateOutputs[torch.Tensor]:
    """Grow each window by the position before it, out of place; grid: request, chunks of a hidden state."""
    return run("assign_new_state", launch_assign_new_state, locals())


def launch_assign_new_state(call: Call) -> AssignNewStateOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, arguments, outputs = call.axes, call.arguments, call.outputs
    if not axes["request"]:
        return call.outputs
    rows, pool = arguments["req_to_token"], arguments["hidden_states_pool"].contiguous()
    hidden = arguments["hidden_states"].contiguous()
    source, waiting, target = _alike(hidden, pool.flatten(0, 1), outputs.next_hidden_states)
    launch(
        _plan_growth(
            (axes["request"], axes["token"], axes["row"], axes["position"]),
            rows.stride(),
            source.shape[1],
            axes["kept"],
            axes["draft_layer"],
        ),
        inputs={
            "hidden_states": source,
            "hidden_states_pool": waiting,
            "req_to_token": rows,
            **call.contiguous(
                *("input_ids", "positions", "out_cache_loc", "extend_start_loc", "extend_seq_lens"),
                *("next_tokens", "num_padding", "req_pool_indices", "forward_seq_lens"),
            ),
        },
        outputs={**call.returned(), "next_hidden_states": target},
    )
    return call.outputs


@planned
def _plan_growth(
    sizes: tuple[int, int, int, int], strides: tuple[int, int], num_words: int, num_kept: int, draft_layer: int
) -> Plan:
    num_requests, num_tokens, num_rows, row_width = sizes
    words = choose_block(max(num_words, 1), WORDS, INTERPRETED_WORDS)
    tokens = choose_block(ceil_div(num_tokens, num_requests) + 1, max(1, TILE // words), LARGEST_TILE // words)
    return Plan(
        kernels._assign_new_state_kernel,
        grid=(num_requests, max(ceil_div(num_words, words), 1)),
        sizes={
            "num_tokens": num_tokens,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": strides[0],
            "position_stride": strides[1],
            "num_words": num_words,
            "num_kept": num_kept,
            "draft_layer": draft_layer,
        },
        tunables={"TOKENS": tokens, "WORDS": words},
    )


def assign_hidden_states_pool(
    hidden_states: torch.Tensor,
    extend_start_loc: torch.Tensor,
    num_committed: torch.Tensor,
    req_pool_indices: torch.Tensor,
    hidden_states_pool: torch.Tensor,
) -> None:
    """Append hidden states of committed positions, in place; a program owns some words of a request, oldest first."""
    run("assign_hidden_states_pool", launch_assign_hidden_states_pool, locals())


def launch_assign_hidden_states_pool(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    axes, hidden, pool = call.axes, call.arguments["hidden_states"], call.arguments["hidden_states_pool"]
    if not axes["request"] or not pool.numel():
        return
    packed = pool.contiguous()
    source, target = _alike(hidden.contiguous(), packed.flatten(0, 1))
    launch(
        _plan_append(axes["request"], axes["token"], axes["row"], target.shape[1], axes["kept"]),
        inputs={
            "hidden_states": source,
            **call.contiguous("extend_start_loc", "num_committed", "req_pool_indices"),
        },
        outputs={"hidden_states_pool": target},
    )
    if packed is not pool:
        pool.copy_(packed)


@planned
def _plan_append(num_requests: int, num_tokens: int, num_rows: int, num_words: int, num_kept: int) -> Plan:
    words = choose_block(num_words, WORDS, INTERPRETED_WORDS)
    return Plan(
        kernels._assign_hidden_states_pool_kernel,
        grid=(num_requests, ceil_div(num_words, words)),
        sizes={"num_tokens": num_tokens, "num_rows": num_rows, "num_words": num_words, "num_kept": num_kept},
        tunables={"WORDS": words},
    )


def _alike(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """View contiguous tensors [row, ...] as [row, word] in the widest word that fits all of them."""
    if not all(one.numel() for one in tensors):
        return [one.reshape(one.shape[0], prod(one.shape[1:])) for one in tensors]
    words = [words_of(one) for one in tensors]
    narrowest = min((one.dtype for one in words), key=lambda one: one.itemsize)
    return [one.view(narrowest) for one in words]
