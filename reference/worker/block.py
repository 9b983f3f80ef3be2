"""The draft phase of DFLASH: features become KV, and one forward over a block proposes every draft of it."""

from collections.abc import Callable

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.dflash import DflashParameters
from specsim.operations.protocol import Operations
from specsim.phases import DflashDraftInput, DflashVerifyInput, PhaseTag, expect_phase
from specsim.reference.worker.pools import Pools
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch
from specsim.simulation.models.description import Side


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
