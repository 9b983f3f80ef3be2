"""Configurations by tokens per second under a model of costs, which of them cannot be told apart, and speed-ups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specsim.config import SpecConfig
from specsim.tuning.bootstrap import Interval, interval_of, resampled_sums
from specsim.tuning.costs import CostFile, IterationTimes, Shape
from specsim.tuning.counted import Array, Cell, rows_of, tokens_per_verify


@dataclass(frozen=True)
class Choice:
    """A configuration at one batch.

    Parameters
    ----------
    cell : Cell or None
        The configuration; None for decoding without drafts.
    batch : int
        Requests.
    seconds : float
        Of an iteration, as the costs predict it.
    tokens_per_second : Interval
        Of the batch.
    speedup : Interval
        Against decoding without drafts.
    is_tied : bool
        Whether it cannot be told from the best one of the batch.
    requests_that_fit : int or None
        By the memory that the costs know; None where they know none.
    slots_past_text : int
        Slots that each request keeps allocated after its text, those of two iterations.
    reason : str
        Why it is not ranked; empty if it is.
    """

    cell: Cell | None
    batch: int
    seconds: float
    tokens_per_second: Interval
    speedup: Interval
    is_tied: bool = False
    requests_that_fit: int | None = None
    slots_past_text: int = 0
    reason: str = ""


def rank(
    cells: Sequence[Cell], costs: CostFile, times: IterationTimes, batch: int, length: int, seed: int
) -> list[Choice]:
    """Return the configurations from the best to the worst, decoding without drafts among them, then the unranked.

    Two of them cannot be told apart where the interval of their ratio, both times off by the error of the costs, holds
    1. Their acceptance is resampled together, as of the same prompts.

    Parameters
    ----------
    cells : sequence of Cell
        With what was counted; those with a reason are passed on.
    costs, times : CostFile, IterationTimes
        A file of costs, and its table.
    batch, length : int
        Requests that run at once, and the length of their texts.
    seed : int
        Of the resampling.
    """
    plain = times.plain(batch, length)
    found: list[tuple[Choice, Array]] = []
    left: list[Choice] = []
    for cell in (None, *cells):
        reason, fit, past = _why_not(cell, costs, times, batch, length)
        if reason:
            nothing = Interval(float("nan"), None, None)
            left.append(Choice(cell, batch, float("nan"), nothing, nothing, False, fit, past, reason))
            continue
        if cell is None:
            exact = Interval(batch / plain, batch / plain, batch / plain)
            choice = Choice(None, batch, plain, exact, Interval(1.0, 1.0, 1.0), False, fit, past)
            found.append((choice, np.array([exact.value])))
            continue
        seconds = times.iteration(shape_of(cell), batch, length)
        rows = rows_of(cell.requests)
        value = float(tokens_per_verify(rows.sum(axis=0))) * batch / seconds
        replicates = tokens_per_verify(resampled_sums(rows, seed)) * (batch / seconds)
        tokens = interval_of(value, replicates, len(rows))
        bounds = [None if one is None else one * plain / batch for one in (tokens.low, tokens.high)]
        speedup = Interval(value * plain / batch, *bounds)
        found.append((Choice(cell, batch, seconds, tokens, speedup, False, fit, past), replicates))
    found.sort(key=lambda one: -one[0].tokens_per_second.value)
    return [*_with_ties(found, costs.error), *left]


def shape_of(cell: Cell) -> Shape:
    """Return what an iteration of a configuration runs."""
    return Shape(cell.topk, cell.steps, cell.draft_tokens, cell.step_forwards, cell.extend_forwards)


def _why_not(
    cell: Cell | None, costs: CostFile, times: IterationTimes, batch: int, length: int
) -> tuple[str, int | None, int]:
    """Return why a configuration is not ranked, how many requests fit, and the slots that each keeps past its text."""
    cell = Cell("", 1, 0, 1) if cell is None else cell
    if cell.reason:
        return cell.reason, None, 0
    # NOTE: drafts that have no steps keep as many slots as they have nodes.
    topk, steps = (cell.topk, cell.steps) if cell.steps else (1, cell.draft_tokens - 1)
    config = SpecConfig(topk, steps, cell.draft_tokens)
    fit = None if costs.memory is None else costs.memory.requests_that_fit(config, length)
    missing = times.lacks(shape_of(cell), batch, length)
    if missing:
        return missing, fit, config.reserve
    if fit is not None and fit < batch:
        return f"{fit} requests fit, each with {config.reserve} slots after its text", fit, config.reserve
    return "", fit, config.reserve


def _with_ties(found: Sequence[tuple[Choice, Array]], error: float) -> list[Choice]:
    choices: list[Choice] = []
    if not found:
        return choices
    (best, of_best), *_ = found
    for choice, replicates in found:
        ratio = choice.tokens_per_second.value / best.tokens_per_second.value
        count = min(_num_requests(choice), _num_requests(best))
        interval = interval_of(ratio, replicates / of_best, count)
        high = ratio if interval.high is None else interval.high
        is_tied = choice is not best and high * (1 + error) / (1 - error) >= 1
        if count == 1 and choice is not best:
            is_tied = True
        choices.append(Choice(**{**vars(choice), "is_tied": is_tied}))
    return choices


def _num_requests(choice: Choice) -> int:
    return 1 << 30 if choice.cell is None else len(choice.cell.requests)
