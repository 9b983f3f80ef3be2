"""What a device has of memory: a map from rows to slots, and in every slot the text that was written there."""

from collections.abc import Sequence

from specsim.properties.laws.support.checks import require
from specsim.simulation.memory import SlotRange

Tag = tuple[int, ...]
SCRATCH: Tag = (-1,)
"""What drafts and rejected nodes leave behind."""


class TaggedSlots:
    """The request-to-token map, and two tags a slot: the text that the target, and that the draft model has read."""

    def __init__(self, num_draft_ahead: int) -> None:
        self.num_draft_ahead = num_draft_ahead
        self.map: dict[tuple[int, int], int] = {}
        self.target: dict[int, Tag] = {}
        self.draft: dict[int, Tag] = {}

    def assign(self, given: SlotRange) -> None:
        """Write slots into the map."""
        require(len(given.slots) == given.end - given.start, "slots of a range", len(given.slots), given)
        for position, slot in zip(range(given.start, given.end), given.slots, strict=True):
            self.map[given.row, position] = slot

    def slot(self, row: int, position: int) -> int:
        """Return what the map says."""
        require((row, position) in self.map, f"slot of position {position} in row {row}", "none", "one")
        return self.map[row, position]

    def write(self, row: int, start: int, end: int, text: Sequence[int]) -> None:
        """Run both models over positions of a text."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot], self.draft[slot] = self.tags(text, position)

    def scribble(self, row: int, start: int, end: int) -> None:
        """Let drafts and nodes that are not accepted write positions."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot] = self.draft[slot] = SCRATCH

    def tags(self, text: Sequence[int], position: int) -> tuple[Tag, Tag]:
        """Return what a position of a text holds: the draft model's cache is ahead by a token where it is shifted."""
        return tuple(text[: position + 1]), tuple(text[: position + 1 + self.num_draft_ahead])

    def require_text(self, what: str, slots: Sequence[int], text: Sequence[int]) -> None:
        """Raise AssertionError unless slots hold the positions of a text from its front."""
        for position, slot in enumerate(slots):
            got, expected = (self.target.get(slot), self.draft.get(slot)), self.tags(text, position)
            require(got == expected, f"tags in slot {slot}, position {position} of {what}", got, expected)
