"""The draft side of DFLASH on the device: features become KV, and one forward over a block proposes all of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import DeviceWaiting, WaitingRows, device_zeros
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.host.dflash import DflashParameters
from specsim.phases import DflashDraftInput, DflashVerifyInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch, require_block_model
from specsim.simulation.models.description import Side
from specsim.simulation.sides import Followed, Setting, SideFacts


class DflashSide:
    """Draft a block on the slots that the verify will write, and project the target's features of what was accepted.

    Source: semantics A.14, A.14b.
    """

    def __init__(self, setting: Setting) -> None:
        self.facts = SideFacts(
            require_block_model(setting.model, "torch"),
            num_candidates=0,
            writes_root=True,
            catches_up=False,
            narrows=False,
            keeps_top_k_exactly=True,
            counts_only_output=True,
            serves_all=False,
        )
        self.parameters: DflashParameters = setting.drafting
        self._model: BlockModel[Tensor] = setting.model
        self._sizes = setting.sizes

    def waiting(self, is_v1: bool) -> DeviceWaiting:
        """Return roots and lengths by row."""
        rows = (self._sizes.num_rows,)
        carried = {"seq_lens": device_zeros(rows, "int32"), "bonus_tokens": device_zeros(rows, "int64")}
        return WaitingRows(carried, _start)

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DflashDraftInput:
        """Make KV of the features of chunks."""
        features = require_present("hidden_states", after.output.hidden_states)
        self._project(after.positions, after.out_cache_loc, features, pools)
        return DflashDraftInput(after.row, after.following, features, after.lengths, after.ends.int())

    def draft(
        self, start: DflashDraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft a block for every request, where the map says, and return it as a chain."""
        lengths, parameters, size = start.draft_seq_lens.long(), self.parameters, config.num_draft_tokens
        input_ids, positions = gpu.prepare_block_draft(start.bonus_tokens, lengths, parameters.mask_token, size)
        slots = pools.read_slots(start.req_pool_indices, lengths, size)
        keys = block_keys(start.req_pool_indices, lengths, parameters, pools, self._sizes.page_size)
        drafted = self._model.draft_block(BlockBatch(input_ids, positions, slots, keys, size), pools.kv[Side.DRAFT])
        drafts = gpu.argmax_target_predict(drafted.probabilities).view(-1, size - 1)
        kept = gpu.organize_chain_draft_results([drafts[:, depth : depth + 1] for depth in range(size - 1)])
        chain = gpu.build_tree(start.bonus_tokens, *kept, lengths, 1, size - 1, size)
        return DflashVerifyInput(*chain, verify_slots(), lengths, size)

    def follow(
        self,
        start: DflashDraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Make KV of the features of the accepted tokens, whatever ends them later; all others go to slot 0."""
        size, counts = config.num_draft_tokens, verify_output.num_accepted_tokens
        bonus_tokens = verify_output.bonus_tokens
        drafts = verify_input.draft_token.view(-1, size)
        tokens = gpu.fill_block_tokens(drafts, verify_output.num_accepted_drafts, bonus_tokens)
        is_accepted = torch.arange(size, device=DEVICE) < counts[:, None]
        slots = verify_input.out_cache_loc.view(-1, size) * is_accepted
        features = require_present("hidden_states", verify_output.hidden_states)
        self._project(verify_input.positions, slots.view(-1), features, pools)
        ends = start.draft_seq_lens + counts
        committed = DflashDraftInput(start.req_pool_indices, bonus_tokens.long(), features, counts, ends)
        return Followed(committed, committed, tokens.int())

    def follow_ragged(
        self,
        start: DflashDraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Make KV of the features of the tokens that were output, also of requests that end."""
        ends, counts, features = everyone.seq_lens, everyone.num_accepted_tokens, everyone.hidden_states
        positions, bonus_tokens = gpu.create_extend_after_decode_spec_info(everyone.input_ids, ends, counts)
        self._project(positions, everyone.out_cache_loc, features, pools)
        committed = DflashDraftInput(everyone.req_pool_indices, bonus_tokens.long(), features, counts, ends.int())
        return Followed(committed, committed)

    def resized(self, setting: Setting) -> "DflashSide":
        """Return a side of another block, which keeps nothing."""
        return type(self)(setting)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}

    def _project(self, positions: Tensor, slots: Tensor, features: Tensor, pools: Pools) -> None:
        """Write the draft's KV of some positions."""
        self._model.project_features(FeatureBatch(positions, slots, features), pools.kv[Side.DRAFT])


def block_keys(
    rows: Tensor, lengths: Tensor, parameters: DflashParameters, pools: Pools, page_size: int
) -> PagedKeys[Tensor]:
    """Return the keys of the blocks: all that is committed or a window of it, and the block."""
    size, req_to_token = parameters.block_size, pools.req_to_token
    if parameters.draft_window is None:
        cache_seqlens, cu_seqlens_q, _, page_table = gpu.target_verify_metadata(
            rows, req_to_token, lengths, rows.shape[0] * size, req_to_token.shape[1], 1
        )
        return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, 1)
    _, cache_seqlens, cu_seqlens_q, page_table = gpu.block_draft_metadata(
        rows, req_to_token, lengths, parameters.draft_window, size, page_size
    )
    return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, 1)


def _start(rows: Tensor, seq_lens: Tensor, bonus_tokens: Tensor) -> DflashDraftInput:
    """Return what starts blocks whose features are all KV."""
    return DflashDraftInput(rows, bonus_tokens, None, torch.zeros_like(seq_lens), seq_lens)
