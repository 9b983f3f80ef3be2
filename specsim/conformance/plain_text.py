"""Text that others wrote, as it is shown: no character of it moves a cursor, turns a line around or begins another."""

from collections.abc import Sequence

LONGEST_SHOWN = 2000
MOST_NAMED = 3


def shown(text: str, most: int = LONGEST_SHOWN) -> str:
    r"""Return text in one line of printable characters; every other one is written as in a literal of Python.

    Parameters
    ----------
    text : str
        Anything, as from a case file: escape sequences of terminals, marks of direction, newlines.
    most : int
        Characters after which it is cut.
    """
    cut = text if len(text) <= most else text[:most] + " …"
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)


def shown_path(path: object) -> str:
    """Return a path likewise; bytes that are no text stay as Python holds them, because they name the file."""
    return "".join(one if "\ud800" <= one <= "\udfff" else shown(one) for one in str(path))


def named(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
