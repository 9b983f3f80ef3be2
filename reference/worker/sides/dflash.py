"""The draft side of DFLASH: features become KV, and one forward over a block proposes every draft of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
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
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch, require_block_model
from specsim.simulation.models.description import Side
from specsim.simulation.sides import Followed, Setting, SideFacts, Waiting


class WaitingRoots:
    """The roots of the next blocks by request row; every feature is KV already."""

    def __init__(self, sizes: PoolSizes) -> None:
        self.bonus_tokens = np.zeros(sizes.num_rows, dtype=np.int64)
        self.seq_lens = np.zeros(sizes.num_rows, dtype=np.int32)

    def take(self, rows: Sequence[int]) -> DflashDraftInput:
        """Return what starts the blocks of these rows."""
        row = np.array(rows, dtype=np.int64)
        return DflashDraftInput(row, self.bonus_tokens[row], None, np.zeros(len(row), np.int32), self.seq_lens[row])

    def keep(self, start: DflashDraftInput, joins: bool = False) -> None:
        """Keep roots and lengths."""
        self.bonus_tokens[start.req_pool_indices] = start.bonus_tokens
        self.seq_lens[start.req_pool_indices] = start.draft_seq_lens

    def state(self) -> dict[str, Any]:
        """Return both by name."""
        return {"seq_lens": self.seq_lens, "bonus_tokens": self.bonus_tokens}


class DflashSide:
    """Draft a block on the slots that the verify will write, and project the target's features of what was accepted.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """

    def __init__(self, setting: Setting) -> None:
        self.facts = SideFacts(
            require_block_model(setting.model, "numpy"),
            num_candidates=0,
            writes_root=True,
            catches_up=False,
            narrows=False,
            keeps_top_k_exactly=True,
            counts_only_output=True,
            serves_all=False,
        )
        self.parameters: DflashParameters = setting.drafting
        self._model: BlockModel[Array] = setting.model
        self._sizes = setting.sizes
        self._operations: CallsByName = setting.operations

    def waiting(self, is_v1: bool) -> Waiting:
        """Return roots by row."""
        return WaitingRoots(self._sizes)

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DflashDraftInput:
        """Make KV of the features of chunks."""
        features = require_present("hidden_states", after.output.hidden_states)
        roots, ends = after.following.astype(np.int64), after.ends.astype(np.int32)
        phase = DflashDraftInput(after.row, roots, features, after.lengths.astype(np.int32), ends)
        self._project(phase, pools)
        return phase

    def draft(
        self, start: DflashDraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Draft a block for every request."""
        page_size, operations = self._sizes.page_size, self._operations
        return draft_block(start, self.parameters, self._model, pools, verify_slots, operations, page_size)

    def follow(
        self,
        start: DflashDraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Make KV of the features along the accepted paths, whatever ends them later."""
        tokens = self._operations.fill_block_tokens(
            verify_input.draft_token.reshape(-1, config.num_draft_tokens),
            verify_output.num_accepted_drafts,
            verify_output.bonus_tokens,
        )
        committed = self._committed(start, verify_output)
        self._project(committed, pools)
        return Followed(committed, committed, tokens.astype(np.int32))

    def follow_ragged(
        self,
        start: DflashDraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Make KV of the features of the tokens that were output, also of requests that end."""
        committed = self._committed_ragged(everyone)
        self._project(committed, pools)
        return Followed(committed, committed)

    def resized(self, setting: Setting) -> "DflashSide":
        """Return a side of another block, which keeps nothing."""
        return type(self)(setting)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        """Return the features along the accepted paths, and the roots to come."""
        features = require_present("hidden_states", phase.hidden_states)
        return DflashDraftInput(
            req_pool_indices=start.req_pool_indices,
            bonus_tokens=phase.bonus_tokens.astype(np.int64),
            target_hidden=features[phase.accept_index[phase.accept_index >= 0]],
            ctx_lens=phase.num_accepted_tokens,
            draft_seq_lens=start.draft_seq_lens + phase.num_accepted_tokens,
        )

    def _committed_ragged(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        """Return the features of the tokens that were output, and the last of these as the roots to come."""
        counts, ends = everyone.num_accepted_tokens, everyone.seq_lens
        laid_out = self._operations.create_extend_after_decode_spec_info(everyone.input_ids, ends, counts)
        return DflashDraftInput(
            req_pool_indices=everyone.req_pool_indices,
            bonus_tokens=laid_out.bonus_tokens.astype(np.int64),
            target_hidden=everyone.hidden_states,
            ctx_lens=counts,
            draft_seq_lens=ends.astype(np.int32),
        )

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        """Write the draft's KV of the positions whose features a phase carries, before anybody may see the slots."""
        project(phase, self._model, pools, self._operations)


def project(phase: DflashDraftInput, model: BlockModel[Array], pools: Pools, operations: Operations[Array]) -> None:
    """Make KV of the draft of the features that a phase carries, at the positions that they belong to.

    Notes
    -----
    Source: semantics A.14b.
    """
    expect_phase(phase, PhaseTag.DFLASH_DRAFT)
    ends, counts = phase.draft_seq_lens, phase.ctx_lens
    starts, total = ends - counts, int(counts.sum())
    slots = operations.assign_extend_cache_locs(phase.req_pool_indices, pools.req_to_token, starts, ends, total)
    # NOTE: only positions are wanted here; what stands for tokens has no meaning.
    positions = operations.create_extend_after_decode_spec_info(np.zeros(total, dtype=np.int64), ends, counts).positions
    model.project_features(FeatureBatch(positions, slots, phase.target_hidden), pools.open(Side.DRAFT, slots))


def draft_block(
    phase: DflashDraftInput,
    parameters: DflashParameters,
    model: BlockModel[Array],
    pools: Pools,
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
    page_size: int,
) -> DflashVerifyInput:
    """Draft a block for every request, and return it as the chain that the target verifies.

    Parameters
    ----------
    phase : DflashDraftInput
        Roots and lengths; the draft's KV reaches up to these.
    pools : Pools
        The map has slots for the block, which the draft may write.
    verify_slots : callable
        Returns int64 [request*node], the slots that the target will write; called when the block is drafted.
    page_size : int
        Slots of a page, which a draft window starts with.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """
    expect_phase(phase, PhaseTag.DFLASH_DRAFT)
    row, lengths, size = phase.req_pool_indices, phase.draft_seq_lens.astype(np.int64), parameters.block_size
    block = operations.prepare_block_draft(phase.bonus_tokens, lengths, parameters.mask_token, size)
    slots = pools.read_slots(row, lengths, size, operations)
    drafted = model.draft_block(
        BlockBatch(
            block.input_ids,
            block.positions,
            slots,
            block_keys(row, lengths, parameters, pools, operations, page_size),
            size,
        ),
        pools.open(Side.DRAFT, slots),
    )
    drafts = operations.argmax_target_predict(drafted.probabilities).reshape(-1, size - 1)
    kept = operations.organize_chain_draft_results([drafts[:, [depth]] for depth in range(size - 1)])
    chain = operations.build_tree(
        phase.bonus_tokens, kept.parent_list, kept.top_scores_index, kept.draft_tokens, lengths, 1, size - 1, size
    )
    return DflashVerifyInput(*chain, verify_slots(), lengths, size)


def block_keys(
    row: Array,
    lengths: Array,
    parameters: DflashParameters,
    pools: Pools,
    operations: Operations[Array],
    page_size: int,
) -> PagedKeys[Array]:
    """Return the keys of a block: all that is committed, or the window that the parameters name, and the block."""
    size = parameters.block_size
    if parameters.draft_window is None:
        longest = int(lengths.max(initial=0)) + (size if len(row) else 0)
        whole = operations.target_verify_metadata(row, pools.req_to_token, lengths, len(row) * size, longest, 1)
        return PagedKeys(whole.page_table, whole.cache_seqlens, whole.cu_seqlens_q, 1)
    window = operations.block_draft_metadata(row, pools.req_to_token, lengths, parameters.draft_window, size, page_size)
    return PagedKeys(window.page_table, window.cache_seqlens, window.cu_seqlens_q, 1)
