"""Laws of EAGLE's workers, played on our loops with the draft side of each drafter that a module brings alone."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.property import OF_EAGLE, Property
from specsim.properties.strategies.limits import leaves_out
from specsim.rejection import WorkerRefusal

OF_EAGLE_ALONE = frozenset(
    (
        "clipped_engine.chains_are_as_deep_as_the_context_allows",
        "clipped_engine.nothing_is_written_behind_the_context",
        "numbered_engine.drafts_go_on_as_if_no_request_had_rested",
        "numbered_engine.nodes_beyond_a_number_are_no_drafts",
        "pool_kinds.a_pool_that_cannot_move_is_refused",
        "resting_engine.drafts_go_on_as_if_there_had_been_no_rest",
        "resting_engine.rests_draft_nothing_and_change_no_output",
        "worker.draft_starts_from_the_committed_length",
        "worker_v1.ended_requests_carry_nothing_on",
        "worker_v1.segments_are_what_was_accepted",
    )
)
"""Laws that read what EAGLE's drafts start from and leave, know which trees move, or let them draft fewer steps."""


def play_law(one: Property, backend: Backend, case: Any) -> None:
    """Call a law on a case: on the loops with each drafter of an implementation, and on what else it brings.

    Raises
    ------
    WorkerRefusal
        The draft sides refuse the case, and the implementation brings nothing else.
    """
    refusal: WorkerRefusal | None = None
    num_played = 0
    for name, view in _views(one, backend):
        try:
            one.law(view, case)
        except WorkerRefusal as refused:
            refusal = refused
        except AssertionError as error:
            raise AssertionError(f"drafter {name}: {error}") from error
        else:
            num_played += 1
    if backend.brings_drafters_alone:
        if refusal is not None and not num_played:
            raise refusal
        return
    one.law(backend, case)


def _views(one: Property, backend: Backend) -> Iterator[tuple[str, Backend]]:
    """Yield an implementation for each drafter, whose workers of EAGLE are the loops that run it."""
    if not {*OF_EAGLE} & {*one.plays}:
        return
    limits = replace(backend.limits, has_own_drafts=True)
    if one.name in OF_EAGLE_ALONE or leaves_out(one.name, limits):
        return
    for name, drafter in backend.drafters.items():
        v1, v2 = (partial(backend.build_worker, drafter.worker_name(is_v1)) for is_v1 in (True, False))
        view = replace(backend, functions={}, worker=v2, worker_v1=v1, other_workers={}, drafters={}, uses=Counter())
        yield name, replace(view, limits=limits, drafted_by=drafter)
