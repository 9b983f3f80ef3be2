"""Structural rules that several groups share."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.rejection import Reason
from specsim.validation.rule import Arguments, Fault, Rule, rule


def extremes(values: NDArray[Any]) -> tuple[Any, Any]:
    """Return the least and the largest entry of an array that has some, both NaN if one is."""
    # NOTE: the places of extremes are found four times as fast as extremes, and as that of either counts the first NaN.
    return values.item(values.argmin()), values.item(values.argmax())


def first_place(bad: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Return the index of the first true entry, or None."""
    # NOTE: nearly always there is none, and counting finds that out ten times as fast as any reduction.
    if not np.count_nonzero(bad):
        return None
    return tuple(np.argwhere(bad)[0].tolist())


def fault_in(values: NDArray[Any], bad: NDArray[np.bool_], what: str, expected: str) -> Fault | None:
    """Return the fault of the first bad entry of an array, or None."""
    place = first_place(bad)
    return None if place is None else Fault(f"{what}{list(place)}", values[place], expected)


@rule(Reason.MALFORMED_PATH, "valid entries form a prefix of the row")
def _sentinels_end_a_path(arguments: Arguments, axes: Arguments) -> Fault | None:
    """After a sentinel a row of `accept_index` holds sentinels only."""
    del axes
    paths = arguments["accept_index"]
    place = first_place((paths[:, 1:] >= 0) & (paths[:, :-1] < 0))
    if place is None:
        return None
    return Fault(f"accept_index[{place[0]}, {place[1] + 1}]", paths[:, 1:][place], "-1")


@rule(Reason.NODE_OUT_OF_RANGE, "a path stays in its own request")
def _paths_stay_in_their_request(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Row b of `accept_index` names nodes `b*node` to `b*node+node-1`."""
    paths, width = arguments["accept_index"], axes["node"]
    place = first_place((paths >= 0) & (paths // max(width, 1) != np.arange(len(paths))[:, None]))
    if place is None:
        return None
    first = place[0] * width
    return Fault(f"accept_index{list(place)}", paths[place], f"{first} to {first + width - 1}")


@rule(Reason.MALFORMED_PATH, "a path starts at the root")
def _paths_start_at_the_root(arguments: Arguments, axes: Arguments) -> Fault | None:
    """The first node of row b of `accept_index` is `b*node`."""
    first = arguments["accept_index"][:, :1]
    roots = np.arange(len(first))[:, None] * axes["node"]
    place = first_place((first >= 0) & (first != roots))
    return None if place is None else Fault(f"accept_index{list(place)}", first[place], str(roots[place]))


@rule(Reason.MALFORMED_PATH, "a path passes a node once")
def _paths_pass_a_node_once(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No row of `accept_index` names a node twice; numbers need not ascend, for a child may have a smaller one."""
    del axes
    paths = arguments["accept_index"]
    ranked = np.sort(paths, axis=1)
    repeated = first_place((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0))
    if repeated is None:
        return None
    row = paths[repeated[0]].tolist()
    place = next(place for place, node in enumerate(row) if node in row[:place])
    return Fault(f"accept_index[{repeated[0]}, {place}]", row[place], "a node that the path has not passed")


PATHS = (_sentinels_end_a_path, _paths_stay_in_their_request, _paths_start_at_the_root, _paths_pass_a_node_once)
"""Accepted paths are paths."""


def repeated_slot(what: str, slots: NDArray[Any]) -> Fault | None:
    """Return the fault of a slot other than the dump that occurs twice, or None."""
    owned = [slot for slot in slots.ravel().tolist() if slot]
    if len(set(owned)) == len(owned):
        return None
    repeated = min(slot for slot, count in Counter(owned).items() if count > 1)
    return Fault(what, repeated, "each slot at most once")


@rule(Reason.DUPLICATE_SLOT, "two sources cannot share a slot")
def _targets_are_distinct(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No slot but the dump occurs twice in `target_slots`."""
    del axes
    return repeated_slot("target_slots", arguments["target_slots"])


TARGETS = (_targets_are_distinct,)
"""A move writes every slot once."""


def rows_are_distinct(is_written: Callable[[Arguments], Any], which: str = "requests") -> Rule:
    """Return the rule that the requests which write into the request-to-token map have rows of their own."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        rows = arguments["req_pool_indices"][is_written(arguments)].tolist()
        if len(set(rows)) == len(rows):
            return None
        repeated = min(row for row in rows if rows.count(row) > 1)
        return Fault("req_pool_indices", repeated, "distinct rows")

    return Rule(f"No two {which} have one row of `req_to_token`.", Reason.DUPLICATE_ROW, "a row has one owner", find)


def offsets_ascend(name: str, total: str | None) -> Rule:
    """Return the rule that offsets ascend from 0 to the size of an axis, or to whatever they end at."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        offsets = arguments[name].tolist()
        last = offsets[-1] if total is None else axes[total]
        if offsets[0] == 0 and offsets[-1] == last and offsets == sorted(offsets):
            return None
        return Fault(name, offsets, f"ascending from 0 to {last}")

    end = "" if total is None else f" to `{total}`"
    return Rule(f"`{name}` ascends from 0{end}.", Reason.INCONSISTENT_LENGTHS, "they cut a flat array", find)


def lengths_add_up(sentence: str, lengths: Callable[[Arguments], Any], axis: str, what: str) -> Rule:
    """Return the rule that lengths add up to the flat array that they fill."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        total = int(np.sum(lengths(arguments)))
        return None if total == axes[axis] else Fault(what, axes[axis], str(total))

    return Rule(sentence, Reason.INCONSISTENT_LENGTHS, "the ranges add up to it", find)


def bounds_the_sum(
    name: str, axis: str, needed: Callable[[Arguments, Arguments], int], sentence: str, why: str
) -> Rule:
    """Return the rule that a stated size is at least what the lengths need."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        least = needed(arguments, axes)
        return None if axes[axis] >= least else Fault(name, axes[axis], f"at least {least}")

    return Rule(sentence, Reason.INCONSISTENT_LENGTHS, why, find)
