"""The draft side of FROZEN_KV_MTP: it reads the target's KV, has none, and never catches up behind a verify."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from specsim.assertion import require_present
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
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.reference.worker.frozen_draft import draft_frozen, frozen_draft_input, seed_of_extend, seed_of_prefill
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.models.batches import DraftOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import (
    FrozenDraftBatch,
    FrozenKVModel,
    require_frozen_model,
    shared_kv,
    warn_of_states,
)
from specsim.simulation.sides import SideFacts


@dataclass(frozen=True)
class FrozenSide:
    """A draft over the target's KV: seeds start it, and it has no slots.

    Notes
    -----
    Source: semantics D.11.
    """

    model: FrozenKVModel[Array]
    facts: SideFacts

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes, has_dp_attention: bool = False) -> "FrozenSide":
        """Return the side of a model; beams are refused where other ranks wait."""
        del sizes
        description = require_frozen_model(model, "numpy", config.topk, has_dp_attention)
        warn_of_states(description)
        return cls(model, SideFacts.of_seeds(description, config.topk))

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(self, behind: TargetPrefill, pools: Pools, operations: CallsByName) -> DraftInput:
        """Return seeds; no forward runs."""
        del pools, operations
        return self._first_seeds(behind)

    def draft(
        self,
        phase: DraftInput,
        config: SpecConfig,
        pools: Pools,
        verify_slots: Callable[[], Array],
        operations: CallsByName,
    ) -> VerifyInput:
        """Draft over what is committed; what waited by row gets the tag."""
        forward = partial(self._forward, pools=pools)
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
        return frozen_draft_input(row, seq_lens, verify_output.bonus_tokens, seeds, self.facts.num_candidates)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it under the tag of FROZEN_KV_MTP."""
        return to_frozen_kv_mtp_draft_extend_input(phase)

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Return what starts the next drafts of the requests that go on."""
        del pools
        return self._next_seeds(batch, operations)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}

    def _forward(self, batch: FrozenDraftBatch[Array], pools: Pools) -> DraftOutput[Array]:
        """Run the draft over the target's buffers that its layers read."""
        return self.model.draft_frozen(batch, shared_kv(self.facts.description, pools.kv[Side.TARGET]))

    def _first_seeds(self, behind: TargetPrefill) -> FrozenKVMTPDraftInput:
        return seed_of_prefill(behind, self.facts.num_candidates)

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        return seed_of_extend(batch, self.facts.num_candidates, operations)
