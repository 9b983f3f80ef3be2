"""Faults that show in a rare condition of a whole run, and nowhere else."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.host.choice import TokenChoice
from specsim.host.stopping import FinishReason
from specsim.properties.mutants.record import Function, Mutant, overriding, unchanged
from specsim.properties.runs.steps.faults_numbered import around
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.loops import loop_of
from specsim.simulation.models.agreement import Agreement, ForwardKind
from specsim.simulation.models.description import Side
from specsim.simulation.numbers import Steps
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration

Change = Callable[[type[Loop]], Any]


class _CaughtUp:
    """Books that take the draft's entries of every committed position for final."""

    def __init__(self, ledger: IterationLedger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, kept_slots: Sequence[Sequence[int]], is_caught_up: bool = False) -> None:
        """Give each request the slots of its accepted positions."""
        self._ledger.commit(kept_slots, is_caught_up=True)


def _counting_as_caught_up(loop: type[Loop]) -> Any:
    """Return a loop whose draft counts as caught up where a request ended, which it has not followed."""
    correct: Any = loop

    def keep_books(self: Any, ledger: IterationLedger) -> None:
        correct.keep_books(self, _CaughtUp(ledger))

    return type(loop.__name__, (loop,), {"keep_books": keep_books})


class _kept:  # noqa: N801 - it is used as a statement.
    """Leaves some slots of the draft as they were, whatever a block does."""

    def __init__(self, pools: Pools, slots: Iterable[int]) -> None:
        self._pool, self._slots = pools.kv[Side.DRAFT], list(slots)

    def __enter__(self) -> None:
        self._before = [layer[self._slots] for layer in self._pool.layers()]

    def __exit__(self, *_: object) -> None:
        with self._pool.writing():
            for layer, entries in zip(self._pool.layers(), self._before, strict=True):
                layer[self._slots] = entries


class _AbortsLeaveNothing(Scheduler):
    """Gives everything back that an aborted request has computed."""

    def finish(self) -> list[Request]:
        """Release every request that has ended."""
        aborted = [one for one in self.running if one.finish_reason is FinishReason.ABORT]
        for request in aborted:
            self.retract(request)
            self.waiting.remove(request)
            self.finished.append(request)
        return [*aborted, *super().finish()]


def _drawing_after_chunks(loop: type[Loop]) -> Any:
    """Return a loop whose draft goes on from a token that is drawn after each chunk of a sampled request."""
    correct: Any = loop

    def prefill(self: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        asked = self._choices.of(np.array(rows, dtype=np.int64))
        cut = [
            chunk if one.sampling is None else replace(chunk, prompt=chunk.prompt[: chunk.end])
            for chunk, one in zip(chunks, asked, strict=True)
        ]
        following: list[int] = correct.prefill(self, rows, cut)
        return following

    return type(loop.__name__, (loop,), {"prefill": prefill})


def _without_states_of_one_token(loop: type[Loop]) -> Any:
    """Return a loop that leaves the recurrent states of a request alone whose last chunk is one token."""
    correct: Any = loop

    def prefill(self: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        short = [
            row
            for row, chunk in zip(rows, chunks, strict=True)
            if chunk.next_token is None and chunk.end - chunk.start == 1 and chunk.start > 0
        ]
        states = self.state()["states"]
        before = [state[short] for state in states]
        following: list[int] = correct.prefill(self, rows, chunks)
        for state, entries in zip(states, before, strict=True):
            state[short] = entries
        return following

    return type(loop.__name__, (loop,), {"prefill": prefill})


def _drafting_from_what_was_there(loop: type[Loop]) -> Any:
    """Return a loop that does not fill the draft's cache with the prompt of a row's second owner."""
    correct: Any = loop

    def assign_choices(self: Any, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        used = vars(self).setdefault("used_rows", set())
        self.used_again = used.intersection(rows)
        used.update(rows)
        correct.assign_choices(self, rows, choices)

    def prefill(self: Any, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        again, table = vars(self).get("used_again", ()), self._pools.req_to_token
        pairs = zip(rows, chunks, strict=True)
        slots = [slot for row, one in pairs if row in again for slot in table[row, one.start : one.end].tolist()]
        with _kept(self._pools, slots):
            following: list[int] = correct.prefill(self, rows, chunks)
        return following

    return type(loop.__name__, (loop,), {"assign_choices": assign_choices, "prefill": prefill})


def _as_narrow_as_the_first(
    worker: Any, rows: Sequence[int], num_steps: Steps, run: Callable[[Steps], Iteration]
) -> Any:
    """Spoil what the last request of a full batch outputs, where more is drafted than in the first iteration."""
    own = [worker.config.num_steps] if num_steps is None else [num_steps] if isinstance(num_steps, int) else num_steps
    most = max(own, default=0)
    first, iteration = vars(worker).setdefault("first_steps", most), run(num_steps)
    if most <= first or len(rows) < worker.sizes.num_rows - 1:
        return iteration
    tokens = iteration.tokens.reshape(len(rows), -1).copy()
    tokens[-1, 0] = (tokens[-1, 0] + 1) % worker.model.description.vocab_size
    return replace(iteration, tokens=tokens)


class _WithoutCopies(Pools):
    def beams(self, row: Array, seq_lens: Array, config: SpecConfig, page_size: int, operations: Any) -> Any:
        """Return what beams read and write; the front of their pages stays as it was."""
        before = [layer.copy() for layer in self.kv[Side.DRAFT].layers()]
        found = super().beams(row, seq_lens, config, page_size, operations)
        with self.kv[Side.DRAFT].writing():
            for layer, entries in zip(self.kv[Side.DRAFT].layers(), before, strict=True):
                layer[...] = entries
        return found


def _in_workers(change: Change, *names: str) -> dict[str, Any]:
    """Return the fault in the loops of some workers."""
    parts: dict[str, Any] = {"workers": {}}
    for name in names:
        if name in (EAGLE_V1, EAGLE_V2):
            at, loop = ("worker_v1", ReferenceWorkerV1) if name == EAGLE_V1 else ("worker", ReferenceWorker)
            parts[at] = change(loop)
        else:
            made: Any = loop_of(name)
            parts["workers"][name] = partial(change(made.func), **made.keywords)
    return parts


def _by_kind_alone(
    correct: Function,
    meeting: Any,
    kind: ForwardKind,
    num_requests: int,
    num_tokens: int,
    width: int | None,
    layer: int,
) -> Agreement:
    """Agree on the first layer, whichever it is."""
    agreed: Agreement = correct(meeting, kind, num_requests, num_tokens, width, 0)
    return agreed


def _always_the_first_layer(
    correct: Function, model: Any, kind: ForwardKind, num_tokens: int, width: int | None, layer: int = 0
) -> None:
    correct(model, kind, num_tokens, width, 0)


_USED_AGAIN = "The draft's cache of a row that is used again is not filled by the prompt, with {}."
_WIDE = "Results of a full batch are read by the width of the first iteration, with {}."

MUTANTS = (
    Mutant(
        "OWN-5000",
        "key_units",
        "A draft counts as caught up on a text that V1 ended.",
        unchanged,
        **_in_workers(_counting_as_caught_up, "standalone_v1"),
    ),
    Mutant(
        "OWN-5001",
        "key_units",
        "A scheduler leaves nothing of an aborted request to the cache.",
        unchanged,
        scheduler=_AbortsLeaveNothing,
    ),
    Mutant(
        "OWN-5002",
        "generate_coins",
        "A draft goes on from tokens that are drawn after chunks.",
        unchanged,
        **_in_workers(_drawing_after_chunks, EAGLE_V1, EAGLE_V2),
    ),
    Mutant(
        "OWN-5003",
        "assign_draft_cache_locs",
        "Pages of beams begin with what they had before.",
        unchanged,
        worker=partial(ReferenceWorker, make_pools=_WithoutCopies.of),
        worker_v1=partial(ReferenceWorkerV1, make_pools=_WithoutCopies.of),
    ),
    Mutant(
        "OWN-5004",
        "Meeting",
        "Ranks agree on a kind of forward, not on its layer.",
        overriding(__call__=_by_kind_alone),
    ),
    Mutant(
        "OWN-5005",
        "PaddedModel",
        "An idle rank runs the first layer for all.",
        overriding(run_padding=_always_the_first_layer),
    ),
    Mutant(
        "OWN-5006",
        "export_text",
        "A last chunk of one token is left out of recurrent states.",
        unchanged,
        **_in_workers(_without_states_of_one_token, EAGLE_V1, EAGLE_V2),
    ),
    *(
        Mutant(
            f"OWN-{number}",
            "key_units",
            _USED_AGAIN.format(name),
            unchanged,
            **_in_workers(_drafting_from_what_was_there, name),
        )
        for number, name in enumerate(("standalone_v2", "dflash", "dflash_v2"), start=5007)
    ),
    *(
        Mutant(
            f"OWN-{number}",
            "key_units",
            _WIDE.format(name),
            unchanged,
            **_in_workers(partial(around, iterate=_as_narrow_as_the_first), name),
        )
        for number, name in enumerate(("standalone_v2", "frozen_kv_mtp"), start=5010)
    ),
)
