"""The draft side of a loop on the device: what starts a draft, makes its tree, and catches up with the target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.draft import draft
from specsim.gpu.worker.extend import extend, forward_draft_extend
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill, device_array, prefill_draft
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.sides import SideFacts


class DraftSide(Protocol):
    """What a loop asks of its draft; ``draft`` and ``extend`` can be captured."""

    @property
    def facts(self) -> SideFacts:
        """What the loop knows of it before the first token."""

    def join(self, rows: Sequence[int]) -> None:
        """Take note of requests that join in these rows."""

    def prefill(self, behind: TargetPrefill, pools: Pools) -> DraftInput:
        """Follow chunks that the target is through with."""

    def draft(
        self, phase: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft a tree for every request."""

    def extend(
        self,
        rows: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        keys: PagedKeys[Tensor],
        pools: Pools,
    ) -> DraftInput:
        """Catch up with a verify of V2, in windows of one width."""

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return what V1 collects behind a verify under the tag of the algorithm."""

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on."""

    def state(self) -> dict[str, Any]:
        """Return what it keeps by row, by name, as NumPy arrays."""


MakeSide = Callable[[Any, SpecConfig, PoolSizes, bool], DraftSide]
"""From a model, the widest drafts, the sizes of the pools, and whether other ranks wait for its forwards.

It refuses what it cannot run.
"""


@dataclass(frozen=True)
class StepwiseSide:
    """One draft model that runs a forward a step, and one when it catches up: EAGLE and what is drafted like it."""

    model: Model[Tensor]
    facts: SideFacts
    page_size: int
    hot_token_id: Tensor | None

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes, has_dp_attention: bool = False) -> "StepwiseSide":
        """Return the side of a model, whoever waits for it."""
        del has_dp_attention
        description = require_model(model, "torch")
        return cls(model, SideFacts(description, config.topk), sizes.page_size, hot_tokens_of(description))

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, behind: TargetPrefill, pools: Pools) -> DraftInput:
        """Run the draft over the chunks, shifted by one."""
        return prefill_draft(behind, self.facts.num_candidates, self.model, pools)

    def draft(
        self, phase: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft step by step."""
        return draft(phase, config, self.model, pools, self.hot_token_id, verify_slots, self.page_size)

    def extend(
        self,
        rows: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        keys: PagedKeys[Tensor],
        pools: Pools,
    ) -> DraftInput:
        """Run the draft over all nodes."""
        return extend(rows, verify_input, verify_output, phase, keys, self.facts.num_candidates, self.model, pools)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it as it is."""
        return phase

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Run the draft over the accepted tokens."""
        return forward_draft_extend(phase, self.facts.num_candidates, self.model, pools)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}


def hot_tokens_of(description: ModelDescription) -> Tensor | None:
    """Return the draft's vocabulary on the device; None where it is the target's."""
    hot = description.hot_token_id
    return None if hot is None else device_array(hot, DEVICE)
