"""What a matrix tries: an implementation by its name, in one of the modes that its workers run in."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.conformance.backend import Backend, load
from specsim.properties.soak.subject import Subject

AS_IT_IS, EAGER, GRAPHS = "as it is", "eager", "graphs"
"""Modes: whatever the worker chooses, one launch after another, and captured graphs that are replayed."""


def load_subject(implementation: str, mode: str) -> Subject:
    """Return an implementation in a mode; its workers take ``use_graphs`` unless they run as they are."""
    backend = load(implementation)
    if mode == AS_IT_IS:
        return Subject(backend)
    return Subject(_with_graphs(backend, mode == GRAPHS))


def _with_graphs(backend: Backend, use_graphs: bool) -> Backend:
    def switched(worker: Callable[..., Any] | None) -> Callable[..., Any] | None:
        return None if worker is None else partial(worker, use_graphs=use_graphs)

    others = {name: partial(worker, use_graphs=use_graphs) for name, worker in backend.other_workers.items()}
    worker, worker_v1 = switched(backend.worker), switched(backend.worker_v1)
    return replace(backend, worker=worker, worker_v1=worker_v1, other_workers=others)
