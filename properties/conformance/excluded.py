"""What a declaration leaves out of a run: whole properties, and examples that come to lie outside of the limits."""

from collections import Counter
from typing import NoReturn

from hypothesis import reject

from specsim.conformance.limits import SWITCHES, Limits
from specsim.conformance.outside import OutsideLimits
from specsim.properties.catalogue import group_of
from specsim.properties.property import Property


def why_excluded(one: Property, limits: Limits) -> str:
    """Return what is declared if it leaves out a whole property, or nothing."""
    if group_of(one) == "strided" and limits.is_contiguous:
        return SWITCHES["CONTIGUOUS"]
    if group_of(one) == "empty" and not limits.takes_empty:
        return SWITCHES["EMPTY"]
    return ""


def leave_out(counts: Counter[str], outside: OutsideLimits) -> NoReturn:
    """Count an example that lies outside of the limits and end it: it is neither held nor broken."""
    counts[str(outside)] += 1
    reject()
