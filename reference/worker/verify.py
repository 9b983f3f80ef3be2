"""The verify phase: the target runs over the trees, and the longest path that it agrees with is accepted."""

from collections.abc import Callable
from typing import Any

from specsim.conformance.arrays import Array
from specsim.counts import count_tokens
from specsim.phases import PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.worker.heads import Heads
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.sampling import accept


def verify(
    row: Array, phase: VerifyInput, num_steps: int, pools: Pools, heads: Heads, call: Callable[..., Any]
) -> VerifyOutput:
    """Run the target over every tree and accept: greedily, or by chance where a request is sampled.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    phase : VerifyInput
        The trees, and the slots that they are written to.
    num_steps : int
        Depth of a tree: the most drafts that are accepted.
    call : callable
        Runs an operation by name.

    Notes
    -----
    Source: semantics B.3, B.6, B.8, C.3.
    """
    expect_phase(phase, PhaseTag.EAGLE_VERIFY)
    cache_seqlens, cu_seqlens_q, page_table = verify_metadata(row, phase, pools, call)
    hidden_states = call(
        "target_forward",
        kv_buffers=pools.target_kv,
        input_ids=phase.draft_token,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        page_table=page_table,
        cache_seqlens=cache_seqlens,
        cu_seqlens_q=cu_seqlens_q,
        tree_mask=phase.tree_mask,
        page_size=1,
    )
    target_predict = heads.target_predict(hidden_states)
    predict, accept_index, num_accepted_drafts = accept(
        row, phase, hidden_states, target_predict, num_steps, heads, call
    )
    num_accepted_tokens = count_tokens(num_accepted_drafts)
    accept_tokens = call("gather_accept_tokens", predict=predict, accept_index=accept_index)
    bonus_tokens = call("fill_bonus_tokens", accept_tokens=accept_tokens, num_accepted_tokens=num_accepted_tokens)
    return VerifyOutput(
        target_predict=target_predict,
        predict=predict,
        accept_index=accept_index,
        num_accepted_drafts=num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        bonus_tokens=bonus_tokens,
        hidden_states=hidden_states,
    )


def verify_metadata(
    row: Array, phase: VerifyInput, pools: Pools, call: Callable[..., Any]
) -> tuple[Array, Array, Array]:
    """Return key counts, query offsets and page table of a forward over all nodes."""
    longest = int(phase.seq_lens.max(initial=0)) + (phase.num_draft_tokens if len(row) else 0)
    cache_seqlens, cu_seqlens_q, _, page_table = call(
        "target_verify_metadata",
        req_pool_indices=row,
        req_to_token=pools.req_to_token,
        seq_lens=phase.seq_lens,
        num_tokens=len(phase.draft_token),
        max_seq_len_k=longest,
        page_size=1,
    )
    return cache_seqlens, cu_seqlens_q, page_table
