"""What a case file keeps of a law that takes more than one call: what it was given, and the outcome that shows it."""

import json
from typing import Annotated

import msgspec

MOST_COINS = 4096
Share = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,40}(/[0-9]{1,40})?\Z")]
"""A fraction between 0 and 1."""

Cell = Annotated[tuple[tuple[Share, Share], ...], msgspec.Meta(max_length=MOST_COINS)]
Tokens = Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_COINS)]


class StoredLaw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a case that belongs to a law.

    Parameters
    ----------
    given : Any
        What the law takes, in plain values; ``specsim.properties.suite.conformance.plain_cases`` reads it by the law's
        types.
    coins : tuple of pairs of str
        Of a law over all coins the cell that differs: for each coin the least and the first that is beyond, as
        fractions.
    expected, observed : tuple of int
        The tokens that come out in this cell.
    """

    given: object
    coins: Cell = ()
    expected: Tokens = ()
    observed: Tokens = ()

    def as_text(self) -> str:
        """Return what the law was given as the text that a case's id hashes: JSON without spaces, names in order."""
        return json.dumps(self.given, sort_keys=True, separators=(",", ":"))

    def in_words(self) -> str:
        """Return the cell in one line, or nothing where there is none."""
        if not self.coins:
            return ""
        intervals = " x ".join(f"[{low}, {high})" for low, high in self.coins)
        return f"coins in {intervals}: output {list(self.observed)}, but should be {list(self.expected)}"
