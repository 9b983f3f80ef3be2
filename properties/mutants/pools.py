"""Faults in what a worker of the reference stores by slot and by row."""

from collections.abc import Callable, Iterator
from typing import Any

from specsim.properties.mutants.record import Mutant, edits_of, unchanged
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker


def mutants_of_pools(operation: str, diffs: str, *, is_on_v1: bool = True) -> Iterator[Mutant]:
    """Yield mutants whose workers have pools that a text of diffs describes, as `edits_of` reads it."""
    for edit in edits_of(diffs):
        worker, worker_v1 = (_with_pools(loop, edit.inject) for loop in (ReferenceWorker, ReferenceWorkerV1))
        v1 = worker_v1 if is_on_v1 else None
        yield Mutant(edit.id, operation, edit.summary, unchanged, worker=worker, worker_v1=v1)


def _with_pools(loop: Callable[..., Any], inject: Callable[[Any], Any]) -> Callable[..., Any]:
    # What is injected is made when a run asks for it, not when this module is imported.
    return lambda *given, **named: loop(*given, make_pools=inject(Pools).of, **named)
