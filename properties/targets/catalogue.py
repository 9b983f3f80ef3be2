"""Every target, in order, with the properties that state it."""

from collections.abc import Sequence
from functools import cache

from specsim.properties.catalogue import all_properties
from specsim.properties.targets import (
    batches_and_memory,
    drafts_and_schedules,
    output_and_trees,
    section_k,
    section_m,
)
from specsim.properties.targets.target import Covered, Target, covered

_MODULES = (output_and_trees, batches_and_memory, drafts_and_schedules, section_m, section_k)
NUMBERS = (
    *(f"P{number:02}" for number in range(1, 64) if number != 11),
    *(f"M.{number}" for number in range(1, 31)),
    *(f"K.{number}" for number in range(1, 13)),
    "E.4",
)
"""All that there is to state; no law has the number P11."""


def all_targets() -> tuple[Target, ...]:
    """Return every target, laws first, then operations, then worked examples."""
    return in_order([target for module in _MODULES for target in module.TARGETS])


def in_order(written: Sequence[Target]) -> tuple[Target, ...]:
    """Return targets by number.

    Raises
    ------
    ValueError
        A number is missing, unknown, or there twice.
    """
    numbers = [target.number for target in written]
    for number in dict.fromkeys((*NUMBERS, *numbers)):
        expected = 1 if number in NUMBERS else 0
        if numbers.count(number) != expected:
            raise ValueError(f"{number} = {numbers.count(number)} targets, but should be {expected}")
    return tuple(sorted(written, key=lambda target: NUMBERS.index(target.number)))


@cache
def all_covered() -> tuple[Covered, ...]:
    """Return every target with the names of the properties that state it.

    Raises
    ------
    ValueError
        A property has a number that is no target, or a target names what is not there.
    """
    properties = all_properties()
    unknown = sorted({one.catalogue for one in properties} - {"", *NUMBERS})
    if unknown:
        raise ValueError(f"properties have the numbers {unknown}, but should have those of targets")
    return tuple(covered(target, properties) for target in all_targets())


def kinds_of_laws() -> dict[str, str]:
    """Return the title of each number that some property carries."""
    used = {one.catalogue for one in all_properties()}
    return {target.number: target.title for target in all_targets() if target.number in used}
