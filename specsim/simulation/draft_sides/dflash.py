"""The draft side of DFLASH: features become KV, and one forward over a block proposes every draft of it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.host.dflash import DflashParameters
from specsim.operations.protocol import Operations
from specsim.phases import (
    DflashDraftInput,
    DflashVerifyInput,
    EagleDraftExtendInput,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.simulation.draft_sides.layer import AnyPools, ArrayLibrary
from specsim.simulation.draft_sides.trees import VerifySlots
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch, require_block_model
from specsim.simulation.models.description import Side
from specsim.simulation.sides import DraftSide, Followed, Setting, SideFacts


class BlockSide(DraftSide[Any, Any, Any, Any]):
    """Draft a block on the slots that the verify will write, and project the target's features of what was accepted.

    A layer says where roots wait, and which rows of the features are those of accepted tokens where blocks have one
    width.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """

    def __init__(self, setting: Setting) -> None:
        self.facts = SideFacts(
            require_block_model(setting.model, setting.arrays.KIND),
            num_candidates=0,
            writes_root=True,
            catches_up=False,
            narrows=False,
            keeps_top_k_exactly=True,
            counts_only_output=True,
            serves_all=False,
        )
        self.parameters: DflashParameters = setting.drafting
        self._model: BlockModel[Any] = setting.model
        self._sizes = setting.sizes
        self._operations: Operations[Any] = setting.operations
        self._arrays: ArrayLibrary = setting.arrays

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: Any, pools: AnyPools) -> DflashDraftInput:
        """Make KV of the features of chunks."""
        astype, features = self._arrays.astype, require_present("hidden_states", after.output.hidden_states)
        bonus_tokens, counts, ends = astype(after.following, "int64"), after.lengths, astype(after.ends, "int32")
        phase = DflashDraftInput(after.row, bonus_tokens, features, counts, ends)
        self._project(phase, pools)
        return phase

    def draft(
        self, start: DflashDraftInput, config: SpecConfig, pools: AnyPools, verify_slots: VerifySlots
    ) -> VerifyInput:
        """Draft a block for every request, where the map says, and return it as a chain."""
        expect_phase(start, PhaseTag.DFLASH_DRAFT)
        operations, parameters, size = self._operations, self.parameters, config.num_draft_tokens
        row, lengths = start.req_pool_indices, self._arrays.astype(start.draft_seq_lens, "int64")
        block = operations.prepare_block_draft(start.bonus_tokens, lengths, parameters.mask_token, size)
        slots, keys = self._block_window(row, lengths, pools)
        batch = BlockBatch(block.input_ids, block.positions, slots, keys, size)
        drafted = self._model.draft_block(batch, pools.open(Side.DRAFT, slots))
        drafts = operations.argmax_target_predict(drafted.probabilities).reshape(-1, size - 1)
        kept = operations.organize_chain_draft_results([drafts[:, depth : depth + 1] for depth in range(size - 1)])
        chain = operations.build_tree(start.bonus_tokens, *kept, lengths, 1, size - 1, size)
        return DflashVerifyInput(*chain, verify_slots(), lengths, size)

    @abstractmethod
    def follow(
        self,
        start: DflashDraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: AnyPools,
    ) -> Followed[Any]:
        """Make KV of the features along the accepted paths, whatever ends them later."""

    def follow_ragged(
        self,
        start: DflashDraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: AnyPools,
    ) -> Followed[Any]:
        """Make KV of the features of the tokens that were output, also of requests that end."""
        committed = self._committed_ragged(everyone)
        self._project(committed, pools)
        return Followed(committed, committed)

    def resized(self, setting: Setting) -> Self:
        """Return a side of another block, which keeps nothing."""
        return type(self)(setting)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}

    def _block_tokens(self, verify_input: VerifyInput, verify_output: VerifyOutput) -> Any:
        """Return int32 [request, node], the output tokens of each request at the front."""
        drafts = verify_input.draft_token.reshape(-1, verify_input.num_draft_tokens)
        tokens = self._operations.fill_block_tokens(
            drafts, verify_output.num_accepted_drafts, verify_output.bonus_tokens
        )
        return self._arrays.astype(tokens, "int32")

    def _committed_ragged(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        """Return the features of the tokens that were output, and the last of these as the roots to come."""
        astype, counts, ends = self._arrays.astype, everyone.num_accepted_tokens, everyone.seq_lens
        laid_out = self._operations.create_extend_after_decode_spec_info(everyone.input_ids, ends, counts)
        bonus_tokens = astype(laid_out.bonus_tokens, "int64")
        row = everyone.req_pool_indices
        return DflashDraftInput(row, bonus_tokens, everyone.hidden_states, counts, astype(ends, "int32"))

    def _project(self, phase: DflashDraftInput, pools: AnyPools) -> None:
        """Make KV of the features that a phase carries, at their positions, before anybody may see the slots."""
        expect_phase(phase, PhaseTag.DFLASH_DRAFT)
        ends, counts, total = phase.draft_seq_lens, phase.ctx_lens, len(phase.target_hidden)
        slots = self._operations.assign_extend_cache_locs(
            phase.req_pool_indices, pools.req_to_token, ends - counts, ends, total
        )
        # NOTE: only positions are wanted here; what stands for tokens has no meaning.
        tokens = self._arrays.zeros((total,), "int64")
        positions = self._operations.create_extend_after_decode_spec_info(tokens, ends, counts).positions
        self._store(positions, slots, phase.target_hidden, pools)

    def _store(self, positions: Any, slots: Any, features: Any, pools: AnyPools) -> None:
        """Write the draft's KV of some positions."""
        self._model.project_features(FeatureBatch(positions, slots, features), pools.open(Side.DRAFT, slots))

    def _block_window(self, row: Any, lengths: Any, pools: AnyPools) -> tuple[Any, PagedKeys[Any]]:
        """Return slots and keys of a block: all that is committed, or the window of the parameters, and the block."""
        size, draft_window, operations = self.parameters.block_size, self.parameters.draft_window, self._operations
        if draft_window is None:
            nodes: tuple[Any, PagedKeys[Any]] = pools.nodes(row, lengths, size, operations)
            return nodes
        window = operations.block_draft_metadata(
            row, pools.req_to_token, lengths, draft_window, size, self._sizes.page_size
        )
        keys = PagedKeys(window.page_table, window.cache_seqlens, window.cu_seqlens_q, 1)
        return pools.read_slots(row, lengths, size, operations), keys
