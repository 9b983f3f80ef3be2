"""A model whose draft reads by page, while somebody looks over its shoulder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from specsim.conformance.arrays import Array
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.protocol import Model

Buffers = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class PageOfBeam:
    """The slots in front of the own entries of a beam on their page, and those of the same positions of the text.

    ``place`` is that of the beam in the batch, ``start`` where the keys of these positions stand in its list of keys.
    """

    place: int
    start: int
    copies: list[int]
    text: list[int]


def pages_of_beams(batch: DraftStepBatch[Array], page_size: int) -> list[PageOfBeam]:
    """Return, of each beam, what attention that reads whole pages finds in front of the first entry of its own."""
    indices, starts = batch.keys.kv_indices.tolist(), batch.keys.kv_indptr.tolist()
    num_own, found = batch.depth - 1, []
    for place in range(len(batch.input_ids)):
        keys = indices[starts[place] : starts[place + 1]]
        length = len(keys) - num_own
        first, start = keys[length], length // page_size * page_size
        copies = list(range(first // page_size * page_size, first))
        found.append(PageOfBeam(place, starts[place] + start, copies, keys[start:length]))
    return found


@dataclass(frozen=True)
class WatchedModel:
    """A model whose draft steps read whole pages of their beams, and show them to an observer before they run."""

    model: Model[Array]
    page_size: int
    observer: Callable[[DraftStepBatch[Array], Buffers, Sequence[PageOfBeam]], None]

    @property
    def description(self) -> ModelDescription:
        """What the model says of itself; what is looked at cannot be captured."""
        return replace(self.model.description, is_capturable=False)

    def prefill(self, batch: TargetBatch[Array], kv: Buffers, states: Buffers) -> TargetOutput[Array]:
        """Run chunks of prompts through the target."""
        return self.model.prefill(batch, kv, states)

    def verify(self, batch: TargetBatch[Array], kv: Buffers, states: Buffers, scratch: Buffers) -> TargetOutput[Array]:
        """Run trees through the target."""
        return self.model.verify(batch, kv, states, scratch)

    def draft_step(self, batch: DraftStepBatch[Array], kv: Buffers) -> DraftOutput[Array]:
        """Show a step, then run it on the keys that lie on the pages of its beams."""
        pages = pages_of_beams(batch, self.page_size)
        self.observer(batch, kv, pages)
        # NOTE: a copy, in any array library.
        indices = batch.keys.kv_indices + 0
        for page in pages:
            for number, slot in enumerate(page.copies[: len(page.text)]):
                indices[page.start + number] = slot
        return self.model.draft_step(replace(batch, keys=replace(batch.keys, kv_indices=indices)), kv)

    def draft_extend(self, batch: DraftExtendBatch[Array], kv: Buffers) -> DraftOutput[Array]:
        """Run the draft over several tokens."""
        return self.model.draft_extend(batch, kv)
