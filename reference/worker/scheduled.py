"""Scheduled verification of a batch of chains: who is admitted, the ragged forward over it, and the cut after it."""

from dataclasses import dataclass, replace

import numpy as np

from specsim.assertion import require_present
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import VerifyInput
from specsim.reference.worker import arrays
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.sampling import Accepted
from specsim.simulation.models.batches import PagedKeys, TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.numbers import Widths
from specsim.simulation.verification import Verified, VerifyLimits, VerifyMode


@dataclass(frozen=True)
class Admitted:
    """What a batch verifies: ``verify_lens`` int32 [request] rows each, by ``confidence`` float32 [request, draft].

    The target runs over these rows alone if ``is_compact``, padded to ``num_tokens``.
    """

    verify_lens: Array
    confidence: Array
    num_tokens: int
    is_compact: bool


def admit(
    phase: VerifyInput,
    limits: VerifyLimits | None,
    widths: Widths,
    description: ModelDescription,
    operations: CallsByName,
) -> Admitted | None:
    """Return which drafts of a batch are verified, None where all of them are, without a schedule.

    Notes
    -----
    Source: semantics Q.1.3, Q.1.4.
    """
    if limits is None:
        return None
    num_requests, width = phase.num_requests, phase.num_draft_tokens
    tokens = phase.draft_token.reshape(num_requests, width)
    confidence = require_present("confidence_head", description.confidence_head)(tokens, arrays)
    num_drafts = np.array(widths.own_steps or [widths.config.num_steps] * num_requests, dtype=np.int32)
    if limits.budget is None:
        verify_lens, num_tokens = num_drafts + np.int32(1), num_requests * width
    else:
        verify_lens = operations.schedule_verify_lens(confidence, num_drafts, None, limits.budget, width)
        num_tokens = operations.verify_graph_tier(num_requests, limits.budget, width)
    return Admitted(verify_lens, confidence, num_tokens, limits.mode is VerifyMode.COMPACT)


def compact_batch(
    batch: TargetBatch[Array], phase: VerifyInput, admitted: Admitted, pools: Pools, operations: CallsByName
) -> TargetBatch[Array]:
    """Return the rows of a batch that are verified, one request after another, then rows of padding requests.

    Notes
    -----
    Source: semantics Q.1.6, Q.1.8.
    """
    row, width, verify_lens = batch.req_pool_indices, phase.num_draft_tokens, admitted.verify_lens
    tokens = phase.draft_token.reshape(-1, width)
    window = operations.ragged_verify_window(
        tokens, verify_lens, row, pools.req_to_token, phase.seq_lens, admitted.num_tokens
    )
    # NOTE: padding has requests of its own, none wider than a chain, so that no live one sees or writes its rows.
    num_padding = -(-(admitted.num_tokens - int(verify_lens.sum())) // width)
    lengths = operations.pad_verify_lens_to_bucket(verify_lens, len(row) + num_padding, admitted.num_tokens)
    rows = np.concatenate([row, np.zeros(num_padding, dtype=np.int64)])
    prefix_lens = np.concatenate([phase.seq_lens, np.ones(num_padding, dtype=np.int64)])
    longest = int((prefix_lens + lengths).max())
    found = operations.ragged_verify_metadata(rows, pools.req_to_token, prefix_lens, lengths, longest)
    return replace(
        batch,
        req_pool_indices=rows,
        input_ids=window.input_ids,
        positions=window.positions,
        out_cache_loc=window.out_cache_loc,
        prefix_lens=prefix_lens,
        keys=PagedKeys(found.page_table, found.cache_seqlens, found.cu_seqlens_q, 1),
        tree_mask=None,
        parents=None,
        window_keys=pools.window_keys(found.page_table, window.out_cache_loc),
    )


def scatter_output(
    output: TargetOutput[Array], phase: VerifyInput, admitted: Admitted, operations: CallsByName
) -> TargetOutput[Array]:
    """Return an output of compact rows node by node; what lies after the rows of a request decides nothing.

    Notes
    -----
    Source: semantics Q.1.6.
    """
    return output.mapped(
        lambda rows: operations.scatter_compact_to_strided(rows, admitted.verify_lens, phase.num_draft_tokens)
    )


def cap(
    accepted: Accepted, phase: VerifyInput, admitted: Admitted, operations: CallsByName
) -> tuple[Accepted, Verified]:
    """Cut accepted paths to what was admitted, with the token at the cut; return what the cut lost, too.

    Notes
    -----
    Source: semantics Q.1.7, in its coupled form.
    """
    shape = phase.retrieve_index.shape
    request, columns = np.arange(shape[0]), np.arange(accepted.accept_index.shape[1])
    walked = accepted.accept_index[request, accepted.num_accepted_drafts]
    capped = operations.cap_accepted_drafts(
        phase.draft_token.reshape(shape),
        accepted.num_accepted_drafts,
        accepted.predict[walked],
        admitted.verify_lens,
        admitted.is_compact,
    )
    kept = capped.num_kept_drafts
    predict = accepted.predict.copy()
    predict[accepted.accept_index[request, kept]] = capped.cut_tokens
    accept_index = np.where(columns <= kept[:, None], accepted.accept_index, np.int32(-1))
    verified = Verified(admitted.verify_lens, admitted.confidence, capped.cap_trim_lens)
    return type(accepted)(predict, accept_index, kept), verified
