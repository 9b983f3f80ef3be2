"""After verify, for V2: KV, ids and hidden states of the accepted path go where they stay."""

from typing import Any

from specsim.phases import DraftExtendInput, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.worker.pools import Pools
from specsim.simulation.draft_sides.layer import Compacted
from specsim.simulation.models.description import Side


def compact(verify_input: VerifyInput, phase: VerifyOutput, is_chain: bool, operations: Any) -> Compacted:
    """Bring ids and hidden states of the accepted path to the front of its request; a chain has them there.

    Notes
    -----
    Source: semantics C.5, D.6.
    """
    expect_phase(phase, PhaseTag.EAGLE_VERIFY_OUTPUT)
    num_nodes = verify_input.num_draft_tokens
    predict, hidden_states = phase.predict, phase.hidden_states
    if not is_chain:
        predict = operations.compact_accepted_to_front(predict, phase.accept_index)
        if hidden_states is not None:
            hidden_states = operations.compact_accepted_to_front(hidden_states, phase.accept_index)
    prepared = operations.prepare_for_extend_to_fill_draft_kvcache(
        verify_input.seq_lens, phase.num_accepted_tokens, num_nodes
    )
    extend_input = DraftExtendInput(
        input_ids=predict.astype("int64"),
        hidden_states=hidden_states,
        positions=prepared.positions,
        out_cache_loc=verify_input.out_cache_loc,
        forward_seq_lens=prepared.forward_seq_lens,
        num_accepted_drafts=phase.num_accepted_drafts,
        num_accepted_tokens=phase.num_accepted_tokens,
        select_index=prepared.select_index,
        num_draft_tokens=num_nodes,
    )
    return extend_input, verify_input.seq_lens + phase.num_accepted_tokens, predict


def move_accepted(
    verify_input: VerifyInput, phase: VerifyOutput, num_steps: int, pools: Pools, operations: Any
) -> None:
    """Move the KV of the accepted path to the front of each request's slots (semantics C.4, C.6)."""
    source_slots = operations.fill_accept_out_cache_loc(phase.accept_index, verify_input.out_cache_loc)
    target_slots = operations.fill_accept_target_cache_loc(
        phase.num_accepted_tokens, verify_input.out_cache_loc, num_steps
    )
    pools.move_kv(Side.TARGET, target_slots, source_slots, operations)
