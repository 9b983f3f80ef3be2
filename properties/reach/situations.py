"""Rare situations of single operations: which calls and outputs are in one, and in which share of the examples.

A fault that shows in one of them alone is found if examples meet it. A situation belongs to every operation that has
the names which it reads; ``agreement.<operation>`` counts it, and its strategy draws it with the share that is stated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.operations import RECORDS
from specsim.properties.reach.counting import reached

Call = Mapping[str, Any]
"""Arguments and outputs of a call by name."""


@dataclass(frozen=True)
class Situation:
    """One situation.

    Parameters
    ----------
    tag : str
        What it is called.
    reads : tuple of str
        Names of arguments and outputs that an operation needs to be able to meet it.
    is_met : callable
        Takes the arguments and outputs of a call that compares equal to the reference's, and returns whether the call
        is in it, or for each of several entries whether it is.
    share : float
        The least share of examples that meet it.
    switch : str
        The field of ``Limits`` that leaves it out where a module declares another value than the default.
    """

    tag: str
    reads: tuple[str, ...]
    is_met: Callable[[Call], Any]
    share: float = 0.2
    switch: str = ""

    def is_drawn(self, limits: Limits) -> bool:
        """Return whether examples within some limits meet it."""
        return not self.switch or vars(limits)[self.switch] == vars(NO_LIMITS)[self.switch]


def tags_of(operation: str, limits: Limits) -> tuple[str, ...]:
    """Return the tags that the examples of an operation have to meet within some limits.

    Where only some sizes or values are taken there are none: they may be what a situation needs.
    """
    if limits.of(operation):
        return ()
    return tuple(one.tag for one in situations_of(operation) if one.is_drawn(limits))


@cache
def situations_of(operation: str) -> tuple[Situation, ...]:
    """Return the situations that an operation can meet."""
    contract = RECORDS[operation].contract
    names = {spec.name for spec in (*contract.parameters, *contract.outputs)}
    return tuple(one for one in SITUATIONS if names.issuperset(one.reads))


def tell_situations(operation: str, arguments: Call, outputs: Call) -> None:
    """Report which situations a call met."""
    call = {**arguments, **outputs}
    for one in situations_of(operation):
        if np.any(one.is_met(call)):
            reached(one.tag)


def _counts(call: Call) -> Any:
    return np.diff(call["cu_num_drafts"])


def _equal_siblings(call: Call) -> Any:
    sibling, tokens = call["retrieve_next_sibling"], call["candidates"]
    rows, nodes = np.nonzero(sibling >= 0)
    return tokens[rows, nodes] == tokens[rows, sibling[rows, nodes]]


def _is_one_hot(rows: Any) -> Any:
    return (rows == 1).any(axis=-1) & ((rows != 0).sum(axis=-1) == 1)


def _ties_at(values: Any, counts: Any) -> Any:
    """Return which rows have the last value that they keep once more among those that they drop."""
    ordered = np.sort(values, axis=1)[:, ::-1]
    rows = np.flatnonzero((counts > 0) & (counts < values.shape[1]))
    return ordered[rows, counts[rows] - 1] == ordered[rows, counts[rows]]


def _ties_of_the_largest(logits: Any) -> Any:
    rows = logits.astype(np.float32)
    return (rows == rows.max(axis=1, keepdims=True)).sum(axis=1) > 1


def _on_a_border(call: Call) -> Any:
    lengths, size = call["seq_lens"], int(call["page_size"])
    return (size > 1) & (lengths > 0) & (lengths % size == 0)


SITUATIONS = (
    Situation(
        "every draft of a chain accepted",
        ("cu_num_drafts", "num_accepted_drafts", "draft_tokens"),
        lambda call: (call["num_accepted_drafts"] == _counts(call)) & (_counts(call) > 0),
    ),
    Situation(
        "no draft of a chain accepted",
        ("cu_num_drafts", "num_accepted_drafts", "draft_tokens"),
        lambda call: (call["num_accepted_drafts"] == 0) & (_counts(call) > 0),
    ),
    Situation("a chain without drafts", ("cu_num_drafts", "draft_tokens"), lambda call: _counts(call) == 0),
    Situation("a draft of -1", ("cu_num_drafts", "draft_tokens"), lambda call: call["draft_tokens"] == -1),
    Situation(
        "a path of all steps accepted",
        ("candidates", "num_steps", "num_accepted_drafts"),
        lambda call: (call["num_steps"] > 0) & (call["num_accepted_drafts"] == call["num_steps"]),
    ),
    Situation(
        "no draft of a tree accepted",
        ("candidates", "num_steps", "num_accepted_drafts"),
        lambda call: (call["candidates"].shape[1] > 1) & (call["num_accepted_drafts"] == 0),
    ),
    Situation(
        "equal siblings", ("candidates", "retrieve_next_sibling"), _equal_siblings, switch="has_distinct_siblings"
    ),
    Situation("a one-hot row", ("target_probs",), lambda call: _is_one_hot(call["target_probs"])),
    Situation(
        "a coin of 0", ("uniform_samples", "num_accepted_drafts"), lambda call: call["uniform_samples"] == 0, share=0.15
    ),
    Situation(
        "a threshold below 1",
        ("threshold_single", "candidates"),
        lambda call: call["threshold_single"] < 1,
        switch="takes_thresholds",
    ),
    Situation("a greedy request", ("temperature", "top_k"), lambda call: call["temperature"] == 0),
    Situation(
        "certain drafts beside drawn ones",
        ("draft_logits", "draft_temperature"),
        lambda call: call["draft_logits"] is not None and call["draft_temperature"] == 0,
    ),
    Situation(
        "drafts without probabilities", ("draft_probs", "cu_num_drafts"), lambda call: call["draft_probs"] is None
    ),
    Situation(
        "a vocabulary of the draft's own",
        ("draft_logits", "target_logits"),
        lambda call: (
            call["draft_logits"] is not None and call["draft_logits"].shape[1] != call["target_logits"].shape[1]
        ),
    ),
    Situation("a tie of the largest", ("logits", "target_predict"), lambda call: _ties_of_the_largest(call["logits"])),
    Situation(
        "a tie at the edge",
        ("probabilities", "top_k"),
        lambda call: _ties_at(call["probabilities"], np.minimum(call["top_k"], call["probabilities"].shape[1])),
    ),
    Situation(
        "a tie at the edge",
        ("values", "k", "topk_values"),
        lambda call: _ties_at(call["values"], np.full(len(call["values"]), call["k"])),
    ),
    Situation("a length on the border of a page", ("seq_lens", "page_size"), _on_a_border),
    Situation(
        "a slot that is read and written",
        ("target_slots", "source_slots"),
        lambda call: np.isin(call["target_slots"], call["source_slots"]),
    ),
)
