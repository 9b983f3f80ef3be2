"""Mutants: known faults, each in one operation, that the properties must find."""

from functools import cache
from types import ModuleType

from specsim.conformance.catalogue import CATALOGUE
from specsim.properties.mutants.record import Mutant
from specsim.properties.shelves import modules_of_kind

__all__ = ["Mutant", "all_mutants"]

_PLACES = {name: place for place, name in enumerate(CATALOGUE)}


@cache
def all_mutants() -> tuple[Mutant, ...]:
    """Return every mutant, module after module in the order of the catalogue, those that the table generates last."""
    modules = modules_of_kind("faults")
    generated = modules.pop("specsim.properties.operations.generated.faults")
    written = sorted((module for module in modules.values() if "MUTANTS" in vars(module)), key=_place_of)
    return tuple(mutant for module in (*written, generated) for mutant in module.MUTANTS)


def _place_of(module: ModuleType) -> int:
    """Return the place of the callable that the first mutant of a module breaks."""
    return _PLACES[module.MUTANTS[0].operation]
