"""What a forward of each kind reads, as the batch whose fields are padded and put back."""

from typing import Any

from specsim.phases import ForwardBatch, ForwardMode
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, TargetBatch
from specsim.simulation.models.block import BlockBatch, FeatureBatch
from specsim.simulation.models.frozen import FrozenDraftBatch


def forward_of_target(batch: TargetBatch[Any], width: int | None) -> ForwardBatch:
    """Return the batch of prompts, or of trees of so many nodes."""
    return ForwardBatch(
        ForwardMode.EXTEND if width is None else ForwardMode.TARGET_VERIFY,
        input_ids=batch.input_ids,
        req_pool_indices=batch.req_pool_indices,
        seq_lens=batch.prefix_lens,
        positions=batch.positions,
        out_cache_loc=batch.out_cache_loc,
        swa_out_cache_loc=None if batch.window_keys is None else batch.window_keys.out_cache_loc,
        num_tokens_per_req=width,
        captures_every_row=width is None,
    )


def forward_of_step(batch: DraftStepBatch[Any], width: int | None) -> ForwardBatch:
    """Return the batch of a draft step on so many beams a request."""
    return _of_draft(ForwardMode.DECODE, batch, width)


def forward_of_extend(batch: DraftExtendBatch[Any], width: int | None) -> ForwardBatch:
    """Return the batch of a draft that catches up, after prompts where requests have no width."""
    return _of_draft(ForwardMode.EXTEND if width is None else ForwardMode.DRAFT_EXTEND, batch, width)


def forward_of_frozen_step(batch: FrozenDraftBatch[Any], width: int) -> ForwardBatch:
    """Return the batch of a step over the target's KV, which has no slot to write."""
    requests = _anonymous_requests(batch.input_ids, width)
    return ForwardBatch(
        ForwardMode.DECODE,
        input_ids=batch.input_ids,
        req_pool_indices=requests,
        seq_lens=requests,
        positions=batch.positions,
        hidden_states=batch.hidden_states,
        num_tokens_per_req=width,
    )


def forward_of_blocks(batch: BlockBatch[Any], width: int) -> ForwardBatch:
    """Return the batch of blocks of so many positions."""
    requests = _anonymous_requests(batch.input_ids, width)
    return ForwardBatch(
        ForwardMode.DECODE,
        input_ids=batch.input_ids,
        req_pool_indices=requests,
        seq_lens=requests,
        positions=batch.positions,
        out_cache_loc=batch.out_cache_loc,
        num_tokens_per_req=width,
    )


def forward_of_features(batch: FeatureBatch[Any]) -> ForwardBatch:
    """Return the batch of a projection, whose rows are positions and belong to no request; positions stand for ids."""
    return ForwardBatch(
        ForwardMode.DECODE,
        input_ids=batch.positions,
        req_pool_indices=batch.positions,
        seq_lens=batch.positions,
        positions=batch.positions,
        out_cache_loc=batch.out_cache_loc,
        hidden_states=batch.features,
        num_tokens_per_req=1,
    )


def _of_draft(mode: ForwardMode, batch: DraftStepBatch[Any] | DraftExtendBatch[Any], width: int | None) -> ForwardBatch:
    return ForwardBatch(
        mode,
        input_ids=batch.input_ids,
        req_pool_indices=batch.req_pool_indices,
        seq_lens=batch.req_pool_indices,
        positions=batch.positions,
        out_cache_loc=batch.out_cache_loc,
        hidden_states=batch.hidden_states,
        num_tokens_per_req=width,
    )


def _anonymous_requests(input_ids: Any, width: int) -> Any:
    """Return a row of the dump for every request of a batch that does not say whose rows it has."""
    return input_ids[:: max(width, 1)] * 0
