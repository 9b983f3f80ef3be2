"""``specsim soak --exhaustive``: every short history of small engines, and the mutants that are shown to them."""

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, NoReturn

from specsim.cli.ci_files import ReportFile
from specsim.cli.device import choose_device
from specsim.cli.documents import FAILED, FailureRecord, PropertyRecord, circumstances, shared_document
from specsim.cli.output import (
    EXIT_OF_VERDICT,
    Exit,
    announce,
    finish,
    plain_table,
    print_json,
    print_table,
    progress,
    say,
    verdict_of,
)
from specsim.conformance.backend import Backend

if TYPE_CHECKING:
    from specsim.properties.suite.small_scopes.explore import Failed as FailedScope
    from specsim.properties.suite.small_scopes.explore import Result
    from specsim.properties.suite.small_scopes.faults import Shown

SCOPES = "scopes"
"""The property: what holds in every state of every scope."""


def explore_small_scopes(
    backend: Backend, most_states: int, most_seconds: int, as_json: bool, page: ReportFile
) -> NoReturn:
    """Explore every scope with the parts of an implementation, and print what was seen."""
    from specsim.properties.suite.small_scopes.explore import explore
    from specsim.properties.suite.small_scopes.scopes import all_scopes

    scopes = all_scopes()
    if not as_json:
        announce(f"{backend.name}, {len(scopes)} scopes, at most {most_states:,} states and {most_seconds:,} s")
    with progress("soak") as on_progress, redirect_stdout(sys.stderr):
        seen = explore(backend, scopes, most_states, most_seconds, on_progress=on_progress)
    verdict = f"{_verdict_of_scopes(seen)}: {seen.num_states:,} states, depth {seen.depth}"
    document = {**_document_of_scopes(seen, backend.name), **circumstances(verdict, choose_device(), None)}
    if as_json:
        print_json(document)
    else:
        _print_scopes(seen)
    if not as_json:
        say(verdict)
    page.write(document)
    finish(EXIT_OF_VERDICT[_verdict_of_scopes(seen)], verdict)


def _verdict_of_scopes(seen: "Result") -> str:
    return verdict_of(is_interrupted=seen.is_interrupted, wrong=[seen.failed.error] if seen.failed else [], because=[])


def show_small_mutants(as_json: bool) -> NoReturn:
    """Show the mutants of parts and scheduling to every short history, and print which of them die."""
    from specsim.properties.suite.small_scopes.faults import MOST_EVENTS, UNSEEN, mutants_of_parts, show

    mutants = mutants_of_parts()
    shown: list[Shown] = []
    is_interrupted = False
    with progress("soak") as on_progress, redirect_stdout(sys.stderr):
        try:
            for place, mutant in enumerate(mutants, 1):
                shown.append(show(mutant))
                if on_progress is not None:
                    on_progress(mutant.id, place, len(mutants))
        except KeyboardInterrupt:
            is_interrupted = True
    alive = [one.mutant.id for one in shown if one.failed is None and one.mutant.id not in UNSEEN]
    if as_json:
        print_json(
            {"most_events": MOST_EVENTS, "survivors": alive, "mutants": [_row_of_mutant(one, UNSEEN) for one in shown]}
        )
    else:
        table = plain_table("mutant", "#events", "what fails, or why nothing can")
        for one in shown:
            row = _row_of_mutant(one, UNSEEN)
            table.add_row(one.mutant.id, str(row["events"] or "-"), str(row["error"] or row["reason"] or "SURVIVES"))
        print_table(table)
    died = sum(one.failed is not None for one in shown)
    verdict = f"{died} of {len(shown)} mutants die within {MOST_EVENTS} events, {len(alive)} survive"
    verdict = f"interrupted: {verdict}" if is_interrupted else verdict
    if not as_json:
        say(verdict)
    finish(Exit.INTERRUPTED if is_interrupted else Exit.FAILURE if alive else Exit.CONFORMS, verdict)


def _row_of_mutant(one: "Shown", unseen: dict[str, str]) -> dict[str, object]:
    failed = one.failed
    return {
        "id": one.mutant.id,
        "part": one.mutant.operation,
        "summary": one.mutant.summary,
        "events": None if failed is None else len(failed.history),
        "scope": None if failed is None else str(failed.scope),
        "error": None if failed is None else failed.error,
        "reason": unseen.get(one.mutant.id) if failed is None else None,
    }


def _document_of_scopes(seen: "Result", name: str) -> dict[str, object]:
    failed = seen.failed
    failures = [] if failed is None else [FailureRecord("", SCOPES, FAILED, failed.error, history=_history_of(failed))]
    properties = {SCOPES: PropertyRecord(seen.num_states, bool(failures), seen.seconds)}
    return {
        **shared_document(_verdict_of_scopes(seen), failures, properties),
        "implementation": name,
        "states": seen.num_states,
        "transitions": seen.num_transitions,
        "merged": seen.num_merged,
        "depth": seen.depth,
        "exhausted": seen.is_exhausted,
        "two_running_v2": seen.num_paired,
        "share_two_running_v2": round(seen.num_paired / max(seen.num_states, 1), 4),
        "events": seen.events,
        "seconds": round(seen.seconds, 1),
        "states_per_second": round(seen.rate, 1),
        "scopes": [
            {
                "scope": str(one.scope),
                "states": one.num_states,
                "transitions": one.num_transitions,
                "merged": one.num_merged,
                "depth": one.depth,
                "exhausted": one.is_exhausted,
                "two_running_v2": one.num_paired,
            }
            for one in seen.explored
        ],
        "failure": None
        if failed is None
        else {"scope": str(failed.scope), "error": failed.error, "history": _history_of(failed)},
    }


def _print_scopes(seen: "Result") -> None:
    table = plain_table("scope", "#states", "#transitions", "#merged", "#depth", "exhausted")
    for one in seen.explored:
        counts = (one.num_states, one.num_transitions, one.num_merged, one.depth)
        table.add_row(str(one.scope), *(f"{count:,}" for count in counts), "yes" if one.is_exhausted else "no")
    counts = (seen.num_states, seen.num_transitions, seen.num_merged, seen.depth)
    table.add_row("all", *(f"{count:,}" for count in counts), "yes" if seen.is_exhausted else "no")
    print_table(table)
    say(f"events: {', '.join(f'{kind} {count:,}' for kind, count in seen.events.items())}")
    share = seen.num_paired / max(seen.num_states, 1)
    say(f"two running V2 requests: {seen.num_paired:,} states, {share:.0%}")
    say(f"{seen.seconds:.1f} s, {seen.rate:.0f} states a second")
    if seen.failed is not None:
        say(f"FAILURE: {seen.failed.error}")
        say(f"Shortest history, {seen.failed.scope}:")
        for line in _history_of(seen.failed):
            say(f"  {line}")


def _history_of(failed: "FailedScope") -> list[str]:
    return [f"{place}. {event}" for place, event in enumerate(failed.history, 1)]
