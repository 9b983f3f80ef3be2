"""What V1 makes of the verify slots: accepted positions stay, everything else goes back, lengths move on."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.counts import count_tokens, page_size_of_beams
from specsim.host.truncation import Truncation
from specsim.phases import EagleDraftExtendInput, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.worker.pools import Pools
from specsim.simulation.models.description import Side

Reclaimed = tuple[EagleDraftExtendInput, EagleDraftExtendInput]
"""What all requests hand over, and what those that go on take with them."""


def reclaim(
    row: Array,
    verify_input: VerifyInput,
    verify_output: VerifyOutput,
    truncation: Truncation,
    topk: int,
    page_size: int,
    pools: Pools,
    free: Callable[[Array], None],
    operations: CallsByName,
) -> Reclaimed:
    """Keep the slots of the accepted positions and free what no page of a request needs.

    Slot by slot, and after a chain, the map follows the KV. A tree on larger pages brings its KV to the front of the
    window instead, so that whole pages fall free after it.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    truncation : Truncation
        The paths, cut where their requests ended.
    free : callable
        Takes slots back.

    Notes
    -----
    Source: semantics C.7.
    """
    is_paged_tree = page_size_of_beams(topk, page_size) > 1
    unfinished = [request for request, finish in enumerate(truncation.finishes) if finish is None]
    if is_paged_tree:
        slots = _move_to_the_front(verify_input, truncation, page_size, pools, free, operations)
        return _hand_over(row, verify_input, verify_output, truncation, slots, unfinished, operations)
    slots = _map(row, verify_input, truncation, page_size, pools, free, operations)
    seq_lens = verify_input.seq_lens + count_tokens(truncation.batch_num_accepted_drafts)
    everyone = collect_extend_input(row, seq_lens, slots, verify_output, truncation)
    return everyone, operations.filter_batch(everyone, unfinished, False)


def _map(
    row: Array,
    verify_input: VerifyInput,
    truncation: Truncation,
    page_size: int,
    pools: Pools,
    free: Callable[[Array], None],
    operations: CallsByName,
) -> Array:
    """Map the accepted positions, free every other slot whose page no one needs; return the slots that are mapped."""
    out_cache_loc, accept_index = verify_input.out_cache_loc, truncation.accept_index
    evict_mask = operations.remap_accepted_slots(
        row, pools.req_to_token, verify_input.seq_lens, out_cache_loc, accept_index
    )
    if page_size > 1:
        operations.align_evict_mask_to_page_size(
            verify_input.seq_lens, evict_mask, verify_input.num_draft_tokens, page_size
        )
    free(out_cache_loc[evict_mask])
    slots: Array = out_cache_loc[accept_index[accept_index >= 0]]
    return slots


def _move_to_the_front(
    verify_input: VerifyInput,
    truncation: Truncation,
    page_size: int,
    pools: Pools,
    free: Callable[[Array], None],
    operations: CallsByName,
) -> Array:
    """Move accepted KV to the front of each window, free the pages after it; return where the KV lies.

    The map says so already. Among the freed slots may be sources, so that nothing is freed before the move.
    """
    accept_index, num_accepted_drafts = truncation.accept_index, truncation.batch_num_accepted_drafts
    num_nodes, out_cache_loc = verify_input.num_draft_tokens, verify_input.out_cache_loc
    source_slots, to_free_num_slots = operations.get_src_tgt_cache_loc(
        verify_input.seq_lens, out_cache_loc, accept_index[accept_index >= 0], num_accepted_drafts, num_nodes, page_size
    )
    target_slots, to_free_slots = operations.get_target_cache_loc(
        num_accepted_drafts,
        to_free_num_slots,
        out_cache_loc,
        num_nodes,
        len(source_slots),
        int(to_free_num_slots.sum()),
    )
    pools.move_kv(Side.TARGET, target_slots, source_slots, operations)
    free(to_free_slots)
    moved: Array = target_slots
    return moved


def _hand_over(
    row: Array,
    verify_input: VerifyInput,
    verify_output: VerifyOutput,
    truncation: Truncation,
    slots: Array,
    unfinished: list[int],
    operations: CallsByName,
) -> Reclaimed:
    """Let the lengths of all requests move on, and keep the slots of those that go on."""
    num_accepted_drafts, seq_lens = truncation.batch_num_accepted_drafts, verify_input.seq_lens.copy()
    num_unfinished_tokens = operations.create_num_accepted_drafts_filter(
        num_accepted_drafts, np.array(unfinished, dtype=np.int64), seq_lens
    )
    kept = operations.filter_finished_cache_loc(
        slots, num_accepted_drafts, num_unfinished_tokens, int(num_unfinished_tokens.sum())
    )
    everyone = collect_extend_input(row, seq_lens, slots, verify_output, truncation)
    return everyone, replace(operations.filter_batch(everyone, unfinished, False), out_cache_loc=kept)


def collect_extend_input(
    row: Array, seq_lens: Array, slots: Array, verify_output: VerifyOutput, truncation: Truncation
) -> EagleDraftExtendInput:
    """Flatten the accepted paths of all requests, as far as their ends left them.

    Parameters
    ----------
    row, seq_lens : int64 [request]
        Row of each request, and its length after the verify.
    slots : int64 [token]
        Slot of each accepted position.
    truncation : Truncation
        The paths, cut where their requests ended.

    Notes
    -----
    Source: semantics C.2, D.1.
    """
    expect_phase(verify_output, PhaseTag.EAGLE_VERIFY_OUTPUT)
    accept_indices = truncation.accept_index[truncation.accept_index >= 0]
    hidden_states = verify_output.hidden_states
    num_accepted_drafts = truncation.batch_num_accepted_drafts
    num_accepted_tokens = count_tokens(num_accepted_drafts)
    return EagleDraftExtendInput(
        req_pool_indices=row,
        seq_lens=seq_lens,
        seq_lens_cpu=tuple(seq_lens.tolist()),
        num_accepted_drafts=num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        num_accepted_tokens_cpu=tuple(num_accepted_tokens.tolist()),
        input_ids=verify_output.predict[accept_indices].astype(np.int64),
        hidden_states=None if hidden_states is None else hidden_states[accept_indices],
        out_cache_loc=slots,
    )
