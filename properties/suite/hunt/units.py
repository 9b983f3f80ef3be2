"""The unit of work of a hunt: one mutant, shown to the properties that may kill it with the cases of a seed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.hunt import Hunt, Options
from specsim.properties.unit_of_work import PlainOutcome


@dataclass(frozen=True)
class HuntLimits:
    """How many cases of each property a mutant is shown to at most."""

    examples: int


class PlainHunt(PlainOutcome):
    """What the process of a hunt sends; ``reach`` has the property that killed the mutant."""


def run_unit(implementation: str, name: str, seeds: Sequence[int], limits: HuntLimits) -> dict[str, Any]:
    """Show a mutant to properties until one kills it; what is returned is plain values.

    Parameters
    ----------
    implementation, name : str
        What faults are planted in, which is the reference, and the mutant.
    seeds : sequence of int
        One, which decides the cases.

    Returns
    -------
    outcome : dict
        ``reach``, the property that kills it, with the number of the example; ``failure`` where none does.
    """
    started, (seed,) = time.monotonic(), seeds
    kills = _hunt(name, limits.examples).kills_of(name, seed)
    failure = None if kills else {"error": f"{name} lives with seed {seed}", "lines": []}
    reach = {kill.property: kill.example for kill in kills}
    return {"duration": time.monotonic() - started, "reach": reach, "ran": {}, "drafts": {}, "failure": failure}


@cache
def _hunt(name: str, examples: int) -> Hunt:
    """Return the hunt for one mutant, whose cases do not depend on what else is hunted."""
    mutants = [mutant for mutant in all_mutants() if mutant.id == name]
    return Hunt(mutants, all_properties(), Options(examples, is_complete=False))
