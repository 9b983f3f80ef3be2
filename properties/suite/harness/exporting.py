"""What leaves anybody's engine, compared with what its forwards wrote: committed tokens in slots that hold them."""

from collections.abc import Callable, Sequence

from specsim.assertion import require
from specsim.rejection import Reason, SpecRejection, check_length, check_range

Lengths = tuple[int, int, int]
"""Positions that the target's cache has, that the draft's has, and tokens in the recurrent states; 0 for none."""

Exporting = Callable[[int], tuple[Sequence[int], Sequence[int], Lengths]]
"""Takes a row; returns tokens and slots of the positions that may leave, from the front, and what each cache has."""


class WrittenSlots:
    """The slots of an engine as its own forwards are reported to write them: poison until a row is committed.

    Notes
    -----
    Source: semantics Q.7.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, int, bool]] = {}
        self._checkpoints: dict[int, set[int]] = {}

    def write(self, slots: Sequence[int], tokens: Sequence[int], positions: Sequence[int]) -> None:
        """Note the rows of a forward, one token at one position a slot: prompts, drafts, nodes and padding alike.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: not one token and one position a slot.
        """
        for what, values in (("tokens", tokens), ("positions", positions)):
            check_length(what, len(values), len(slots), "a forward writes one row a slot")
        for slot, token, position in zip(slots, tokens, positions, strict=True):
            self._held[slot] = (token, position, False)

    def commit(self, slots: Sequence[int]) -> None:
        """Note that what lies in some slots was accepted, or is part of a prompt.

        Raises
        ------
        SpecRejection
            SLOT_OUT_OF_RANGE: no forward has written one of them.
        """
        for slot in slots:
            self._require_written(slot)
        for slot in slots:
            self._held[slot] = (*self._held[slot][:2], True)

    def move(self, targets: Sequence[int], sources: Sequence[int]) -> None:
        """Note that entries were copied to other slots, all of them read before any is written.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: not one source a target; SLOT_OUT_OF_RANGE: a source that no forward has written.
        """
        check_length("sources", len(sources), len(targets), "a slot is copied to a slot")
        for slot in sources:
            self._require_written(slot)
        self._held |= dict(zip(targets, [self._held[slot] for slot in sources], strict=True))

    def checkpoint(self, row: int, num_tokens: int) -> None:
        """Note that the recurrent states of a row were kept after so many tokens of its text."""
        self._checkpoints.setdefault(row, set()).add(num_tokens)

    def check(self, export: Exporting, row: int, text: Sequence[int], num_tokens: int | None = None) -> int:
        """Raise AssertionError unless what an engine exports of a row is committed text in slots that hold it.

        Parameters
        ----------
        export : callable
            The engine's own.
        row : int
            What it names the request by.
        text : sequence of int
            Resolved tokens, prompt and output, up to the end of the request.
        num_tokens : int or None
            Resolved tokens before the end cut them; None for those of the text.

        Returns
        -------
        num_positions : int
            How many positions leave: a harness in which that is always 0 has seen nothing.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: fewer tokens were resolved than the text has.
        """
        num_tokens = len(text) if num_tokens is None else num_tokens
        because = "a text is what was resolved, or its front"
        check_range(Reason.COUNT_OUT_OF_RANGE, "num_tokens", num_tokens, because, len(text))
        tokens, slots, (target, draft, states) = export(row)
        require(len(tokens) == target, f"tokens of row {row} that leave", len(tokens), target)
        require(len(slots) == target, f"slots of row {row} that leave", len(slots), target)
        most = min(num_tokens - 1, len(text))
        for position, (token, slot) in enumerate(zip(tokens, slots, strict=True)):
            what = f"slot {slot}, which leaves as position {position} of row {row}"
            require(slot in self._held, what, "nothing was written there", "the entry of a committed token")
            held, at, is_committed = self._held[slot]
            require(is_committed, what, f"token {held} at {at}, which was not committed", "committed")
            require(position < most, what, f"position {position}", f"one before {most}: the last token was never fed")
            require((held, at) == (text[position], position), what, (held, at), (text[position], position))
            require(token == text[position], f"token of {what}", token, text[position])
        require(0 <= draft <= target, f"draft positions of row {row} that leave", draft, f"0 to {target}")
        known = sorted({0, *(length for length in self._checkpoints.get(row, ()) if length <= target)})
        require(states in known, f"tokens in the states of row {row} that leave", states, f"one of {known}")
        return target

    def _require_written(self, slot: int) -> None:
        if slot not in self._held:
            because = "what was not written is no one's entry"
            raise SpecRejection(Reason.SLOT_OUT_OF_RANGE, "slot", slot, "one that a forward has written", because)
