"""Scheduled verification on the device: who is admitted, the ragged forward over it, and the cut after it.

Verify lengths are not known on the host: a forward has as many rows as a budget admits at most.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.counts import ceil_to
from specsim.gpu.worker import arrays
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.sampling import Accepted
from specsim.gpu.worker.transfer import download
from specsim.host.budget import verify_graph_tier
from specsim.phases import VerifyInput
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.verification import Verified, VerifyLimits, VerifyMode


@dataclass(frozen=True)
class Admitted:
    """What a batch verifies, as ``specsim.reference.worker.scheduled.Admitted`` has it; padding verifies its root."""

    verify_lens: Tensor
    confidence: Tensor
    num_tokens: int
    is_compact: bool


def admit(phase: VerifyInput, limits: VerifyLimits, deepest: Tensor, description: ModelDescription) -> Admitted:
    """Return which drafts of a batch are verified; ``deepest`` int64 [request] counts those that there are."""
    num_requests, width = phase.retrieve_index.shape
    head = require_present("confidence_head", description.confidence_head)
    confidence, num_drafts = head(phase.draft_token.view(num_requests, width), arrays), deepest.int()
    verify_lens, budget = num_drafts + 1, limits.budget
    if budget is not None and num_requests:
        verify_lens = gpu.schedule_verify_lens(confidence, num_drafts, None, budget, width)
    most = num_requests * width if budget is None else verify_graph_tier(num_requests, budget, width)
    return Admitted(verify_lens, confidence, most, limits.mode is VerifyMode.COMPACT)


def compact_batch(
    batch: TargetBatch[Tensor], phase: VerifyInput, admitted: Admitted, pools: Pools
) -> TargetBatch[Tensor]:
    """Return the rows of a batch that are verified, one request after another, then rows of padding requests."""
    row, width, num_tokens = batch.req_pool_indices, phase.num_draft_tokens, admitted.num_tokens
    window = gpu.ragged_verify_window(
        phase.draft_token.view(-1, width),
        admitted.verify_lens,
        row,
        pools.req_to_token,
        phase.seq_lens,
        num_tokens,
    )
    _, input_ids, positions, out_cache_loc, _ = window
    num_padding = ceil_to(num_tokens - len(row), width) // width
    lengths = gpu.pad_verify_lens_to_bucket(admitted.verify_lens, len(row) + num_padding, num_tokens)
    rows = torch.cat([row, row.new_zeros(num_padding)])
    prefix_lens = torch.cat([phase.seq_lens, phase.seq_lens.new_ones(num_padding)])
    keys = pools.ragged_nodes(rows, prefix_lens, lengths)
    return replace(
        batch,
        req_pool_indices=rows,
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        prefix_lens=prefix_lens,
        keys=keys,
        tree_mask=None,
        parents=None,
        window_keys=pools.window_keys(keys.page_table, out_cache_loc),
    )


def scatter_output(output: TargetOutput[Tensor], phase: VerifyInput, admitted: Admitted) -> TargetOutput[Tensor]:
    """Return an output of compact rows node by node; what lies after the rows of a request decides nothing."""
    return output.mapped(
        lambda rows: gpu.scatter_compact_to_strided(rows, admitted.verify_lens, phase.num_draft_tokens)
    )


def cap(accepted: Accepted, phase: VerifyInput, admitted: Admitted) -> tuple[Accepted, Tensor]:
    """Cut accepted paths to what was admitted, with the token at the cut; return what the cut lost, too."""
    predict, accept_index, num_accepted_drafts = accepted
    walked = accept_index.gather(1, num_accepted_drafts.long()[:, None])[:, 0].long()
    kept, cut_tokens, trim = gpu.cap_accepted_drafts(
        phase.draft_token.view(phase.retrieve_index.shape),
        num_accepted_drafts,
        predict.index_select(0, walked),
        admitted.verify_lens,
        admitted.is_compact,
    )
    ends = accept_index.gather(1, kept.long()[:, None])[:, 0].long()
    columns = torch.arange(accept_index.shape[1], device=kept.device)
    cut = predict.index_copy(0, ends, cut_tokens.to(predict.dtype))
    return (cut, torch.where(columns <= kept[:, None], accept_index, -1), kept), trim


def on_the_host(admitted: Admitted, trim: Tensor, live: int) -> Verified:
    """Wait for what the live requests verified."""
    confidence = admitted.confidence[:live].contiguous()
    verify_lens, bits, lost = download([admitted.verify_lens[:live], confidence.view(torch.int32), trim[:live]])
    return Verified(verify_lens, bits.view(np.float32), lost)
