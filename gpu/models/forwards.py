"""Model forwards on the GPU: a launch to write a layer's entries, a launch to fold them.

Rows that pad a batch (slot 0, length 1) write the dump slot and read it; they are never out of bounds.
"""

from collections.abc import Sequence

import torch

from specsim.gpu.kernels.models import forwards as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import DraftDecodeForwardOutputs, DraftExtendForwardOutputs

ROWS = 128
"""Rows that a program writes: one a thread of four warps."""

QUERIES, INTERPRETED_QUERIES = 32, 256
"""Queries of one request that a program folds: a key's digest is computed once for all of them."""

KEYS, BEAM_KEYS, INTERPRETED_KEYS = 128, 256, 64
"""Keys that a program digests at a time, for a block of queries and for one beam."""

INTERPRETED_BEAMS = 1024
"""Beams or rows of an interpreted program, which costs by the program and hardly by what it holds."""

Pool = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Slots of a layer's buffers, and the strides of its keys and values."""


def target_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    tree_mask: torch.Tensor | None = None,
    page_size: int = 1,
) -> torch.Tensor:
    """Write the target KV of the new tokens, then fold what each of them may see into its hidden state.

    A program folds a block of queries of one request; the digest of a key is computed once for all of them.
    """
    return run("target_forward", launch_target_forward, locals())


def launch_target_forward(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    hidden_states, num_layers = call.outputs, call.axes["layer"]
    if not call.axes["token"] or not call.axes["request"]:
        return hidden_states
    for layer in range(num_layers):
        below = None if layer == 0 else hidden_states[:, layer - 1]
        context_word = hidden_states[:, num_layers] if layer == 0 else None
        _store_entries(call, layer, below)
        _fold_pages(call, layer, hidden_states[:, layer], context_word, call.arguments["tree_mask"])
    return hidden_states


def draft_extend_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    page_size: int = 1,
) -> DraftExtendForwardOutputs[torch.Tensor]:
    """Run the draft model over several new tokens a request, causal; folds as ``target_forward`` does."""
    return run("draft_extend_forward", launch_draft_extend_forward, locals())


def launch_draft_extend_forward(call: Call) -> DraftExtendForwardOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    if not call.axes["token"] or not call.axes["request"]:
        return call.outputs
    folds = _folds(call)
    for layer in range(call.axes["layer"]):
        _store_entries(call, layer, _below(call, layer, folds))
        _fold_pages(call, layer, folds[:, layer], None, None)
    _advance(call, folds)
    return call.outputs


def draft_decode_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
) -> DraftDecodeForwardOutputs[torch.Tensor]:
    """Run the draft model over one new token a beam; a program folds a block of beams."""
    return run("draft_decode_forward", launch_draft_decode_forward, locals())


def launch_draft_decode_forward(call: Call) -> DraftDecodeForwardOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    if not call.axes["token"]:
        return call.outputs
    folds = _folds(call)
    for layer in range(call.axes["layer"]):
        _store_entries(call, layer, _below(call, layer, folds))
        fold_listed_keys(call, layer, folds)
    _advance(call, folds)
    return call.outputs


def fold_listed_keys(call: Call, layer: int, folds: torch.Tensor) -> None:
    """Fold what each beam's list of slots holds at a layer into a column."""
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    launch(
        _plan_fold_rows(
            call.axes["token"], call.arguments["kv_indices"].numel(), _pool_of(keys, values), folds.stride(0)
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


def _store_entries(call: Call, layer: int, below: torch.Tensor | None) -> None:
    """Write a layer's K and V; a matrix below is digested, a column is taken as it is, None is 0."""
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    launch(
        _plan_store(
            call.axes["token"],
            layer,
            _pool_of(keys, values),
            None if below is None else below.stride(0),
            below.shape[1] if below is not None and below.ndim == 2 else 0,
        ),
        inputs={
            **call.contiguous("input_ids", "positions", "out_cache_loc"),
            **({} if below is None else {"below": below}),
        },
        outputs={"keys": keys, "values": values},
    )


@planned
def _plan_store(num_tokens: int, layer: int, pool: Pool, below_stride: int | None, num_digested: int) -> Plan:
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    return Plan(
        kernels._store_entries_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={
            **_sizes_of(pool),
            "below_stride": below_stride or 0,
            "component": 2 * layer,
            "num_tokens": num_tokens,
        },
        constants={"NUM_DIGESTED": num_digested, **({"below_ptr": None} if below_stride is None else {})},
        tunables={"ROWS": rows},
    )


def _fold_pages(
    call: Call,
    layer: int,
    folds: torch.Tensor,
    context_word: torch.Tensor | None,
    tree_mask: torch.Tensor | None,
) -> None:
    keys, values = call.arguments["kv_buffers"][2 * layer : 2 * layer + 2]
    page_table = call.arguments["page_table"]
    launch(
        _plan_fold_pages(
            call.axes["request"],
            call.axes["token"],
            _pool_of(keys, values),
            (page_table.shape[1], *page_table.stride()),
            call.axes["page_size"],
            folds.stride(0),
            None if tree_mask is None else tree_mask.numel(),
            context_word is not None,
        ),
        inputs={
            "keys": keys,
            "values": values,
            "page_table": page_table,
            **call.contiguous("positions", "cache_seqlens", "cu_seqlens_q"),
            **({} if tree_mask is None else {"tree_mask": tree_mask.contiguous()}),
        },
        outputs={"folds": folds, **({} if context_word is None else {"context_word": context_word})},
    )


@planned
def _plan_fold_pages(
    num_requests: int,
    num_tokens: int,
    pool: Pool,
    pages: tuple[int, int, int],
    page_size: int,
    fold_stride: int,
    num_mask_entries: int | None,
    has_context: bool,
) -> Plan:
    queries = choose_block(ceil_div(num_tokens, num_requests), QUERIES, INTERPRETED_QUERIES)
    keys = choose_block(LARGEST_TILE, KEYS, INTERPRETED_KEYS)
    # NOTE: lengths are on the device; a request of n queries needs ceil(n / queries) items, all together at most this.
    most_items = num_requests + num_tokens // queries
    items = choose_block(most_items, 1, max(1, LARGEST_TILE // (queries * keys)))
    num_pages, page_row_stride, page_stride = pages
    absent = ["tree_mask_ptr"] if num_mask_entries is None else []
    absent += [] if has_context else ["context_word_ptr"]
    return Plan(
        kernels._fold_pages_kernel,
        grid=(ceil_div(most_items, items),),
        sizes={
            **_sizes_of(pool),
            "page_row_stride": page_row_stride,
            "page_stride": page_stride,
            "fold_stride": fold_stride,
            "page_size": page_size,
            "num_requests": num_requests,
            "num_tokens": num_tokens,
            "num_positions": num_pages * page_size,
            "num_mask_entries": num_mask_entries or 0,
        },
        constants={"REQUESTS": power_of_two(num_requests), **dict.fromkeys(absent)},
        tunables={"ITEMS": items, "QUERIES": queries, "KEYS": keys},
    )


@planned
def _plan_fold_rows(num_tokens: int, num_locations: int, pool: Pool, fold_stride: int) -> Plan:
    rows = choose_block(num_tokens, 1, INTERPRETED_BEAMS)
    return Plan(
        kernels._fold_rows_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={
            **_sizes_of(pool),
            "fold_stride": fold_stride,
            "num_tokens": num_tokens,
            "num_locations": num_locations,
        },
        tunables={"ROWS": rows, "KEYS": choose_block(LARGEST_TILE, BEAM_KEYS, INTERPRETED_KEYS)},
    )


def _advance(call: Call, folds: torch.Tensor) -> None:
    """Advance the hidden states by one token and digest the folds; a program owns a block of rows."""
    launch(
        _plan_advance(call.axes["token"], call.axes["layer"], call.axes["hidden"]),
        inputs={**call.contiguous("input_ids", "hidden_states", "positions"), "folds": folds},
        outputs=call.returned(),
    )


@planned
def _plan_advance(num_tokens: int, num_layers: int, num_words: int) -> Plan:
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    return Plan(
        kernels._advance_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={"num_tokens": num_tokens},
        constants={"NUM_WORDS": num_words, "NUM_LAYERS": num_layers},
        tunables={"ROWS": rows},
    )


def _pool_of(keys: torch.Tensor, values: torch.Tensor) -> Pool:
    """Return how many slots a layer's buffers have, and how their entries lie."""
    return keys.shape[0], keys.stride(), values.stride()


def _sizes_of(pool: Pool) -> dict[str, int]:
    """Return the slots of a layer's buffers, and the strides from slot to slot and from word to word."""
    num_slots, key_strides, value_strides = pool
    return {
        "num_slots": num_slots,
        "key_slot_stride": key_strides[0],
        "key_word_stride": key_strides[1],
        "value_slot_stride": value_strides[0],
        "value_word_stride": value_strides[1],
    }
