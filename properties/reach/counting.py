"""Counting of what a law reaches: its caller asks for the counts, and the law says what happened."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from specsim.properties.inside import having

_COUNTS: ContextVar[Counter[str] | None] = ContextVar("reach", default=None)


def counting_reach() -> AbstractContextManager[Counter[str]]:
    """Count what laws meet inside."""
    return having(_COUNTS, Counter())


def reached(tag: object) -> None:
    """Report that a run met something; without anybody who counts, nothing happens."""
    counts = _COUNTS.get()
    if counts is not None:
        counts[str(tag)] += 1


def require_reach(wanted: Sequence[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of what a law must meet; raise AssertionError if it does not meet all of it."""
    missed = [tag for tag in wanted if not counts.get(tag)]
    if missed:
        raise AssertionError(f"reach = {len(wanted) - len(missed)} of {len(wanted)} classes, but not {missed}")
    return {tag: counts[tag] for tag in wanted}
