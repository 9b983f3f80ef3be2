"""Batches of two requests whose drafts a schedule chooses from: rows, confidences with ties, and the steps before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.schedules import ScheduleHistory
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome
from specsim.properties.strategies.arrays import Array, Bulk, bulk
from specsim.properties.strategies.sampling_scenes import ChainScene, pick_row

SIZES = (
    (2, (2, 2)),
    (2, (3, 2)),
    (2, (3, 3)),
    (3, (2, 2)),
    (2, (2, 2)),
    (2, (3, 2)),
    (2, (2, 3)),
    (2, (2, 1)),
    (3, (1, 2)),
    (2, (1, 1)),
    (2, (0, 2)),
)
"""Tokens of the vocabulary, and drafts of each request."""

CONFIDENCES = ("peak of the proposal", "saturated", "any", "equal", "any", "saturated")
BUDGETS = (1, 2, 1, 3, 2, 0, 4, 6)
LEAST_BAD, MOST_BAD = -0.25, 1.25


@dataclass(frozen=True)
class ScheduleCase:
    """Two requests before their drafts are drawn.

    Parameters
    ----------
    scenes : tuple of ChainScene
        Their rows of target and proposal, by the tokens before them; no probability is 0.
    confidences : tuple of dict
        The confidence of each request's next draft, by the drafts before it.
    history : ScheduleHistory
        What is known from earlier steps.
    """

    scenes: tuple[ChainScene, ChainScene]
    confidences: tuple[dict[Outcome, float], dict[Outcome, float]]
    history: ScheduleHistory

    @property
    def num_drafts(self) -> tuple[int, ...]:
        """Drafts of each request."""
        return tuple(scene.num_drafts for scene in self.scenes)

    @property
    def vocab_size(self) -> int:
        """Tokens that a draft can be."""
        return self.scenes[0].vocab_size

    def arguments(self, drafts: tuple[Outcome, ...]) -> dict[str, Any]:
        """Return the arguments of ``choose_verify_lens`` on some drafts, in arrays of their own."""
        count, most = len(drafts), max(self.num_drafts)
        tokens = np.full((count, most), -1, dtype=np.int64)
        probs = np.full((count, most, self.vocab_size), np.nan, dtype=np.float32)
        confidences = np.full((count, most), np.nan, dtype=np.float32)
        for request, draft in enumerate(drafts):
            for place, token in enumerate(draft):
                tokens[request, place] = token
                probs[request, place] = [float(share) for share in self.scenes[request].proposal[draft[:place]]]
                confidences[request, place] = self.confidences[request][draft[:place]]
        drawn = {"draft_tokens": tokens, "draft_probs": probs, "confidences": confidences}
        return {**drawn, "num_drafts": np.array(self.num_drafts, dtype=np.int64), "history": self.history}


@dataclass(frozen=True)
class OwnerCase:
    """A batch of which some rows have changed their owner, and other survivals that the old ones may have left."""

    case: ScheduleCase
    survivals: Array


@composite
def schedule_cases(draw: DrawFn, is_forced: bool | None = None) -> ScheduleCase:
    """Draw two requests; ``is_forced`` fixes whether the number of verified drafts is given."""
    vocab_size, num_drafts = draw(st.sampled_from(SIZES))
    kind = draw(st.sampled_from(CONFIDENCES))
    forced = draw(st.booleans()) if is_forced is None else is_forced
    budget = min(draw(st.sampled_from(BUDGETS)), sum(num_drafts)) if forced else None
    is_close = draw(st.sampled_from((False, True, False, False)))
    source = draw(bulk())
    most = max(num_drafts)
    fronts = [front for length in range(most + 1) for front in product(range(vocab_size), repeat=length)]
    target = {front: pick_row(source, vocab_size, "broad") for front in fronts}
    proposal = {front: pick_row(source, vocab_size, "broad") for front in fronts if len(front) < most}
    first, second = (ChainScene(count, target, proposal) for count in num_drafts)
    confidences = (_confidences(source, first, kind), _confidences(source, second, kind))
    history = _history(source, most, budget)
    if is_close:
        history = replace(history, steps_per_second=_all_or_none((first, second), confidences, most))
    return ScheduleCase((first, second), confidences, history)


def several_cases() -> SearchStrategy[tuple[ScheduleCase, ...]]:
    """Draw a few batches, because one of them leaves a schedule few choices; the last allows all drafts."""
    forced, chosen = schedule_cases(is_forced=True), schedule_cases(is_forced=False)
    return st.tuples(chosen, forced, chosen, forced, chosen, schedule_cases(is_forced=True).map(_allowing_all))


def forced_cases() -> SearchStrategy[ScheduleCase]:
    """Draw two requests whose number of verified drafts is given."""
    return schedule_cases(is_forced=True)


@composite
def owner_cases(draw: DrawFn) -> OwnerCase:
    """Draw a batch in which the first row, or each, has changed its owner, and no number of drafts is given."""
    case, source = draw(schedule_cases(is_forced=False)), draw(bulk())
    history = case.history
    has_changed = np.array([True, draw(st.booleans())])
    written = _read_only(np.where(has_changed, history.row_generations - 1, history.row_generations))
    survivals = _read_only(np.where(has_changed[:, None], _survivals(source, max(case.num_drafts)), history.survivals))
    return OwnerCase(replace(case, history=replace(history, survival_generations=written)), survivals)


@composite
def bad_confidences(draw: DrawFn) -> tuple[ScheduleCase, float]:
    """Draw a batch with drafts, and what is no confidence."""
    case = draw(schedule_cases())
    return case, draw(st.sampled_from((float("nan"), LEAST_BAD, MOST_BAD)))


def _read_only(values: Array) -> Array:
    """Return an array that the calls of a schedule share, and may not write."""
    values.setflags(write=False)
    return values


def _allowing_all(case: ScheduleCase) -> ScheduleCase:
    return replace(case, history=replace(case.history, verify_token_budget=sum(case.num_drafts)))


def _confidences(source: Bulk, scene: ChainScene, kind: str) -> dict[Outcome, float]:
    """Return a confidence a front; saturated ones begin at 1/2 and are 1 after the first draft where it is odd."""
    found: dict[Outcome, float] = {}
    for front, row in scene.proposal.items():
        drawn = source.integer(1, 8) / 8
        if kind == "equal" or (kind == "saturated" and not front):
            drawn = 0.5
        elif kind == "peak of the proposal":
            drawn = float(max(row))
        elif kind == "saturated":
            drawn = 1.0 if front[0] % 2 else 0.25
        found[front] = drawn
    return found


def _survivals(source: Bulk, num_drafts: int) -> Array:
    return np.cumprod(source.eighths((2, num_drafts), 1), axis=1, dtype=np.float32)


def _all_or_none(scenes: Sequence[ChainScene], confidences: Sequence[dict[Outcome, float]], most: int) -> Array:
    """Return steps that pay for all drafts or for none, by a sum of survivals between the least and the largest."""
    least_and_most = []
    for scene, of_front in zip(scenes, confidences, strict=True):
        fronts = [[draft[:place] for place in range(len(draft))] for draft, _ in scene.drafts()]
        sums = [float(np.cumprod([of_front[front] for front in one]).sum()) for one in fronts]
        least_and_most.append((min(sums), max(sums)))
    middle = sum(map(sum, least_and_most)) / 2
    steps_per_second = np.full(len(scenes) * (most + 1) + 1, len(scenes) / (len(scenes) + middle))
    steps_per_second[: len(scenes) + 1] = 1
    return _read_only(steps_per_second)


def _history(source: Bulk, num_drafts: int, budget: int | None) -> ScheduleHistory:
    """Return a history of rows that may have changed their owner, and steps whose time grows with the captured size.

    Where the time grows with every token and ever faster, a budget that maximises the tokens a second may as well read
    the step's own survivals: it ends before the first draft that does not pay, and so reads none after it.
    """
    time_of_sizes = np.cumsum(np.array((0, 1, 1, 2))[source.integers(2 * (num_drafts + 1) + 1, 0, 3)])
    owners = source.integers(2, 3, 9)
    return ScheduleHistory(
        survivals=_read_only(_survivals(source, num_drafts)),
        survival_generations=_read_only(owners - source.integers(2, 0, 1)),
        row_generations=_read_only(owners),
        steps_per_second=_read_only(1 / (source.integer(1, 3) + time_of_sizes)),
        verify_token_budget=budget,
    )
