"""Faults in what rows know of the output that rules follow: planted in the workers, as no operation has them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.host.choice import TokenChoice
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_loops, overriding
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.outputs import OutputRows

Choices = Sequence[TokenChoice]

_STARTED, _ASSIGNED = "self._pools.start_iteration()", "self._choices.assign(rows, choices)"


def _commit_late(
    correct: Function, rows: Any, row: Array, choices: Choices, accept_index: Array, predict: Array, operations: Any
) -> None:
    """Commit what a verify accepted when the next one is through."""
    pending = vars(rows).setdefault("pending", {})
    for choice, number, path in zip(choices, row.tolist(), accept_index, strict=True):
        tokens = pending.get(number, [])
        if tokens and rows.known and accept_index.shape[1] > 1:
            before, one = np.arange(len(tokens), dtype=np.int32)[None], np.array([number], dtype=np.int64)
            correct(rows, one, [choice], before, np.array(tokens, np.int32), operations)
        pending[number] = predict[path[path >= 0]].tolist()


def _with_rows(inject: Callable[[Any], Any]) -> Callable[[type[Loop]], Any]:
    """Inject a fault in what the rows of a worker know."""

    def of_loop(loop: type[Loop]) -> Any:
        rows = inject(OutputRows)

        def build(*arguments: Any, **named: Any) -> Any:
            made = loop(*arguments, **named)
            made._choices.outputs = rows(made.sizes.num_rows)
            return made

        return build

    return of_loop


def _starting(output: str) -> Callable[[type[Loop]], Any]:
    """Inject another output that rows start from."""
    return _with_rows(edited("list(choice.output)", output, within="OutputRows.start"))


def _committing(old: str, new: str) -> Callable[[type[Loop]], Any]:
    return _with_rows(edited(old, new, within="OutputRows.commit"))


def _counting_of_prompts(output: str) -> Callable[[Function], Function]:
    """Inject what counts as output of requests before their prompts run."""
    pairs = "zip(self._choices.of(np.array(rows)), chunks, strict=True)"
    counted = f"self._choices.assign(rows, [replace(choice, output={output}) for choice, chunk in {pairs}])"
    return edited(_STARTED, f"{counted}\n{_STARTED}", within=Loop.prefill, replace=replace)


_RULES_STAY = edited(
    _ASSIGNED,
    """
    pairs = [*zip(choices, self._choices.of(np.array(rows)), strict=True)]
    choices = [replace(one, rules=one.rules or old.rules, stops=one.stops or old.stops) for one, old in pairs]
    self._choices.assign(rows, choices)
    """,
    within=Loop.assign_choices,
    replace=replace,
)

_ROWS_START_EARLY = edited(
    _ASSIGNED,
    f"""
    {_ASSIGNED}
    known = self._choices.outputs
    type(known).start(known, np.array(rows), choices, self.model.description.vocab_size)
    known.start = lambda row, choices, vocab_size: known._allocate(vocab_size)
    """,
    within=Loop.assign_choices,
)

_PAIRS = "zip(row.tolist(), choices, strict=True)"

MUTANTS = (
    *mutants_of_loops("commit_output_tokens", [EAGLE_V1, EAGLE_V2], (
        ("OWN-2760", "A request that comes back starts as if it had output nothing.", _starting("[]")),
        ("OWN-2761", "A row goes on from what it knows of its owner before.",
         _with_rows(edited(_PAIRS, f"[one for one in {_PAIRS} if not self.known['num_output_tokens'][one[0]]]",
                           within="OutputRows.start"))),
        ("OWN-2762", "When a request joins, everybody's output is forgotten.",
         _with_rows(edited("self._allocate(vocab_size)", "self.known = {}\nself._allocate(vocab_size)",
                           within="OutputRows.start"))),
        ("OWN-2763", "What was accepted counts one verify late.", _with_rows(overriding(commit=_commit_late))),
        ("OWN-2764", "What was drafted counts, accepted or not.",
         _committing("accept_index",
                     "np.where(accept_index[:, :1] >= 0, np.arange(accept_index.shape[1]) "
                     "+ np.arange(len(row))[:, None] * (len(predict) // max(len(row), 1)), -1).astype(np.int32)")),
        ("OWN-2765", "The token after a prompt does not count.",
         _committing("any_rules(choices)", "any_rules(choices) and accept_index.shape[1] > 1")),
        ("OWN-2766", "A request is ruled by what its neighbour has output.",
         _with_rows(edited("values[row]", "values[np.roll(row, 1)]", within="OutputRows.of"))),
        ("OWN-2767", "Tokens count in the rows of places in the batch.",
         _committing("row", "np.arange(1, len(row) + 1, dtype=np.int64)")),
        ("OWN-2772", "What a request that comes back has output counts twice.", _starting("[*choice.output] * 2")),
        ("OWN-2773", "The last token of a request that comes back does not count.", _starting("[*choice.output[:-1]]")),
    )),
    *mutants_of_loops("commit_output_tokens", [EAGLE_V2], (
        ("OWN-2768", "Rows start at the admission, before late launches are through.", _ROWS_START_EARLY),
        ("OWN-2769", "Tokens of the prompt count.", _counting_of_prompts("tuple(chunk.prompt)")),
        ("OWN-2770", "The last token of the prompt counts.",
         _counting_of_prompts("choice.output or tuple(chunk.prompt[-1:])")),
        ("OWN-2771", "A request without rules has those of its row's last owner.", _RULES_STAY),
    )),
)  # fmt: skip
