"""Faults that begin at a size: workers that are right below it, and spoil what a request has committed from it on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.properties.mutants.record import Mutant, overriding, unchanged
from specsim.properties.reach.sizes import Dimension
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration, Worker

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


def faulty_from(dimension: Dimension, size: int, loop: Build) -> Build:
    """Return what builds a worker that is wrong from a size on.

    Parameters
    ----------
    dimension : Dimension
        What has to have the size.
    size : int
        The smallest that is wrong.
    loop : class
        The reference's worker. The output of a V1 worker is not its own, so that faults of outputs are for V2.
    """
    if dimension is Dimension.PROMPT:
        faulty: Build = overriding(prefill=partial(_spoil_prompts, size))(loop)
    elif dimension is Dimension.OUTPUT:
        faulty = overriding(prefill=_note_prompts, decode=partial(_change_token, size))(loop)
    else:
        faulty = overriding(decode=partial(_spoil_iterations, partial(HITS[dimension], size)))(loop)
    return faulty


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


def _use_rows_once(loop: Build) -> Build:
    """Return what builds a worker that spoils a prompt in a row that had an owner before."""
    faulty: Build = overriding(prefill=_spoil_second_owners)(loop)
    return faulty


def _spoil_second_owners(correct: Any, worker: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> Any:
    following = correct(worker, rows, chunks)
    used = vars(worker).setdefault("used_rows", set())
    for row, chunk in zip(rows, chunks, strict=True):
        if row in used:
            _spoil(worker, row, chunk.end)
        used.add(row)
    return following


_PLANTED: tuple[tuple[str, str, Callable[[Build], Build]], ...] = (
    ("OWN-871", "Prompts of 33 tokens and more lose their last entry.", partial(faulty_from, Dimension.PROMPT, 33)),
    ("OWN-872", "The token 33 of an output and those behind it are wrong.", partial(faulty_from, Dimension.OUTPUT, 33)),
    ("OWN-873", "A batch that grows to 17 requests loses entries.", partial(faulty_from, Dimension.GROWN, 17)),
    ("OWN-874", "A batch that shrinks to 9 requests or more loses entries.", partial(faulty_from, Dimension.SHRUNK, 9)),
    ("OWN-875", "A full batch of 8 or more loses entries.", partial(faulty_from, Dimension.FULL, 8)),
    ("OWN-876", "A batch that lacks one request of 16 or more loses them.", partial(faulty_from, Dimension.PADDED, 16)),
    ("OWN-877", "Drafts of 17 steps and more lose their last entry.", partial(faulty_from, Dimension.STEPS, 17)),
    ("OWN-878", "Trees of 16 children and more lose their last entry.", partial(faulty_from, Dimension.TOPK, 16)),
    ("OWN-879", "A row serves its first owner alone.", _use_rows_once),
)

MUTANTS = tuple(
    Mutant(number, "verify_tree_greedy", fault, unchanged, plant(ReferenceWorker), worker_v1=plant(ReferenceWorkerV1))
    for number, fault, plant in _PLANTED
)
