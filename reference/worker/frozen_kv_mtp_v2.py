"""The V2 worker of FROZEN_KV_MTP in NumPy: seeds wait by row, and nothing of the draft catches up behind a verify."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftInput,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.phases.frozen_kv_mtp import to_frozen_kv_mtp_draft_extend_input
from specsim.reference.worker.frozen_draft import draft_frozen, frozen_draft_input, seed_of_extend, seed_of_prefill
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.reference.worker.sides import MakeSide
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.batches import DraftOutput
from specsim.simulation.models.description import ModelDescription, Side
from specsim.simulation.models.frozen import (
    FrozenDraftBatch,
    FrozenKVModel,
    require_frozen_model,
    shared_kv,
    warn_of_states,
)
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.requests import PromptChunk


@dataclass(frozen=True)
class FrozenSide:
    """A draft over the target's KV: seeds start it, it has no slots, and it never catches up.

    Notes
    -----
    Source: semantics D.11.
    """

    model: FrozenKVModel[Array]
    description: ModelDescription
    num_candidates: int
    borrows: bool = False

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes) -> "FrozenSide":
        """Return the side of a model."""
        del sizes
        description = require_frozen_model(model, "numpy", config.topk)
        warn_of_states(description)
        return cls(model, description, config.topk)

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(
        self,
        rows: Sequence[int],
        chunks: Sequence[PromptChunk],
        behind: TargetPrefill,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
        """Return seeds; no forward runs."""
        del rows, chunks, pools, operations
        return seed_of_prefill(behind, self.num_candidates)

    def draft(
        self,
        phase: DraftInput,
        config: SpecConfig,
        pools: Pools,
        verify_slots: Callable[[], Array],
        operations: CallsByName,
    ) -> VerifyInput:
        """Draft over what is committed; what waited by row gets the tag."""

        def forward(batch: FrozenDraftBatch[Array]) -> DraftOutput[Array]:
            return self.model.draft_frozen(batch, shared_kv(self.description, pools.kv[Side.TARGET]))

        seeds = FrozenKVMTPDraftInput(**{field.name: getattr(phase, field.name) for field in fields(DraftInput)})
        return draft_frozen(seeds, config, self.model, forward, pools.req_to_token, verify_slots, operations)

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
        """Return what starts the next drafts: the rows that an extend would select, without its forward."""
        del pools, operations
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        seeds = require_present("hidden states of the target", phase.hidden_states)[phase.select_index]
        seq_lens = np.asarray(verify_input.seq_lens + phase.num_accepted_tokens)
        return frozen_draft_input(row, seq_lens, verify_output.bonus_tokens, seeds, self.num_candidates)

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Return what starts the next drafts of the requests that go on."""
        del pools
        phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
        tagged = replace(batch, info=to_frozen_kv_mtp_draft_extend_input(phase))
        return seed_of_extend(tagged, self.num_candidates, operations)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}


class ReferenceFrozenKVMTPWorkerV2(ReferenceWorker):
    """The V2 worker with another draft side; positions are allocated ahead for the verify alone.

    Raises
    ------
    SpecRejection
        As ``ReferenceFrozenKVMTPWorker`` does.
    """

    has_plain_keys = True

    def __init__(
        self,
        config: SpecConfig,
        model: FrozenKVModel[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
        make_side: MakeSide = FrozenSide.of,
        name: str = "reference-frozen-kv-mtp-v2",
    ) -> None:
        super().__init__(config, model, sizes, operations, reads, make_pools, make_side, name)
