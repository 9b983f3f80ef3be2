"""V1 after verify: the ragged hand-over to the draft model, its forward, and what starts the next draft."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.assertion import require_kind
from specsim.conformance.arrays import Array
from specsim.counts import count_tokens
from specsim.host.truncation import Truncation
from specsim.phases import (
    Batch,
    DraftInput,
    EagleDraftExtendInput,
    ForwardMode,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.reference.worker.heads import Heads
from specsim.reference.worker.pools import Pools


def collect_extend_input(
    row: Array, verify_input: VerifyInput, verify_output: VerifyOutput, truncation: Truncation
) -> EagleDraftExtendInput:
    """Flatten the accepted paths of all requests, as far as their ends left them.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    truncation : Truncation
        The paths, cut where their requests ended.

    Notes
    -----
    Source: semantics C.2, D.1.
    """
    expect_phase(verify_output, PhaseTag.EAGLE_VERIFY_OUTPUT)
    accept_indices = truncation.accept_index[truncation.accept_index >= 0]
    num_accepted_drafts = truncation.batch_num_accepted_drafts
    num_accepted_tokens = count_tokens(num_accepted_drafts)
    seq_lens = verify_input.seq_lens + num_accepted_tokens
    return EagleDraftExtendInput(
        req_pool_indices=row,
        seq_lens=seq_lens,
        seq_lens_cpu=tuple(seq_lens.tolist()),
        num_accepted_drafts=num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        num_accepted_tokens_cpu=tuple(num_accepted_tokens.tolist()),
        input_ids=verify_output.predict[accept_indices].astype(np.int64),
        hidden_states=verify_output.hidden_states[accept_indices],
        out_cache_loc=verify_input.out_cache_loc[accept_indices],
    )


def prepare_extend_after_decode(batch: Batch, num_steps: int, call: Callable[..., Any]) -> Batch:
    """Return the batch as the draft-extend sees it: the requests that go on, their positions and bonus tokens.

    Parameters
    ----------
    batch : Batch
        With a ragged draft-extend input installed; it is left as it is.
    num_steps : int
        Depth of a tree: a request has at most one token more.
    call : callable
        Runs an operation by name.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: something else is installed.

    Notes
    -----
    Source: semantics D.2, D.3.
    """
    expect_phase(batch.info, PhaseTag.EAGLE_DRAFT_EXTEND)
    phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
    positions, bonus_tokens = call(
        "create_extend_after_decode_spec_info",
        input_ids=phase.input_ids,
        seq_lens=phase.seq_lens,
        num_accepted_tokens=phase.num_accepted_tokens,
    )
    return Batch(
        mode=ForwardMode.DRAFT_EXTEND if phase.num_requests else ForwardMode.IDLE,
        req_pool_indices=phase.req_pool_indices,
        seq_lens=phase.seq_lens,
        info=replace(
            phase,
            positions=positions,
            bonus_tokens=bonus_tokens,
            num_tokens_per_req=int(count_tokens(num_steps)),
        ),
    )


def forward_draft_extend(batch: Batch, pools: Pools, heads: Heads, call: Callable[..., Any]) -> DraftInput:
    """Run the draft model over the accepted tokens; the last row of each request starts its next draft.

    Parameters
    ----------
    batch : Batch
        As ``prepare_extend_after_decode`` returns it.

    Notes
    -----
    Source: semantics D.4, D.5.
    """
    expect_phase(batch.info, PhaseTag.EAGLE_DRAFT_EXTEND)
    phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
    qo_indptr, kv_indptr, kv_indices = call(
        "generate_attn_arg_prefill",
        req_pool_indices=phase.req_pool_indices,
        req_to_token=pools.req_to_token,
        kv_lens=phase.seq_lens,
        num_accepted_tokens=phase.num_accepted_tokens,
        kv_lens_sum=sum(phase.seq_lens_cpu),
    )
    next_hidden_states, context = call(
        "draft_extend_forward",
        kv_buffers=pools.draft_kv,
        input_ids=phase.input_ids,
        hidden_states=phase.hidden_states,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        page_table=_page_table(kv_indptr, kv_indices),
        cache_seqlens=np.diff(kv_indptr),
        cu_seqlens_q=qo_indptr,
        page_size=1,
    )
    last = qo_indptr[1:] - 1
    topk_p, topk_index = heads.propose(next_hidden_states[last], context[last], depth=1)
    return DraftInput(
        req_pool_indices=phase.req_pool_indices,
        seq_lens=phase.seq_lens,
        topk_p=topk_p,
        topk_index=topk_index,
        hidden_states=next_hidden_states[last],
        bonus_tokens=phase.bonus_tokens,
    )


def _page_table(kv_indptr: Array, kv_indices: Array) -> Array:
    """Return int32 [request, position], one row of slots a request, padded with the dump."""
    lengths = np.diff(kv_indptr)
    table = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int32)
    for request, length in enumerate(lengths):
        table[request, :length] = kv_indices[kv_indptr[request] : kv_indptr[request + 1]]
    return table
