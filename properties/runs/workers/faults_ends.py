"""Faults that a row keeps from an owner that ended in one way, and the next owner meets."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.properties.mutants.record import Mutant, overriding, unchanged
from specsim.properties.reach.ends import End
from specsim.properties.reach.sizes import Place, place_of
from specsim.simulation.requests import PrefillBatch, Request
from specsim.simulation.scheduler import Scheduler

Fault = Callable[..., Any]
"""Takes the correct method, the scheduler and what the method takes."""


def keeping_after(end: End, place: Place) -> Callable[..., Scheduler]:
    """Return what builds a scheduler that keeps the committed length of rows whose owners ended in one way.

    The next owner of such a row is taken to have so many positions of its prompt, which nothing computes.
    """
    faults: dict[str, Fault] = {"next_prefill": _skip_what_is_kept}
    if end is End.RETRACTION:
        faults["retract"] = _remember_retracted
    else:
        faults["finish"] = partial(_remember, end)
    there = {name: partial(_only_at, place, fault) for name, fault in faults.items()}
    faulty: Callable[..., Scheduler] = overriding(**there)(Scheduler)
    return faulty


def _only_at(place: Place, fault: Fault, correct: Any, scheduler: Any, *given: Any) -> Any:
    is_there = place_of(scheduler.config.topk > 1, not scheduler.allocates_ahead) is place
    return fault(correct, scheduler, *given) if is_there else correct(scheduler, *given)


def _kept(scheduler: Any) -> dict[int, int]:
    """Return the lengths that rows keep."""
    lengths: dict[int, int] = vars(scheduler).setdefault("kept_lengths", {})
    return lengths


def _remember(end: End, correct: Any, scheduler: Any) -> Any:
    ended = [one for one in scheduler.running if one.finish is not None and one.finish.reason.name == end.name]
    _kept(scheduler).update({request.row: request.num_committed for request in ended})
    return correct(scheduler)


def _remember_retracted(correct: Any, scheduler: Any, request: Request) -> Any:
    _kept(scheduler)[request.row] = request.num_committed
    return correct(scheduler, request)


def _skip_what_is_kept(correct: Any, scheduler: Any) -> PrefillBatch | None:
    batch: PrefillBatch | None = correct(scheduler)
    if batch is None:
        return None
    chunks = []
    for request, chunk in zip(batch.requests, batch.chunks, strict=True):
        known = min(_kept(scheduler).pop(request.row, 0), chunk.end - 1)
        chunks.append(replace(chunk, start=max(chunk.start, known)))
    return replace(batch, chunks=tuple(chunks))


def planted_place(end: End) -> Place:
    """Return where the fault of an end is: ends have theirs in every place in turn."""
    places = list(Place)
    return places[list(End).index(end) % len(places)]


MUTANTS = tuple(
    Mutant(
        f"OWN-{number}",
        "verify_tree_greedy",
        f"A row is used again with the length of an owner that ended by {end}, with a {planted_place(end)}.",
        unchanged,
        scheduler=keeping_after(end, planted_place(end)),
    )
    for number, end in enumerate(End, start=1650)
)
