"""Laws of runs at every size: nothing begins to go wrong around a power of two."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.reach.ends import all_reuses
from specsim.properties.reach.sizes import Dimension, classes_of, largest_power
from specsim.properties.runs.workers import tours as touring
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.properties.runs.workers.laws_v1 import OPERATIONS
from specsim.rejection import WorkerRefusal

RunsOf = Callable[[touring.Tour, int], Iterator[touring.TourRun]]

RUNS_A_TOUR = 8
"""How many runs of other laws take as long as one tour, at least."""


def prompts_of_every_length_are_decoded(backend: Backend, tour: touring.Tour) -> None:
    """Runs whose prompts are of every length, other things being small, are the reference's in every phase."""
    _play_all(backend, tour, touring.runs_of_prompts)


def outputs_of_every_length_are_decoded(backend: Backend, tour: touring.Tour) -> None:
    """The same of runs whose outputs are of every length."""
    _play_all(backend, tour, touring.runs_of_outputs)


def batches_of_every_size_are_decoded(backend: Backend, tour: touring.Tour) -> None:
    """The same of batches that grow to every size and shrink to it, and fill what the worker holds or lack one."""
    _play_all(backend, tour, touring.runs_of_batches)


def paths_of_every_depth_are_accepted(backend: Backend, tour: touring.Tour) -> None:
    """The same of drafts of every depth, accepted to the last node."""
    _play_all(backend, tour, touring.runs_of_steps)


def trees_of_every_width_are_decoded(backend: Backend, tour: touring.Tour) -> None:
    """The same of trees of every branching factor."""
    _play_all(backend, tour, touring.runs_of_topk)


def rows_are_used_again_after_every_end(backend: Backend, tour: touring.Tour) -> None:
    """The same of rows whose owners ended in every way or were retracted: the next owner sees nothing of it."""
    for run in touring.ending_runs(tour):
        touring.play_ends(backend, run)


def _play_all(backend: Backend, tour: touring.Tour, runs_of: RunsOf) -> None:
    """Play the largest run first: a fault that begins at some size is found there at once, also while it is shrunk."""
    refused: WorkerRefusal | None = None
    for run in reversed([*runs_of(tour, largest_power(backend))]):
        try:
            touring.play_beside_the_reference(backend, run)
        except WorkerRefusal as refusal:
            refused = refusal
    if refused is not None:
        raise refused


def tours() -> SearchStrategy[touring.Tour]:
    """Draw what all runs of a tour share."""
    agreements, layers = st.sampled_from((0.7, 0.9, 0.5)), st.sampled_from(((2, 1), (1, 2)))
    return st.builds(touring.Tour, seed=st.integers(0, 2**32 - 1), agreement=agreements, num_layers=layers)


def _classes(*dimensions: Dimension) -> Callable[[Backend], tuple[str, ...]]:
    return lambda backend: tuple(map(str, classes_of(dimensions, largest_power(backend))))


def _depths(backend: Backend) -> tuple[str, ...]:
    """Return the depths of paths that have to be accepted: none of drafts that no reference drafts."""
    return () if backend.limits.has_own_drafts else _classes(Dimension.STEPS)(backend)


def _reuses(backend: Backend) -> tuple[str, ...]:
    """Return the ends after which rows have to be used again: a scheduler of one's own chooses who gets which row."""
    return () if backend.scheduler is not None else tuple(map(str, all_reuses()))


_CALLED = tuple(dict.fromkeys((*SPINE, *OPERATIONS)))
_OF_BATCHES = _classes(Dimension.GROWN, Dimension.SHRUNK, Dimension.FULL, Dimension.PADDED)

PROPERTIES = states_of_runs(
    "sizes",
    (prompts_of_every_length_are_decoded, tours, _CALLED, "P24", {"must_reach": _classes(Dimension.PROMPT)}),
    (outputs_of_every_length_are_decoded, tours, _CALLED, "P24", {"must_reach": _classes(Dimension.OUTPUT)}),
    (batches_of_every_size_are_decoded, tours, _CALLED, "P24", {"must_reach": _OF_BATCHES}),
    (paths_of_every_depth_are_accepted, tours, _CALLED, "P24", {"must_reach": _depths}),
    (trees_of_every_width_are_decoded, tours, _CALLED, "P24", {"must_reach": _classes(Dimension.TOPK)}),
    (rows_are_used_again_after_every_end, tours, _CALLED, "P24", {"must_reach": _reuses, "plays": OF_ENGINES}),
    weight=RUNS_A_TOUR,
)
