"""Faults in what a scheduler decides: chunks, allocation ahead, retraction, late results, and the order of streams."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.host.scheduling import Retractions
from specsim.host.stopping import StopRules
from specsim.host.streams import StreamEvent
from specsim.properties.mutants.record import Function, Mutant, Named, unchecked, wrapped

Waits = Callable[[StreamEvent, StreamEvent], bool]


def _with(change: Callable[[Named], None]) -> Callable[[Function], Function]:
    """Inject a fault that hands other arguments to the correct function; ``change`` edits them by name."""

    def inject(correct: Function) -> Function:
        def call(arguments: Named) -> Any:
            change(arguments)
            return correct(**arguments)

        return wrapped(correct, call)

    return inject


def _giving(change: Callable[[Any, Named], Any]) -> Callable[[Function], Function]:
    """Inject a fault in what the correct function returned."""

    def inject(correct: Function) -> Function:
        return wrapped(correct, lambda arguments: change(correct(**arguments), arguments))

    return inject


def _without(is_dropped: Waits) -> Callable[[Function], Function]:
    """Inject a fault that drops some edges between queued events."""

    def drop(places: tuple[int, ...], arguments: Named) -> tuple[int, ...]:
        event, earlier = arguments["event"], arguments["earlier"]
        return tuple(place for place in places if not is_dropped(event, earlier[place]))

    return _giving(drop)


def _one_iteration(arguments: Named) -> None:
    arguments["reserve"] //= 2


def _unaligned(arguments: Named) -> None:
    arguments["page_size"] = 1


def _what_was_asked_for(num_committed: int, num_allocated: int, reserve: int, page_size: int) -> int:
    return -(-(num_committed + reserve) // page_size) * page_size


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


def _nothing_given_back(arguments: Named) -> None:
    arguments["owned"] = [0] * len(arguments["owned"])


def _one_too_many_stays(plan: Retractions, arguments: Named) -> Retractions:
    return replace(plan, num_kept=min(plan.num_kept + 1, len(arguments["needed"])))


def _last_goes_too(plan: Retractions, arguments: Named) -> Retractions:
    return replace(plan, is_last_aborted=plan.num_kept == 1 and len(arguments["needed"]) > 1)


def _last_stays(plan: Retractions, arguments: Named) -> Retractions:
    return replace(plan, is_last_aborted=False)


def _nobody_aborted(arguments: Named) -> None:
    arguments["rules"] = [replace(rules, is_aborted=False) for rules in arguments["rules"]]


def _aborted_by_length(arguments: Named) -> None:
    longest = arguments["accept_index"].shape[1]
    pairs = zip(arguments["rules"], arguments["outputs"], strict=True)
    arguments["rules"] = [
        StopRules(len(output) + longest + 1) if rules.is_aborted else rules for rules, output in pairs
    ]


def _never(is_constrained: Sequence[bool]) -> bool:
    return False


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
    Mutant("OWN-614", "decode_end", "Allocated lengths are not rounded up to pages.", _with(_unaligned)),
    Mutant("OWN-615", "decode_end", "With one iteration in flight, one more fits.", _with(_one_iteration)),
    Mutant("OWN-616", "decode_end", "What is allocated shrinks with the need.", unchecked(_what_was_asked_for)),
    Mutant("S11", "is_late", "A result reaches a request that was retracted since.", _with(_no_retraction_counted)),
    Mutant("OWN-603", "is_late", "A zombie's tokens are counted and appended.", _with(_only_retractions_counted)),
    Mutant("OWN-604", "is_late", "A resumed request never gets a result again.", unchecked(_any_retraction)),
    Mutant("OWN-605", "plan_retractions", "Slots of the retracted do not count as free.", _with(_nothing_given_back)),
    Mutant("OWN-606", "plan_retractions", "One request too few is retracted.", _giving(_one_too_many_stays)),
    Mutant("OWN-607", "plan_retractions", "A request that is left alone ends, room or not.", _giving(_last_goes_too)),
    Mutant("OWN-608", "plan_retractions", "A request without room alone goes on.", _giving(_last_stays)),
    Mutant("OWN-609", _EDGES, "KV is not written in the order of the launches.", _without(_out_of_launch_order)),
    Mutant("S19", _EDGES, "Rows change owners before queued iterations read them.", _without(_before_queued_reads)),
    Mutant("OWN-610", _EDGES, "A forward reads rows before they are written.", _without(_before_the_map_is_written)),
    Mutant("OWN-611", _EDGES, "Two writes of the map change places.", _without(_before_earlier_writes)),
    Mutant("OWN-612", "truncate_at_stop", "V1 does not look at aborts.", _with(_nobody_aborted)),
    Mutant("OWN-613", "truncate_at_stop", "V1 ends an aborted request a verify late.", _with(_aborted_by_length)),
    Mutant(
        "OWN-617",
        "waits_for_result",
        "The next masks are built before the grammar went on.",
        unchecked(_never),
    ),
)
