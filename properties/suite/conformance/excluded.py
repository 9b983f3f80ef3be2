"""What a declaration leaves out of a run: whole properties, and examples that come to lie outside of the limits."""

from collections import Counter
from typing import NoReturn

from hypothesis import reject

from specsim.conformance.limits import Limits
from specsim.properties.property import Property
from specsim.properties.strategies.limits import leaves_out


def why_excluded(one: Property, limits: Limits) -> str:
    """Return what is declared if it leaves out a whole property, or nothing."""
    return leaves_out(one.name, limits)


def leave_out(counts: Counter[str], outside: str) -> NoReturn:
    """Count an example that lies outside of the limits and end it: it is neither held nor broken."""
    counts[outside] += 1
    reject()
