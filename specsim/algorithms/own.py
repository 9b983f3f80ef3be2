"""The drafters that a module of a user brings alone, as ``DRAFTERS`` has them; our loops run their draft sides."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from specsim.algorithms.drafters import DRAFTERS, LOOPS, WORKERS, Drafter

LAYER_OF_ARRAYS = {"numpy": "reference", "torch": "gpu"}
"""The layer whose loops run a drafter, by what ``ARRAYS`` of its module says."""

SOURCES = ("HIDDEN", "TOKENS")
"""What a draft model of a drafter of a user may consume; the other sources need a model of their own."""


class BadDrafters(ValueError):
    """``DRAFTERS`` of a module has an entry that cannot run in our loops."""


def own_drafters(given: Any, arrays: str) -> dict[str, Drafter]:
    """Return the drafters of a module, a record each.

    Parameters
    ----------
    given : mapping
        ``DRAFTERS`` of the module. By name it has a record with ``sides``, what makes a side by layer, or what makes
        the side of the layer whose arrays the module computes on.
    arrays : str
        What the module computes on.

    Raises
    ------
    BadDrafters
        One of them cannot run in our loops; the words say which one and why.
    """
    if not isinstance(given, Mapping):
        raise BadDrafters(f"DRAFTERS is {given!r}, but should be what makes a draft side, by the name of the drafter")
    layer = LAYER_OF_ARRAYS[arrays]
    found = {name: _record(name, one, layer) for name, one in given.items()}
    for name, one in found.items():
        if layer not in one.sides:
            because = f"the module computes on {arrays} arrays, and ARRAYS of a module says on which"
            raise BadDrafters(f"DRAFTERS[{name!r}] has no side for {layer}, but should have one, because {because}")
    return found


def worker_names(drafters: Mapping[str, Drafter]) -> frozenset[str]:
    """Return the names of the workers that run some drafters."""
    return frozenset(one.worker_name(is_v1) for one in drafters.values() for is_v1 in (True, False))


def loops_of(drafters: Mapping[str, Drafter], arrays: str) -> dict[str, Callable[..., Any]]:
    """Return both loops with the side of each drafter for these arrays, by the names of the workers."""
    layer = LAYER_OF_ARRAYS[arrays]
    return {one.worker_name(is_v1): one.loop(layer, is_v1) for one in drafters.values() for is_v1 in (True, False)}


def _record(name: Any, given: Any, layer: str) -> Drafter:
    what = f"DRAFTERS[{name!r}]"
    if not (isinstance(name, str) and name.isidentifier() and name == name.lower()):
        raise BadDrafters(f"{what} has the name {name!r}, but should have a lower-case identifier")
    taken = {one.lower() for one in (*DRAFTERS, *WORKERS)}
    if {name, *(f"{name}_{version}" for version in ("v1", "v2"))} & taken:
        raise BadDrafters(f"{what} has a name of specsim's own, but should have another one")
    if isinstance(given, Drafter):
        record = given
    else:
        record = Drafter(sides=given if isinstance(given, Mapping) else {layer: given})
    record = replace(record, name=name)
    for one, side in record.sides.items():
        if one not in LOOPS:
            raise BadDrafters(f"{what} has a side for {one!r}, but should have sides for {' or '.join(LOOPS)}")
        if not (callable(side) or (isinstance(side, str) and "." in side)):
            kind = 'a class or its name, "package.module.Class"'
            raise BadDrafters(f"{what} is {side!r} for {one}, but should be {kind}")
    if record.parameters:
        raise BadDrafters(
            f"{what} has parameters, but should have none: its worker takes sizes, and its side is a call"
        )
    if record.is_multi_layer or record.draft_source not in SOURCES:
        raise BadDrafters(f"{what} drafts from {record.draft_source}, but should from {' or '.join(SOURCES)}")
    return record
