"""Batches with rows of padding after those of live requests, and what their forwards return without them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specsim.phases import ForwardBatch, ForwardOutput, post_forward_mlp_sync_batch
from specsim.phases.padding import Pad
from specsim.simulation.models.batches import (
    DraftExtendBatch,
    DraftOutput,
    DraftStepBatch,
    ListedKeys,
    PagedKeys,
    TargetBatch,
    TargetOutput,
    WindowKeys,
)
from specsim.simulation.models.kv_pool import KVPool

Buffers = Mapping[str, Sequence[Any]]


def keys_with_rows(keys: PagedKeys[Any], count: int, width: int, prefix: int, pad: Pad) -> PagedKeys[Any]:
    """Return keys with so many rows more, each of so many new tokens after a prefix, all of it in the dump."""
    if not count:
        return PagedKeys(keys.page_table, keys.cache_seqlens, keys.cu_seqlens_q, keys.page_size)
    num_pages = -(-(prefix + width) // keys.page_size)
    table = pad(keys.page_table, 1, max(0, num_pages - keys.page_table.shape[1]), 0)
    starts = pad(keys.cu_seqlens_q, 0, count, 0)
    num_live = len(keys.cache_seqlens)
    for row in range(num_live, num_live + count):
        starts[row + 1] = starts[row] + width
    return PagedKeys(
        pad(table, 0, count, 0),
        pad(keys.cache_seqlens, 0, count, prefix + width),
        starts,
        keys.page_size,
    )


def lists_with_rows(keys: ListedKeys[Any], count: int, pad: Pad) -> ListedKeys[Any]:
    """Return keys with so many tokens more, which see nothing."""
    indptr = pad(keys.kv_indptr, 0, count, 0)
    indptr[len(keys.kv_indptr) :] = keys.kv_indptr[-1]
    return ListedKeys(keys.kv_indices, indptr, keys.max_num_keys)


def target_batch(
    batch: TargetBatch[Any], padded: ForwardBatch, keys: PagedKeys[Any], extra: int, pad: Pad
) -> TargetBatch[Any]:
    """Return a batch of the target on the rows of a padded one; ``keys`` have ``extra`` rows more."""
    window = batch.window_keys
    if window is not None:
        # NOTE: a table of SWA slots has the rows and columns of the table of full ones.
        table = pad(window.page_table, 1, keys.page_table.shape[1] - window.page_table.shape[1], 0)
        window = WindowKeys(window.kv, padded.swa_out_cache_loc, pad(table, 0, extra, 0), window.window)
    return replace(
        batch,
        input_ids=padded.input_ids,
        positions=padded.positions,
        out_cache_loc=padded.out_cache_loc,
        keys=keys,
        window_keys=window,
    )


def step_batch(batch: DraftStepBatch[Any], padded: ForwardBatch, pad: Pad) -> DraftStepBatch[Any]:
    """Return a step on the rows of a padded one; beams of padding see nothing."""
    return replace(
        batch,
        req_pool_indices=padded.req_pool_indices,
        input_ids=padded.input_ids,
        positions=padded.positions,
        out_cache_loc=padded.out_cache_loc,
        hidden_states=padded.hidden_states,
        keys=lists_with_rows(batch.keys, padded.num_tokens - len(batch.input_ids), pad),
    )


def extend_batch(
    batch: DraftExtendBatch[Any], padded: ForwardBatch, keys: PagedKeys[Any], pad: Pad
) -> DraftExtendBatch[Any]:
    """Return an extend on the rows of a padded one; each row of padding is a request of its own, and is selected."""
    num_live, num_tokens = len(batch.select), len(batch.input_ids)
    extra = padded.num_tokens - num_tokens
    select = pad(batch.select, 0, extra, 0)
    for place in range(extra):
        select[num_live + place] = num_tokens + place
    return replace(
        batch,
        req_pool_indices=pad(batch.req_pool_indices, 0, extra, 0),
        input_ids=padded.input_ids,
        positions=padded.positions,
        out_cache_loc=padded.out_cache_loc,
        hidden_states=padded.hidden_states,
        keys=keys,
        select=select,
    )


def live_target_output(padded: ForwardBatch, before: ForwardBatch, output: TargetOutput[Any]) -> TargetOutput[Any]:
    """Return the rows of live requests of what the target returned."""
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.logits, output.hidden_states))
    _, sampling = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.sampling_logits, None))
    return TargetOutput(kept.logits, kept.hidden_states, sampling.logits)


def live_draft_output(padded: ForwardBatch, before: ForwardBatch, output: DraftOutput[Any]) -> DraftOutput[Any]:
    """Return the rows of live requests of what the draft returned."""
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.probabilities, output.hidden_states))
    return DraftOutput(kept.logits, kept.hidden_states)


def opened(kv: Buffers, padded: ForwardBatch) -> Buffers:
    """Return buffers that know that the dump is written, too, where they know who writes them."""
    return kv.open(padded.out_cache_loc) if isinstance(kv, KVPool) else kv
