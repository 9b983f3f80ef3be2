"""Text that others wrote, as it is shown: no character of it moves a cursor, turns a line around or begins another."""

import traceback
from collections.abc import Sequence

LONGEST_SHOWN = 2000
LONGEST_TEXT = 1 << 14
"""Characters of a message that are kept."""
LONGEST_TRACE = 1 << 16
"""Characters of a traceback that are kept."""
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


def printable(text: str) -> str:
    r"""Return text of several lines likewise, whole: newlines and tabs stay as they are."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in text)


def shown_path(path: object) -> str:
    """Return a path likewise; bytes that are no text stay as Python holds them, because they name the file."""
    return "".join(one if "\ud800" <= one <= "\udfff" else shown(one) for one in str(path))


def named(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def bounded(text: str, most: int = LONGEST_TEXT) -> str:
    """Return the beginning of a text as a plain ``str``, whatever subclass of it the text is."""
    plain = str.__str__(text)
    return plain if len(plain) <= most else plain[:most] + " …"


def words_of(error: BaseException) -> str:
    """Return the beginning of the message of an exception, whose class may be a stranger's and fail to make one."""
    try:
        return bounded(str(error))
    except (Exception, SystemExit):  # NOTE: a class of a stranger runs anything here.
        return f"{type(error).__name__}, whose message cannot be had"


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an exception."""
    return (words_of(error).splitlines() or [""])[0]


def said(value: object, most: int = 200) -> str:
    """Return what a stranger gave as Python writes it, cut and in one line."""
    try:
        return shown(bounded(value if type(value) is str and len(value) > most else repr(value), most), most + 2)
    except (Exception, SystemExit):  # NOTE: as above.
        return f"a {type(value).__name__} that cannot be shown"


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception, or that there is none."""
    try:
        return "".join(traceback.format_exception(error))
    except (Exception, SystemExit) as odd:
        return f"{type(error).__name__}, whose traceback cannot be had: {type(odd).__name__}"
