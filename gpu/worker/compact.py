"""After verify, for V2: KV, ids and hidden states of the accepted path go where they stay."""

from specsim import gpu
from specsim.gpu.worker.pools import Pools
from specsim.phases import DraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.description import Side


def compact(verify_input: VerifyInput, phase: VerifyOutput, is_chain: bool) -> DraftExtendInput:
    """Bring ids and hidden states of the accepted path to the front of its request; a chain has them there.

    Semantics C.5, D.6.
    """
    num_nodes = verify_input.num_draft_tokens
    predict, hidden_states = phase.predict, phase.hidden_states
    if not is_chain:
        predict = gpu.compact_accepted_to_front(predict, phase.accept_index)
        if hidden_states is not None:
            hidden_states = gpu.compact_accepted_to_front(hidden_states, phase.accept_index)
    positions, forward_seq_lens, select_index = gpu.prepare_for_extend_to_fill_draft_kvcache(
        verify_input.seq_lens, phase.num_accepted_tokens, num_nodes
    )
    return DraftExtendInput(
        input_ids=predict.long(),
        hidden_states=hidden_states,
        positions=positions,
        out_cache_loc=verify_input.out_cache_loc,
        forward_seq_lens=forward_seq_lens,
        num_accepted_drafts=phase.num_accepted_drafts,
        num_accepted_tokens=phase.num_accepted_tokens,
        select_index=select_index,
        num_draft_tokens=num_nodes,
    )


def move_accepted(verify_input: VerifyInput, phase: VerifyOutput, num_steps: int, pools: Pools) -> None:
    """Move the KV of the accepted path to the front of each request's slots (semantics C.4, C.6)."""
    source_slots = gpu.fill_accept_out_cache_loc(phase.accept_index, verify_input.out_cache_loc)
    target_slots = gpu.fill_accept_target_cache_loc(phase.num_accepted_tokens, verify_input.out_cache_loc, num_steps)
    pools.move_kv(Side.TARGET, target_slots, source_slots)
