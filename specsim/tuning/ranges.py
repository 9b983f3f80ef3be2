"""Ranges as a command line has them: ``1,2,4,8``, ``1..8``, ``4..64..4``."""

import re

from specsim.rejection import Reason, SpecRejection, contradiction

MOST_CELLS = 1_000_000
"""Combinations of a sweep at most: at a third of a second each they take four days."""

_PART = re.compile(r"(\d+)(?:\.\.(\d+)(?:\.\.(\d+))?)?")
FORM = "numbers and ranges with commas between them, like 1,2,4..8 or 4..64..4"


def parse_range(option: str, text: str, least: int, most: int, because: str) -> tuple[int, ...]:
    """Return the numbers of a range, ascending and each once.

    Parameters
    ----------
    option : str
        What messages call it.
    text : str
        Parts with commas between them, each a number, first and last, or these and a step.
    least, most : int
        Bounds of every number.
    because : str
        Where the bounds come from.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: another form, or a range without a number; COUNT_OUT_OF_RANGE: a number out of bounds.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise contradiction(option, text or "empty", FORM, f"{part.strip() or 'nothing'!r} is none")
        first, last, step = (None if one is None else int(one) for one in found.groups())
        first = first or 0
        last = first if last is None else last
        if step == 0 or last < first:
            why = "its step is 0" if step == 0 else f"{first} is above {last}"
            raise contradiction(option, text, "a range with a number in it", why)
        for bound in (first, last):
            if not least <= bound <= most:
                raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, option, bound, f"{least} to {most}", because)
        numbers.update(range(first, last + 1, 1 if step is None else step))
    return tuple(sorted(numbers))


def check_cells(num_cells: int) -> None:
    """Raise SpecRejection if a sweep has more combinations than anyone can run.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE.
    """
    if num_cells > MOST_CELLS:
        because = "each is a run; ranges may have steps, like 4..64..4"
        what, most = "number of combinations", f"at most {MOST_CELLS:,}"
        raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, f"{num_cells:,}", most, because)
