"""The draft side of EAGLE, EAGLE3 and STANDALONE: one draft model that runs a forward a step."""

from collections.abc import Callable, Sequence
from typing import Any

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import Batch, DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
from specsim.reference.worker.draft import draft
from specsim.reference.worker.extend import extend, forward_draft_extend
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill, prefill_draft
from specsim.reference.worker.sides.extended import ExtendedSide
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.sides import Setting, SideFacts


class StepwiseSide(ExtendedSide):
    """A forward a step, and one when it catches up.

    Notes
    -----
    Source: semantics A.4, D.4 to D.7.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, SideFacts(require_model(setting.model, "numpy"), setting.drafting.topk))
        self._model: Model[Array] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Run the draft over the chunks, shifted by one."""
        return prefill_draft(after, self.facts.num_candidates, self._model, pools, self._operations)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Draft step by step."""
        page_size = self._setting.sizes.page_size
        return draft(start, config, self._model, pools, verify_slots, self._operations, page_size)

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Run the draft over all nodes."""
        topk = self.facts.num_candidates
        return extend(row, verify_input, verify_output, phase, topk, self._model, pools, self._operations)

    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Run the draft over the accepted tokens."""
        return forward_draft_extend(batch, self.facts.num_candidates, self._model, pools, self._operations)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}
