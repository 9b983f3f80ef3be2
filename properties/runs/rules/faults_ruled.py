"""Faults in what rows know of the output that rules follow: planted in the workers, as no operation has them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.choice import TokenChoice
from specsim.operations.protocol import Operations
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.outputs import OutputRows
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.requests import PromptChunk

Choices = Sequence[TokenChoice]


class ForgetfulRows(OutputRows):
    """Starts every request as if it had output nothing, one that comes back as well."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Let rows know nothing."""
        super().start(row, [replace(choice, output=()) for choice in choices], vocab_size)


class InheritingRows(OutputRows):
    """Lets a row go on from what it knows of its owner before."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start a row once."""
        known = self.known.get("num_output_tokens", np.zeros(0))
        fresh = [place for place, number in enumerate(row.tolist()) if not known.any() or not known[number]]
        super().start(row[fresh], [choices[place] for place in fresh], vocab_size)


class ClearingRows(OutputRows):
    """Forgets what all rows know when a request joins."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start everybody."""
        self.known = {}
        super().start(row, choices, vocab_size)


class LateRows(OutputRows):
    """Commits what a verify accepted when the next one is through."""

    def __init__(self, num_rows: int) -> None:
        super().__init__(num_rows)
        self._pending: dict[int, list[int]] = {}

    def commit(
        self, row: Array, choices: Choices, accept_index: Array, predict: Array, operations: Operations[Array]
    ) -> None:
        """Commit what is pending, and keep the rest."""
        for number, path in zip(row.tolist(), accept_index, strict=True):
            tokens = self._pending.get(number, [])
            if tokens and self.known and accept_index.shape[1] > 1:
                before = np.arange(len(tokens), dtype=np.int32)[None]
                one = np.array([number], dtype=np.int64)
                super().commit(
                    one, [choices[row.tolist().index(number)]], before, np.array(tokens, np.int32), operations
                )
            self._pending[number] = predict[path[path >= 0]].tolist()


class DraftedRows(OutputRows):
    """Commits as many tokens as a path may have, accepted or not."""

    def commit(
        self, row: Array, choices: Choices, accept_index: Array, predict: Array, operations: Operations[Array]
    ) -> None:
        """Commit the first nodes of every request."""
        width, first = accept_index.shape[1], np.arange(len(row))[:, None] * (len(predict) // max(len(row), 1))
        everything = np.where(accept_index[:, :1] >= 0, first + np.arange(width), -1).astype(np.int32)
        super().commit(row, choices, everything, predict, operations)


class SilentRows(OutputRows):
    """Does not commit the token after a prompt."""

    def commit(
        self, row: Array, choices: Choices, accept_index: Array, predict: Array, operations: Operations[Array]
    ) -> None:
        """Commit what verifies of trees accept."""
        if accept_index.shape[1] > 1:
            super().commit(row, choices, accept_index, predict, operations)


class NeighbouringRows(OutputRows):
    """Tells each request of a batch what belongs to the next one."""

    def of(self, row: Array, vocab_size: int) -> dict[str, Array]:
        """Return what the next rows know."""
        return super().of(np.roll(row, 1), vocab_size)


class PlacedRows(OutputRows):
    """Commits by the place of a request in its batch, which changes when others leave."""

    def commit(
        self, row: Array, choices: Choices, accept_index: Array, predict: Array, operations: Operations[Array]
    ) -> None:
        """Commit to the first rows."""
        super().commit(np.arange(1, len(row) + 1, dtype=np.int64), choices, accept_index, predict, operations)


class TwiceRows(OutputRows):
    """Counts what a request that comes back has output twice."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start rows with everything twice."""
        super().start(row, [replace(choice, output=(*choice.output, *choice.output)) for choice in choices], vocab_size)


class ShortRows(OutputRows):
    """Forgets the last token of a request that comes back."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start rows a token short."""
        super().start(row, [replace(choice, output=choice.output[:-1]) for choice in choices], vocab_size)


class HastyRows(OutputRows):
    """Starts a row when its request is admitted, and not again when its prompt is through."""

    def start(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start nothing any more."""
        self._allocate(vocab_size)

    def start_now(self, row: Array, choices: Choices, vocab_size: int) -> None:
        """Start a row at its admission."""
        super().start(row, choices, vocab_size)


class HastyWorker(ReferenceWorker):
    """Starts rows when choices are assigned: what a late launch of the last owner accepts is committed after it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._rows = HastyRows(self.sizes.num_rows)
        self._choices.outputs = self._rows

    def assign_choices(self, rows: Sequence[int], choices: Choices) -> None:
        """Keep how tokens are chosen, and start their rows."""
        super().assign_choices(rows, choices)
        self._rows.start_now(np.array(rows), choices, self.model.description.vocab_size)


class PromptWorker(ReferenceWorker):
    """Takes the prompt for output."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts, all of whose tokens count."""
        choices = self._choices.of(np.array(rows))
        pairs = zip(choices, chunks, strict=True)
        self._choices.assign(rows, [replace(choice, output=tuple(chunk.prompt)) for choice, chunk in pairs])
        return super().prefill(rows, chunks)


class LastOfPromptWorker(ReferenceWorker):
    """Counts the last token of a prompt, as engines do before there is any output."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts, whose last tokens count where nothing has been output."""
        choices = self._choices.of(np.array(rows))
        pairs = zip(choices, chunks, strict=True)
        counted = [replace(choice, output=choice.output or tuple(chunk.prompt[-1:])) for choice, chunk in pairs]
        self._choices.assign(rows, counted)
        return super().prefill(rows, chunks)


class KeepingWorker(ReferenceWorker):
    """Leaves the rules of a row's last owner to a request without any."""

    def assign_choices(self, rows: Sequence[int], choices: Choices) -> None:
        """Keep how tokens are chosen, and rules for ever."""
        before = self._choices.of(np.array(rows))
        pairs = zip(choices, before, strict=True)
        super().assign_choices(
            rows, [replace(one, rules=one.rules or old.rules, stops=one.stops or old.stops) for one, old in pairs]
        )


def _with(rows: type[OutputRows], worker: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a worker of the reference with other rows."""

    def build(*arguments: Any, **named: Any) -> Any:
        made = worker(*arguments, **named)
        made._choices.outputs = rows(made.sizes.num_rows)
        return made

    return build


_ROWS: tuple[tuple[str, str, type[OutputRows]], ...] = (
    ("OWN-2760", "A request that comes back starts as if it had output nothing.", ForgetfulRows),
    ("OWN-2761", "A row goes on from what it knows of its owner before.", InheritingRows),
    ("OWN-2762", "When a request joins, everybody's output is forgotten.", ClearingRows),
    ("OWN-2763", "What was accepted counts one verify late.", LateRows),
    ("OWN-2764", "What was drafted counts, accepted or not.", DraftedRows),
    ("OWN-2765", "The token after a prompt does not count.", SilentRows),
    ("OWN-2766", "A request is ruled by what its neighbour has output.", NeighbouringRows),
    ("OWN-2767", "Tokens count in the rows of places in the batch.", PlacedRows),
    ("OWN-2772", "What a request that comes back has output counts twice.", TwiceRows),
    ("OWN-2773", "The last token of a request that comes back does not count.", ShortRows),
)

_WORKERS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("OWN-2768", "Rows start at the admission, before late launches are through.", HastyWorker),
    ("OWN-2769", "Tokens of the prompt count.", PromptWorker),
    ("OWN-2770", "The last token of the prompt counts.", LastOfPromptWorker),
    ("OWN-2771", "A request without rules has those of its row's last owner.", KeepingWorker),
)

MUTANTS = (
    *(
        Mutant(
            number,
            "commit_output_tokens",
            fault,
            unchanged,
            worker=_with(rows, ReferenceWorker),
            worker_v1=_with(rows, ReferenceWorkerV1),
        )
        for number, fault, rows in _ROWS
    ),
    *(Mutant(number, "commit_output_tokens", fault, unchanged, worker=worker) for number, fault, worker in _WORKERS),
)
