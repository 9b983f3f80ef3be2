"""Model forwards on the GPU: a launch to write a layer's entries, a launch to fold them.

Rows that pad a batch (slot 0, length 1) write the dump slot and read it; they are never out of bounds.
"""

import torch

from specsim.gpu.kernels.models import forwards as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

ROWS = 128
"""Rows that a program writes: one a thread of four warps."""

QUERIES, INTERPRETED_QUERIES = 32, 256
"""Queries of one request that a program folds: a key's digest is computed once for all of them."""

KEYS, BEAM_KEYS, INTERPRETED_KEYS = 128, 256, 64
"""Keys that a program digests at a time, for a block of queries and for one beam."""

INTERPRETED_BEAMS = 1024
"""Beams or rows of an interpreted program, which costs by the program and hardly by what it holds."""


@operation
def target_forward(call: Call) -> list[Launch]:
    """Write the target KV of the new tokens, then fold what each of them may see into its hidden state.

    A program folds a block of queries of one request; the digest of a key is computed once for all of them.
    """
    hidden_states, num_layers = call.outputs, call.axes["layer"]
    if not call.axes["token"] or not call.axes["request"]:
        return []
    launches = []
    for layer in range(num_layers):
        below = None if layer == 0 else hidden_states[:, layer - 1]
        context_word = hidden_states[:, num_layers] if layer == 0 else None
        launches.append(_store_entries(call, layer, below))
        launches.append(_fold_pages(call, layer, hidden_states[:, layer], context_word, call.arguments["tree_mask"]))
    return launches


@operation
def draft_extend_forward(call: Call) -> list[Launch]:
    """Run the draft model over several new tokens a request, causal; folds as ``target_forward`` does."""
    if not call.axes["token"] or not call.axes["request"]:
        return []
    folds, launches = _folds(call), []
    for layer in range(call.axes["layer"]):
        launches.append(_store_entries(call, layer, _below(call, layer, folds)))
        launches.append(_fold_pages(call, layer, folds[:, layer], None, None))
    return [*launches, _advance(call, folds)]


@operation
def draft_decode_forward(call: Call) -> list[Launch]:
    """Run the draft model over one new token a beam; a program folds a block of beams."""
    if not call.axes["token"]:
        return []
    folds, launches = _folds(call), []
    for layer in range(call.axes["layer"]):
        launches.append(_store_entries(call, layer, _below(call, layer, folds)))
        launches.append(fold_listed_keys(call, layer, folds))
    return [*launches, _advance(call, folds)]


def fold_listed_keys(call: Call, layer: int, folds: torch.Tensor) -> Launch:
    """Fold what each beam's list of slots holds at a layer into a column."""
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    num_tokens = call.axes["token"]
    rows = choose_block(num_tokens, 1, INTERPRETED_BEAMS)
    return Launch(
        Plan(
            kernels._fold_rows_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={
                **_sizes_of(keys, values),
                "fold_stride": folds.stride(0),
                "num_tokens": num_tokens,
                "num_locations": call.arguments["kv_indices"].numel(),
            },
            tunables={"ROWS": rows, "KEYS": choose_block(LARGEST_TILE, BEAM_KEYS, INTERPRETED_KEYS)},
        ),
        inputs={"keys": keys, "values": values, **call.contiguous("kv_indices", "kv_indptr")},
        outputs={"folds": folds[:, layer]},
    )


def _folds(call: Call) -> torch.Tensor:
    """Return room for the fold of every new token at every layer."""
    return call.scratch(call.axes["token"], call.axes["layer"], dtype=torch.int64)


def _below(call: Call, layer: int, folds: torch.Tensor) -> torch.Tensor:
    """Return what a layer's entries digest: the hidden states, or the folds of the layer below."""
    return call.arguments["hidden_states"].contiguous() if layer == 0 else folds[:, layer - 1]


def _store_entries(call: Call, layer: int, below: torch.Tensor | None) -> Launch:
    """Write a layer's K and V; a matrix below is digested, a column is taken as it is, None is 0."""
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    num_tokens = call.axes["token"]
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    return Launch(
        Plan(
            kernels._store_entries_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={
                **_sizes_of(keys, values),
                "below_stride": 0 if below is None else below.stride(0),
                "component": 2 * layer,
                "num_tokens": num_tokens,
            },
            constants={
                "NUM_DIGESTED": below.shape[1] if below is not None and below.ndim == 2 else 0,
                **({"below_ptr": None} if below is None else {}),
            },
            tunables={"ROWS": rows},
        ),
        inputs={
            **call.contiguous("input_ids", "positions", "out_cache_loc"),
            **({} if below is None else {"below": below}),
        },
        outputs={"keys": keys, "values": values},
    )


def _fold_pages(
    call: Call,
    layer: int,
    folds: torch.Tensor,
    context_word: torch.Tensor | None,
    tree_mask: torch.Tensor | None,
) -> Launch:
    """Fold what each query sees of a layer into a column, and its context into another one where that is asked for."""
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    page_table = call.arguments["page_table"]
    num_requests, num_tokens, page_size = (call.axes[name] for name in ("request", "token", "page_size"))
    queries = choose_block(ceil_div(num_tokens, num_requests), QUERIES, INTERPRETED_QUERIES)
    num_keys = choose_block(LARGEST_TILE, KEYS, INTERPRETED_KEYS)
    # NOTE: lengths are on the device; a request of n queries needs ceil(n / queries) items, all together at most this.
    most_items = num_requests + num_tokens // queries
    items = choose_block(most_items, 1, max(1, LARGEST_TILE // (queries * num_keys)))
    absent = ["tree_mask_ptr"] if tree_mask is None else []
    absent += ["context_word_ptr"] if context_word is None else []
    return Launch(
        Plan(
            kernels._fold_pages_kernel,
            grid=(ceil_div(most_items, items),),
            sizes={
                "num_slots": keys.shape[0],
                "kv_strides": (*keys.stride(), *values.stride()),
                "page_strides": page_table.stride(),
                "fold_stride": folds.stride(0),
                "page_size": page_size,
                "num_requests": num_requests,
                "num_tokens": num_tokens,
                "num_positions": page_table.shape[1] * page_size,
                "num_mask_entries": 0 if tree_mask is None else tree_mask.numel(),
            },
            constants={"REQUESTS": power_of_two(num_requests), **dict.fromkeys(absent)},
            tunables={"ITEMS": items, "QUERIES": queries, "KEYS": num_keys},
        ),
        inputs={
            "kv": (keys, values),
            "page_table": page_table,
            "length": call.group("cache_seqlens", "cu_seqlens_q"),
            **call.contiguous("positions"),
            **({} if tree_mask is None else {"tree_mask": tree_mask.contiguous()}),
        },
        outputs={"folds": folds, **({} if context_word is None else {"context_word": context_word})},
    )


def _advance(call: Call, folds: torch.Tensor) -> Launch:
    """Advance the hidden states by one token and digest the folds; a program owns a block of rows."""
    num_tokens = call.axes["token"]
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    return Launch(
        Plan(
            kernels._advance_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={"num_tokens": num_tokens},
            constants={"NUM_WORDS": call.axes["hidden"], "NUM_LAYERS": call.axes["layer"]},
            tunables={"ROWS": rows},
        ),
        inputs={**call.contiguous("input_ids", "hidden_states", "positions"), "folds": folds},
        outputs=call.returned(),
    )


def _sizes_of(keys: torch.Tensor, values: torch.Tensor) -> dict[str, int]:
    """Return the slots of a layer's buffers, and the strides from slot to slot and from word to word."""
    return {
        "num_slots": keys.shape[0],
        **strides_of(keys, "key_slot", "key_word"),
        **strides_of(values, "value_slot", "value_word"),
    }
