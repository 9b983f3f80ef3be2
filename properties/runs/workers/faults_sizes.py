"""Faults that begin at a size, and faults that a row keeps from an owner that ended in one way."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, in_scheduler, overriding, unchanged
from specsim.properties.reach.ends import End
from specsim.properties.reach.sizes import Dimension, Place, place_of
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.requests import PromptChunk
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Iteration, Worker


def keeping_after(end: End, place: Place) -> Callable[..., Scheduler]:
    """Return what builds a scheduler that keeps the committed length of rows whose owners ended in one way.

    The next owner of such a row is taken to have so many positions of its prompt, which nothing computes.
    """
    found, ended = "self._observer(Tag.RETRACT)", "[request]"
    if end is not End.RETRACTION:
        found = "ended = [request for request in self.running if request.finish is not None]"
        ended = f"[one for one in ended if one.finish.reason.name == '{end.name}']"
    keeping = edited(
        found,
        f"""
        {found}
        if place_of(self.config.topk > 1, not self.allocates_ahead).name == "{place.name}":
            lengths = {{request.row: request.num_committed for request in {ended}}}
            self.kept_lengths = vars(self).get("kept_lengths", {{}}) | lengths
        """,
        "chunks.append(chunk)",
        """
        known = min(vars(self).get("kept_lengths", {}).pop(request.row, 0), chunk.end - 1)
        chunks.append(replace(chunk, start=max(chunk.start, known)))
        """,
        within="Scheduler",
        place_of=place_of,
    )
    faulty: Callable[..., Scheduler] = in_scheduler(keeping)["scheduler"]
    return faulty


def place_after(end: End) -> Place:
    """Return where the fault of an end is: ends have theirs in every place in turn."""
    places = list(Place)
    return places[list(End).index(end) % len(places)]


Build = Callable[..., Worker]
Hits = Callable[[Any, Sequence[int], Sequence[int]], bool]
"""Takes a worker, the rows of an iteration and of the one before; says whether the fault shows in it."""


def _capacity(worker: Any) -> int:
    return int(worker.sizes.num_rows) - 1


HITS: dict[Dimension, Callable[[int, Any, Sequence[int], Sequence[int]], bool]] = {
    Dimension.GROWN: lambda size, worker, rows, before: len(rows) >= size and len(rows) > len(before),
    Dimension.SHRUNK: lambda size, worker, rows, before: size <= len(rows) < len(before),
    Dimension.FULL: lambda size, worker, rows, before: len(rows) >= size and len(rows) == _capacity(worker),
    Dimension.PADDED: lambda size, worker, rows, before: len(rows) + 1 >= size and len(rows) + 1 == _capacity(worker),
    Dimension.STEPS: lambda size, worker, rows, before: worker.config.num_steps >= size,
    Dimension.TOPK: lambda size, worker, rows, before: worker.config.topk >= size,
}
"""When an iteration is of a dimension, and at least so large."""


def faulty_from(dimension: Dimension, size: int, place: Place) -> Build:
    """Return what builds a worker of a place's generation that is wrong from a size on, with drafts of its form alone.

    Parameters
    ----------
    dimension : Dimension
        What has to have the size.
    size : int
        The smallest that is wrong.
    place : Place
        Where it is wrong.
    """
    loop: Build = ReferenceWorkerV1 if place.is_v1 else ReferenceWorker
    if dimension is Dimension.PROMPT:
        faulty: Build = overriding(prefill=partial(_spoil_prompts, size))(loop)
    elif dimension is not Dimension.OUTPUT:
        faulty = overriding(decode=partial(_spoil_iterations, partial(HITS[dimension], size)))(loop)
    elif place.is_v1:
        faulty = overriding(keep_books=_note_books, decode=partial(_change_output, size))(loop)
    else:
        faulty = overriding(prefill=_note_prompts, decode=partial(_change_token, size))(loop)

    def build(config: Any, model: Any, sizes: Any) -> Worker:
        return (faulty if (config.topk > 1) == place.is_tree else loop)(config, model, sizes)

    return build


def _spoil_prompts(size: int, correct: Any, worker: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> Any:
    following = correct(worker, rows, chunks)
    for row, chunk in zip(rows, chunks, strict=True):
        if chunk.end >= size:
            _spoil(worker, row, chunk.end)
    return following


def _note_prompts(correct: Any, worker: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> Any:
    worker.num_output = {**vars(worker).get("num_output", {}), **dict.fromkeys(rows, 1)}
    return correct(worker, rows, chunks)


def _change_token(size: int, correct: Any, worker: Any, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
    iteration: Iteration = correct(worker, rows, num_steps)
    tokens = iteration.tokens.copy()
    for request, (row, count) in enumerate(zip(rows, iteration.num_accepted_tokens.tolist(), strict=True)):
        first = max(size - 1 - worker.num_output[row], 0)
        tokens[request, first:count] ^= 1
        worker.num_output[row] += count
    return replace(iteration, tokens=tokens)


def _note_books(correct: Any, worker: Any, ledger: Any) -> None:
    worker.books = ledger
    correct(worker, ledger)


def _change_output(size: int, correct: Any, worker: Any, rows: Sequence[int], num_steps: int | None = None) -> Any:
    """Change tokens of outputs where V1 appends them, which is inside an iteration."""
    before = [len(request.output) for request in worker.books.requests]
    iteration = correct(worker, rows, num_steps)
    for request, length in zip(worker.books.requests, before, strict=True):
        first = max(size - 1, length)
        request.output = [*request.output[:first], *(token ^ 1 for token in request.output[first:])]
    return iteration


def _spoil_iterations(
    hits: Hits, correct: Any, worker: Any, rows: Sequence[int], num_steps: int | None = None
) -> Iteration:
    before = vars(worker).get("rows_before", ())
    iteration: Iteration = correct(worker, rows, num_steps)
    worker.rows_before = tuple(rows)
    if hits(worker, rows, before):
        lengths = worker.state()["seq_lens"]
        for row in rows:
            _spoil(worker, row, int(lengths[row]))
    return iteration


def _spoil(worker: Any, row: int, length: int) -> None:
    """Clear the last committed entry of a row in the target's pool."""
    state = worker.state()
    for buffer in state["target_kv"]:
        buffer[state["req_to_token"][row, length - 1]] = 0


BOUNDS = (3, 5, 9, 17, 33, 65)
"""Just above each power of two: what stays below one of these does not see the faults that begin there."""

SUMMARIES = {
    Dimension.PROMPT: "Prompts of {} tokens and more lose their last entry",
    Dimension.OUTPUT: "The token {} of an output and those after it are wrong",
    Dimension.GROWN: "A batch that grows to {} requests or more loses entries",
    Dimension.SHRUNK: "A batch that shrinks to {} requests or more loses entries",
    Dimension.FULL: "A full batch of {} or more loses entries",
    Dimension.PADDED: "A batch that lacks one request of {} or more loses entries",
    Dimension.STEPS: "Drafts of {} steps and more lose their last entry",
    Dimension.TOPK: "Drafts of {} children and more lose their last entry",
}


def planted_place(dimension: Dimension, bound: int) -> Place:
    """Return where the fault of a bound is: each dimension and each bound has its faults in every place in turn."""
    places = [place for place in Place if place.is_tree or dimension is not Dimension.TOPK]
    return places[([*Dimension].index(dimension) + BOUNDS.index(bound)) % len(places)]


def _mutant(number: int, dimension: Dimension, bound: int) -> Mutant:
    place = planted_place(dimension, bound)
    summary = f"{SUMMARIES[dimension].format(bound)}, with a {place}."
    part: dict[str, Any] = {"worker_v1" if place.is_v1 else "worker": faulty_from(dimension, bound, place)}
    return Mutant(f"OWN-{number}", "verify_tree_greedy", summary, unchanged, **part)


_OF_SIZES = tuple(
    _mutant(number, dimension, bound)
    for number, (dimension, bound) in enumerate(
        ((dimension, bound) for dimension in Dimension for bound in BOUNDS), start=1600
    )
)

_OF_ENDS = tuple(
    Mutant(
        f"OWN-{number}",
        "verify_tree_greedy",
        f"A row is used again with the length of an owner that ended by {end}, with a {place_after(end)}.",
        unchanged,
        scheduler=keeping_after(end, place_after(end)),
    )
    for number, end in enumerate(End, start=1650)
)

MUTANTS = (*_OF_SIZES, *_OF_ENDS)
