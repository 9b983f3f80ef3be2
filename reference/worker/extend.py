"""The draft-extend: the draft catches up with the target, and what it proposes starts the next draft.

V2 extends ``node`` rows a request, V1 exactly the accepted tokens of the requests that go on.
"""

from dataclasses import replace

import numpy as np

from specsim.assertion import require_kind
from specsim.conformance.arrays import Array
from specsim.counts import count_tokens
from specsim.host.truncation import Truncation
from specsim.operations.protocol import Operations
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    ForwardMode,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.verify import verify_keys
from specsim.simulation.models.batches import DraftExtendBatch, PagedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model


def extend(
    row: Array,
    verify_input: VerifyInput,
    verify_output: VerifyOutput,
    phase: DraftExtendInput,
    topk: int,
    model: Model[Array],
    pools: Pools,
    operations: Operations[Array],
) -> DraftInput:
    """Run the draft model over ``node`` rows a request; the row after the accepted path starts the next draft.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    phase : DraftExtendInput
        As ``compact`` returns it.

    Notes
    -----
    Source: semantics D.6.
    """
    expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
    keys = verify_keys(row, verify_input, pools, operations)
    drafted = model.draft_extend(
        DraftExtendBatch(
            req_pool_indices=row,
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            keys=PagedKeys(keys.page_table, phase.forward_seq_lens.astype(np.int32), keys.cu_seqlens_q, 1),
            hidden_states=phase.hidden_states,
            select=phase.select_index,
        ),
        pools.open(Side.DRAFT, phase.out_cache_loc),
    )
    proposal = operations.fast_topk(drafted.probabilities, topk)
    return DraftInput(
        req_pool_indices=row,
        seq_lens=verify_input.seq_lens + phase.num_accepted_tokens,
        topk_p=proposal.topk_values,
        topk_index=proposal.topk_index,
        hidden_states=drafted.hidden_states,
        bonus_tokens=verify_output.bonus_tokens,
    )


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


def prepare_extend_after_decode(batch: Batch, num_steps: int, operations: Operations[Array]) -> Batch:
    """Return the batch as the draft-extend sees it: the requests that go on, their positions and bonus tokens.

    Parameters
    ----------
    batch : Batch
        With a ragged draft-extend input installed; it is left as it is.
    num_steps : int
        Depth of a tree: a request has at most one token more.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: something else is installed.

    Notes
    -----
    Source: semantics D.2, D.3.
    """
    expect_phase(batch.info, PhaseTag.EAGLE_DRAFT_EXTEND, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
    phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
    prepared = operations.create_extend_after_decode_spec_info(
        phase.input_ids, phase.seq_lens, phase.num_accepted_tokens
    )
    return Batch(
        mode=ForwardMode.DRAFT_EXTEND if phase.num_requests else ForwardMode.IDLE,
        req_pool_indices=phase.req_pool_indices,
        seq_lens=phase.seq_lens,
        info=replace(
            phase,
            positions=prepared.positions,
            bonus_tokens=prepared.bonus_tokens,
            num_tokens_per_req=int(count_tokens(num_steps)),
        ),
    )


def forward_draft_extend(
    batch: Batch, topk: int, model: Model[Array], pools: Pools, operations: Operations[Array]
) -> DraftInput:
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
    keys = ragged_keys(phase, pools, operations)
    drafted = model.draft_extend(
        DraftExtendBatch(
            req_pool_indices=phase.req_pool_indices,
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            keys=keys,
            hidden_states=phase.hidden_states,
            select=keys.cu_seqlens_q[1:].astype(np.int64) - 1,
        ),
        pools.open(Side.DRAFT, phase.out_cache_loc),
    )
    proposal = operations.fast_topk(drafted.probabilities, topk)
    return DraftInput(
        req_pool_indices=phase.req_pool_indices,
        seq_lens=phase.seq_lens,
        topk_p=proposal.topk_values,
        topk_index=proposal.topk_index,
        hidden_states=drafted.hidden_states,
        bonus_tokens=phase.bonus_tokens,
    )


def ragged_keys(phase: EagleDraftExtendInput, pools: Pools, operations: Operations[Array]) -> PagedKeys[Array]:
    """Return the keys of a forward over the accepted tokens."""
    metadata = operations.generate_attn_arg_prefill(
        phase.req_pool_indices, pools.req_to_token, phase.seq_lens, phase.num_accepted_tokens, sum(phase.seq_lens_cpu)
    )
    table = _page_table(metadata.kv_indptr, metadata.kv_indices)
    return PagedKeys(table, np.diff(metadata.kv_indptr), metadata.qo_indptr, 1)


def _page_table(kv_indptr: Array, kv_indices: Array) -> Array:
    """Return int32 [request, position], one row of slots a request, padded with the dump."""
    lengths = np.diff(kv_indptr)
    table = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int32)
    for request, length in enumerate(lengths):
        table[request, :length] = kv_indices[kv_indptr[request] : kv_indptr[request + 1]]
    return table
