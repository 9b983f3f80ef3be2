"""The draft side of a loop: what starts a draft, makes its tree, and catches up with the target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import Batch, DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
from specsim.reference.worker.draft import draft
from specsim.reference.worker.extend import extend, forward_draft_extend
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill, prefill_draft
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.requests import PromptChunk


class DraftSide(Protocol):
    """What a loop asks of its draft; pools and operations are the loop's."""

    @property
    def description(self) -> ModelDescription:
        """What the model says of itself."""

    @property
    def num_candidates(self) -> int:
        """Tokens that wait of every request between iterations."""

    @property
    def borrows(self) -> bool:
        """Whether a draft writes slots of its own, which V1 borrows for it."""

    def join(self, rows: Sequence[int]) -> None:
        """Take note of requests that join in these rows."""

    def prefill(
        self,
        rows: Sequence[int],
        chunks: Sequence[PromptChunk],
        behind: TargetPrefill,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
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

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on."""

    def state(self) -> dict[str, Any]:
        """Return what it keeps by row, by name."""


MakeSide = Callable[[Any, SpecConfig, PoolSizes], DraftSide]
"""From a model, the widest drafts and the sizes of the pools; refuses a model that it cannot run."""


@dataclass(frozen=True)
class StepwiseSide:
    """One draft model that runs a forward a step, and one when it catches up: EAGLE and what is drafted like it."""

    model: Model[Array]
    description: ModelDescription
    num_candidates: int
    page_size: int
    borrows: bool = True

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes) -> "StepwiseSide":
        """Return the side of a model."""
        return cls(model, require_model(model, "numpy"), config.topk, sizes.page_size)

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(
        self,
        rows: Sequence[int],
        chunks: Sequence[PromptChunk],
        behind: TargetPrefill,
        pools: Pools,
        operations: CallsByName,
    ) -> DraftInput:
        """Run the draft over the chunks, shifted by one."""
        del rows, chunks
        return prefill_draft(behind, self.num_candidates, self.model, pools, operations)

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
        topk = self.num_candidates
        return extend(row, verify_input, verify_output, phase, topk, self.model, pools, operations)

    def extend_ragged(self, batch: Batch, pools: Pools, operations: CallsByName) -> DraftInput:
        """Run the draft over the accepted tokens."""
        return forward_draft_extend(batch, self.num_candidates, self.model, pools, operations)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}
