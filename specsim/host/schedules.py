"""Which drafts a step verifies: a whole schedule, and one that is asked draft by draft (semantics Q.1.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.host.budget import StepRates, verify_token_budget
from specsim.rejection import Reason, SpecRejection, check_length, check_range

Array = NDArray[Any]

LEAST_CONFIDENCE = 0.5
"""From which on our callback has a draft verified."""


@dataclass(frozen=True)
class ScheduleHistory:
    """What is known before a step drafts; nothing of it depends on the step's own drafts.

    Parameters
    ----------
    survivals : float32 [request, draft]
        By row, the survival of each draft of an earlier step: the product of the confidences up to it.
    survival_generations, row_generations : int64 [request]
        The owner of each row when ``survivals`` was written, and its owner now. A row that has changed its owner has
        no survivals: each of them counts as 1.
    steps_per_second : float64 [token]
        How many steps the target runs in a second, by the number of tokens that it verifies, roots included.
    verify_token_budget : int or None
        Drafts of the whole batch that may be verified; None where the schedule chooses how many.
    """

    survivals: Array
    survival_generations: Array
    row_generations: Array
    steps_per_second: Array
    verify_token_budget: int | None = None


def choose_verify_lens(
    draft_tokens: Array, draft_probs: Array, confidences: Array, num_drafts: Array, history: ScheduleHistory
) -> Array:
    """Return how many tokens of each request a step verifies: the drafts that survive most probably in the batch.

    Parameters
    ----------
    draft_tokens : int64 [request, draft]
        The drafts, which a schedule may read only where its length does not depend on what it reads.
    draft_probs : float32 [request, draft, vocab]
        The distributions that the drafts were drawn from.
    confidences : float32 [request, draft]
        Estimates, made before a draft is drawn, of the chance that it is accepted if those before it are.
    num_drafts : int64 [request]
        Drafts of each request; entries past them are -1 and NaN.
    history : ScheduleHistory
        What is known from earlier steps.

    Returns
    -------
    verify_lens : int32 [request]
        The root and the drafts that are verified, 1 to ``num_drafts + 1``.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS, COUNT_OUT_OF_RANGE, NAN_SCORE or PROBABILITY_OUT_OF_RANGE.

    Notes
    -----
    Equal survivals are taken by position and then by request. Source: semantics Q.1.1.
    """
    _check_schedule(confidences, num_drafts, history)
    counts = num_drafts.tolist()
    budget = history.verify_token_budget
    if budget is None:
        budget = _best_budget(counts, history)
    candidates: list[tuple[float, int, int]] = []
    for request, count in enumerate(counts):
        survival = np.float32(1)
        for position in range(count):
            survival *= confidences[request, position]
            candidates.append((-float(survival), position, request))
    verify_lens = np.ones(len(counts), dtype=np.int32)
    for _, _, request in sorted(candidates)[:budget]:
        verify_lens[request] += 1
    return verify_lens


def should_verify(request: int, position: int, prefix_tokens: Sequence[int], confidence: float) -> bool:
    """Return whether a draft is verified, for an engine that asks draft by draft until the answer is no.

    Parameters
    ----------
    request : int
        The place of the request in the batch.
    position : int
        Which of its drafts, from 1.
    prefix_tokens : sequence of int
        Its drafts before that one.
    confidence : float
        An estimate of the chance that the draft is accepted if those before it are.

    Raises
    ------
    SpecRejection
        NAN_SCORE or PROBABILITY_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics Q.1.1.
    """
    _check_confidence(f"confidence of draft {position} of request {request}", confidence)
    return confidence >= LEAST_CONFIDENCE


def _best_budget(counts: Sequence[int], history: ScheduleHistory) -> int:
    """Return the first number of drafts at which most tokens a second are expected."""
    is_same_owner = history.survival_generations == history.row_generations
    rows = zip(history.survivals, is_same_owner, counts, strict=True)
    survivals = [float(one) if is_same else 1.0 for row, is_same, count in rows for one in row[:count]]
    rates = tuple(history.steps_per_second.tolist())
    return verify_token_budget(survivals, len(counts), StepRates(tuple(range(len(rates))), rates))


def _check_schedule(confidences: Array, num_drafts: Array, history: ScheduleHistory) -> None:
    count, most = confidences.shape
    check_length("num_drafts.shape[0]", len(num_drafts), count)
    check_length("history.survivals.shape", history.survivals.shape, (count, most), "there is one entry a draft")
    for name in ("survival_generations", "row_generations"):
        check_length(f"history.{name}.shape[0]", len(getattr(history, name)), count)
    num_tokens = len(history.steps_per_second)
    if num_tokens <= count * (most + 1):
        because = "it is read at every number of tokens"
        check_length("history.steps_per_second.shape[0]", num_tokens, count * (most + 1) + 1, because)
    if history.verify_token_budget is not None:
        because = "it is a number of drafts"
        reason = Reason.COUNT_OUT_OF_RANGE
        check_range(reason, "history.verify_token_budget", history.verify_token_budget, because, least=0)
    for request, drafts in enumerate(num_drafts.tolist()):
        what = f"num_drafts[{request}]"
        check_range(Reason.COUNT_OUT_OF_RANGE, what, drafts, "the arrays have a column a draft", 0, most)
        for position in range(drafts):
            _check_confidence(f"confidences[{request}, {position}]", confidences[request, position])


def _check_confidence(what: str, got: float) -> None:
    if math.isnan(got):
        raise SpecRejection(Reason.NAN_SCORE, what, got, "a number", "NaN cannot be ordered")
    check_range(Reason.PROBABILITY_OUT_OF_RANGE, what, got, "it is a probability", 0, 1)
