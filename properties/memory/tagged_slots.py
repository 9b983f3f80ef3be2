"""What a device has of memory: a map from rows to slots, and in every slot the text that was written there."""

from collections.abc import Sequence

from specsim.properties.laws.checks import require, require_same
from specsim.simulation.memory import SlotRange

Tag = tuple[int, ...]
SCRATCH: Tag = (-1,)
"""What drafts and rejected nodes leave in slots."""


class TaggedSlots:
    """The request-to-token map, and two tags a slot: the text that the target, and that the draft model has read.

    With a window, a layer of the target has slots of its own, and a map to them.
    """

    def __init__(self, num_draft_ahead: int, window: int = 0) -> None:
        self.num_draft_ahead = num_draft_ahead
        self.window = window
        self.full_to_swa: dict[int, int] = {}
        self.seen: dict[int, Tag] = {}
        self.map: dict[tuple[int, int], int] = {}
        self.target: dict[int, Tag] = {}
        self.draft: dict[int, Tag] = {}

    def assign(self, given: SlotRange) -> None:
        """Write slots into the map, and their SWA slots into the other one."""
        require(len(given.slots) == given.end - given.start, "slots of a range", len(given.slots), given)
        for position, slot in zip(range(given.start, given.end), given.slots, strict=True):
            self.map[given.row, position] = slot
        if self.window:
            slots = (*given.slots, *given.remapped)
            require_same("SWA slots of a range", len(given.swa_slots), len(slots))
            self.full_to_swa.update(zip(slots, given.swa_slots, strict=True))

    def swa_slot(self, slot: int) -> int:
        """Return what the map of slots says; 0 for none."""
        return self.full_to_swa.get(slot, 0)

    def slot(self, row: int, position: int) -> int:
        """Return what the map says."""
        require((row, position) in self.map, f"slot of position {position} in row {row}", "none", "one")
        return self.map[row, position]

    def write(self, row: int, start: int, end: int, text: Sequence[int]) -> None:
        """Run both models over positions of a text."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot], self.draft[slot] = self.tags(text, position)
            self._show(slot, self.target[slot])

    def scribble(self, row: int, start: int, end: int) -> None:
        """Let drafts and nodes that are not accepted write positions."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot] = self.draft[slot] = SCRATCH
            self._show(slot, SCRATCH)

    def require_window(self, what: str, row: int, next_position: int, text: Sequence[int]) -> None:
        """Raise AssertionError unless a layer with a window finds the text that a token at a position sees of it."""
        for position in range(max(0, next_position - self.window + 1), next_position if self.window else 0):
            slot = self.swa_slot(self.slot(row, position))
            got, expected = self.seen.get(slot) if slot else None, self.tags(text, position)[0]
            require_same(f"tag in SWA slot {slot}, position {position} of {what}", got, expected)

    def _show(self, slot: int, tag: Tag) -> None:
        """Write what a layer with a window has of a slot."""
        if self.window:
            require(self.swa_slot(slot), f"SWA slot of slot {slot}, which is written", "none", "one")
            self.seen[self.swa_slot(slot)] = tag

    def tags(self, text: Sequence[int], position: int) -> tuple[Tag, Tag]:
        """Return what a position of a text holds: the draft model's cache is ahead by a token where it is shifted."""
        return tuple(text[: position + 1]), tuple(text[: position + 1 + self.num_draft_ahead])

    def require_text(self, what: str, slots: Sequence[int], text: Sequence[int]) -> None:
        """Raise AssertionError unless slots hold the positions of a text from its front."""
        for position, slot in enumerate(slots):
            got, expected = (self.target.get(slot), self.draft.get(slot)), self.tags(text, position)
            require_same(f"tags in slot {slot}, position {position} of {what}", got, expected)
