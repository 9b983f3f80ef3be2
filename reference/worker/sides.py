"""The draft side of a loop: what starts a draft, makes its tree, and catches up with the target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import Batch, DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.reference.worker.draft import draft
from specsim.reference.worker.extend import extend, forward_draft_extend
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill, prefill_draft
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.sides import SideFacts


class DraftSide(Protocol):
    """What a loop asks of its draft; pools and operations are the loop's."""

    @property
    def facts(self) -> SideFacts:
        """What the loop knows of it before the first token."""

    def join(self, rows: Sequence[int]) -> None:
        """Take note of requests that join in these rows."""

    def prefill(self, behind: TargetPrefill, pools: Pools, operations: CallsByName) -> DraftInput:
        """Follow chunks that the target is through with."""

    def draft(
        self,
        phase: DraftInput,
        config: SpecConfig,
        pools: Pools,
        verify_slots: Callable[[], Array],
        operations: CallsByName,
    ) -> VerifyInput:
        """Draft a tree for every request."""

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
        """Catch up with a verify of V2, in windows of one width."""

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return what V1 installs behind a verify under the tag that ``extend_ragged`` expects."""

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on."""

    def state(self) -> dict[str, Any]:
        """Return what it keeps by row, by name."""


MakeSide = Callable[[Any, SpecConfig, PoolSizes, bool], DraftSide]
"""From a model, the widest drafts, the sizes of the pools, and whether other ranks wait for its forwards.

It refuses what it cannot run.
"""


@dataclass(frozen=True)
class StepwiseSide:
    """One draft model that runs a forward a step, and one when it catches up: EAGLE and what is drafted like it."""

    model: Model[Array]
    facts: SideFacts
    page_size: int

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes, has_dp_attention: bool = False) -> "StepwiseSide":
        """Return the side of a model, whoever waits for it."""
        del has_dp_attention
        return cls(model, SideFacts(require_model(model, "numpy"), config.topk), sizes.page_size)

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, behind: TargetPrefill, pools: Pools, operations: CallsByName) -> DraftInput:
        """Run the draft over the chunks, shifted by one."""
        return prefill_draft(behind, self.facts.num_candidates, self.model, pools, operations)

    def draft(
        self,
        phase: DraftInput,
        config: SpecConfig,
        pools: Pools,
        verify_slots: Callable[[], Array],
        operations: CallsByName,
    ) -> VerifyInput:
        """Draft step by step."""
        return draft(phase, config, self.model, pools, verify_slots, operations, self.page_size)

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
        """Run the draft over all nodes."""
        topk = self.facts.num_candidates
        return extend(row, verify_input, verify_output, phase, topk, self.model, pools, operations)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it as it is."""
        return phase

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Run the draft over the accepted tokens."""
        return forward_draft_extend(batch, self.facts.num_candidates, self.model, pools, operations)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}
