"""A model that somebody looks over the shoulder of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specsim.conformance.arrays import Array
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.protocol import Model

Buffers = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class WatchedModel:
    """A model that shows every step of a draft to an observer before it runs it."""

    model: Model[Array]
    observer: Callable[[DraftStepBatch[Array], Buffers], None]

    @property
    def description(self) -> ModelDescription:
        """What the model says of itself."""
        return self.model.description

    def prefill(self, batch: TargetBatch[Array], kv: Buffers, states: Buffers) -> TargetOutput[Array]:
        """Run chunks of prompts through the target."""
        return self.model.prefill(batch, kv, states)

    def verify(self, batch: TargetBatch[Array], kv: Buffers, states: Buffers, scratch: Buffers) -> TargetOutput[Array]:
        """Run trees through the target."""
        return self.model.verify(batch, kv, states, scratch)

    def draft_step(self, batch: DraftStepBatch[Array], kv: Buffers) -> DraftOutput[Array]:
        """Show a step, then run it."""
        self.observer(batch, kv)
        return self.model.draft_step(batch, kv)

    def draft_extend(self, batch: DraftExtendBatch[Array], kv: Buffers) -> DraftOutput[Array]:
        """Run the draft over several tokens."""
        return self.model.draft_extend(batch, kv)
