"""Faults in what a scheduler decides: chunks, late results, and the order of streams."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.host.stopping import StopRules
from specsim.host.streams import StreamEvent
from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, unchecked

Waits = Callable[[StreamEvent, StreamEvent], bool]


def _giving(change: Callable[[Any, Named], Any]) -> Callable[[Function], Function]:
    """Inject a fault in what the correct function returned."""
    return answering(lambda correct, arguments: change(correct(**arguments), arguments))


def _without(is_dropped: Waits) -> Callable[[Function], Function]:
    """Inject a fault that drops some edges between queued events."""

    def drop(places: tuple[int, ...], arguments: Named) -> tuple[int, ...]:
        event, earlier = arguments["event"], arguments["earlier"]
        return tuple(place for place in places if not is_dropped(event, earlier[place]))

    return _giving(drop)


def _whole_budget(num_left: int, budget: int | None, page_size: int) -> int:
    return num_left if budget is None else min(num_left, budget)


def _without_the_last(length: int, arguments: Named) -> int:
    return length - 1 if length == arguments["num_left"] > 1 else length


def _no_retraction_counted(arguments: Named) -> None:
    arguments["num_retractions"] = arguments["num_retractions_at_launch"]


def _only_retractions_counted(arguments: Named) -> None:
    arguments["has_finished"] = False


def _any_retraction(num_retractions_at_launch: int, num_retractions: int, has_finished: bool) -> bool:
    return has_finished or num_retractions > 0


def _none_aborted(arguments: Named) -> None:
    arguments["rules"] = [replace(rules, is_aborted=False) for rules in arguments["rules"]]


def _aborted_by_length(arguments: Named) -> None:
    longest = arguments["accept_index"].shape[1]
    pairs = zip(arguments["rules"], arguments["outputs"], strict=True)
    arguments["rules"] = [
        StopRules(len(output) + longest + 1) if rules.is_aborted else rules for rules, output in pairs
    ]


def _out_of_launch_order(event: StreamEvent, other: StreamEvent) -> bool:
    return event.writes_slots and other.writes_slots and event.launch != other.launch


def _before_queued_reads(event: StreamEvent, other: StreamEvent) -> bool:
    return event.writes_map and other.reads_map


def _before_the_map_is_written(event: StreamEvent, other: StreamEvent) -> bool:
    return event.reads_map and other.writes_map


def _before_earlier_writes(event: StreamEvent, other: StreamEvent) -> bool:
    return event.writes_map and other.writes_map


_EDGES = "stream_edges"

MUTANTS = (
    Mutant("OWN-601", "chunk_length", "A chunk ends inside a page.", unchecked(_whole_budget)),
    Mutant("OWN-602", "chunk_length", "The last token of a prompt waits for a turn.", _giving(_without_the_last)),
    Mutant("S11", "is_late", "A result reaches a request that was retracted since.", given(_no_retraction_counted)),
    Mutant("OWN-603", "is_late", "A zombie's tokens are counted and appended.", given(_only_retractions_counted)),
    Mutant("OWN-604", "is_late", "A resumed request never gets a result again.", unchecked(_any_retraction)),
    Mutant("OWN-609", _EDGES, "KV is not written in the order of the launches.", _without(_out_of_launch_order)),
    Mutant("S19", _EDGES, "Rows change owners before queued iterations read them.", _without(_before_queued_reads)),
    Mutant("OWN-610", _EDGES, "A forward reads rows before they are written.", _without(_before_the_map_is_written)),
    Mutant("OWN-611", _EDGES, "Two writes of the map change places.", _without(_before_earlier_writes)),
    Mutant("OWN-612", "truncate_at_stop", "V1 does not look at aborts.", given(_none_aborted)),
    Mutant("OWN-613", "truncate_at_stop", "V1 ends an aborted request a verify late.", given(_aborted_by_length)),
    Mutant(
        "OWN-617",
        "waits_for_result",
        "The next masks are built before the grammar went on.",
        unchecked(lambda is_constrained: False),
    ),
)
