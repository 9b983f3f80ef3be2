"""Faults in what a scheduler decides: chunks, late results, and the order of streams."""

from collections.abc import Callable
from dataclasses import replace

from specsim.host.stopping import StopRules
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, given, mutants_of_operations


def _without(edges: str) -> Callable[[Function], Function]:
    """Inject a fault that drops some edges between queued events."""
    return edited("_waits(event, other)", f"_waits(event, other) and not ({edges})")


def _none_aborted(arguments: Named) -> None:
    arguments["rules"] = [replace(rules, is_aborted=False) for rules in arguments["rules"]]


def _aborted_by_length(arguments: Named) -> None:
    longest = arguments["accept_index"].shape[1]
    pairs = zip(arguments["rules"], arguments["outputs"], strict=True)
    arguments["rules"] = [
        StopRules(len(output) + longest + 1) if rules.is_aborted else rules for rules, output in pairs
    ]


_CHUNK, _LATE, _EDGES, _TRUNCATE = "chunk_length", "is_late", "stream_edges", "truncate_at_stop"
_IS_OTHER = "num_retractions != num_retractions_at_launch"

MUTANTS = mutants_of_operations(
    {
        ("OWN-601", _CHUNK, "A chunk ends inside a page."): edited("budget // page_size * page_size", "budget"),
        ("OWN-602", _CHUNK, "The last token of a prompt waits for a turn."): edited(
            "return num_left", "return num_left - (num_left > 1)"
        ),
        ("S11", _LATE, "A result reaches a request that was retracted since."): edited(_IS_OTHER, "False"),
        ("OWN-603", _LATE, "A zombie's tokens are counted and appended."): edited("has_finished", "False"),
        ("OWN-604", _LATE, "A resumed request never gets a result again."): edited(_IS_OTHER, "num_retractions > 0"),
        ("OWN-609", _EDGES, "KV is not written in the order of the launches."): _without(
            "event.writes_slots and other.writes_slots and event.launch != other.launch"
        ),
        ("S19", _EDGES, "Rows change owners before queued iterations read them."): _without(
            "event.writes_map and other.reads_map"
        ),
        ("OWN-610", _EDGES, "A forward reads rows before they are written."): _without(
            "event.reads_map and other.writes_map"
        ),
        ("OWN-611", _EDGES, "Two writes of the map change places."): _without("event.writes_map and other.writes_map"),
        ("OWN-612", _TRUNCATE, "V1 does not look at aborts."): given(_none_aborted),
        ("OWN-613", _TRUNCATE, "V1 ends an aborted request a verify late."): given(_aborted_by_length),
        ("OWN-617", "waits_for_result", "The next masks are built before the grammar went on."): edited(
            "any(is_constrained)", "False"
        ),
    }
)
