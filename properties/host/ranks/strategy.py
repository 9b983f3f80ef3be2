"""Runs of the small engine: on ranks whose values tie, and on stages that hear of each other late."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.hashing import digest
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import Array
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel

Text = tuple[int, ...]

FULL_STEPS_S = np.float32(1.0)
"""The longest time of a round after which the next one drafts."""

WRONG_EVERY = 3
"""After one of so many texts the draft's first choice is not the target's."""

CHAINS = ((-1, 0, 1, 2), (-1, 0, 1))
TREES = ((-1, 0, 0, 1, 1, 2), (-1, 0, 0, 1))
VOCABULARY = 6
AT_LIMIT = float(FULL_STEPS_S)


@dataclass(frozen=True)
class Asked:
    """A request of some rounds; ``sampling`` is None for a greedy one."""

    prompt: Text
    max_new_tokens: int
    sampling: SamplingParameters | None = None


@dataclass(frozen=True)
class RoundsRun:
    """Requests of a model, and how they are drafted.

    Parameters
    ----------
    parents : tuple of int
        The tree of a draft: where each node hangs.
    budget : int or None
        Drafts of a batch that are verified, where drafts are chains; None for all of them.
    times_s : tuple of float
        How long rounds take, one after another, over and over; after one that takes long the next drafts nothing.
    has_ties : bool
        Whether the model's two best tokens are always equally good, and all confidences equal.
    """

    model: HashModel
    parents: tuple[int, ...]
    asked: tuple[Asked, ...]
    budget: int | None = None
    times_s: tuple[float, ...] = (1.0,)
    has_ties: bool = False

    def rows_after(self, texts: Sequence[Text]) -> Array:
        """Return the logits after each text, float32 [text, vocab]."""
        rows = np.array([self._row_after(text) for text in texts], dtype=np.float32)
        if self.has_ties:
            rows = np.minimum(rows, np.sort(rows, axis=1)[:, -2:-1])
        return rows

    def draft_rows_after(self, texts: Sequence[Text]) -> Array:
        """Return the draft's logits after each text, which are the target's or those of other tokens."""
        rows = self.rows_after(texts)
        is_wrong = [digest([self.model.seed, *text]) % WRONG_EVERY == 0 for text in texts]
        return np.where(np.array(is_wrong)[:, None], np.roll(rows, 1, axis=1), rows)

    def _row_after(self, text: Text) -> list[int]:
        return Prefix(self.model, text).next_sampling_logits()


@dataclass(frozen=True)
class RanksCase:
    """A run that so many ranks play, whose values differ in last bits that a seed decides."""

    run: RoundsRun
    num_ranks: int
    seed: int


@dataclass(frozen=True)
class StagesCase:
    """A run on stages, with rows for so many requests at a time; a seed orders what travels between stages."""

    run: RoundsRun
    num_stages: int
    num_rows: int
    aborted: frozenset[int]
    seed: int


@composite
def ranks_cases(draw: DrawFn) -> RanksCase:
    """Draw a run in which the two best tokens of every row tie, and so do confidences and times with their bounds."""
    times_s = draw(st.sampled_from(((AT_LIMIT,), (AT_LIMIT, 2 * AT_LIMIT, AT_LIMIT))))
    run = _run(draw, draw(st.integers(2, 3)), times_s, has_ties=True)
    return RanksCase(run, draw(st.integers(2, 3)), draw(st.integers(0, 2**32 - 1)))


@composite
def stages_cases(draw: DrawFn) -> StagesCase:
    """Draw a run of more requests than rows, some of which are aborted, on two to four stages."""
    num_rows = draw(st.integers(2, 3))
    num_requests = num_rows + draw(st.integers(1, 3))
    times_s = tuple(draw(st.lists(st.sampled_from((AT_LIMIT, AT_LIMIT, 2 * AT_LIMIT)), min_size=1, max_size=4)))
    run = _run(draw, num_requests, times_s, has_ties=False)
    num_aborted = draw(st.sampled_from((1, 2, 1, 0)))
    aborted = draw(st.frozensets(st.integers(0, num_requests - 1), min_size=num_aborted, max_size=num_aborted))
    return StagesCase(run, draw(st.integers(2, 4)), num_rows, aborted, draw(st.integers(0, 2**32 - 1)))


def _run(draw: DrawFn, num_requests: int, times_s: tuple[float, ...], has_ties: bool) -> RoundsRun:
    is_chain = draw(st.sampled_from((True, True, False) if has_ties else (True, False)))
    asked = tuple(_asked(draw, number) for number in range(num_requests))
    model = HashModel(VOCABULARY, draw(st.integers(0, 2**32 - 1)))
    # NOTE: a budget that is a multiple of the requests cuts none of equal drafts off from the others.
    budgets = [budget for budget in range(1, 2 * num_requests) if budget % num_requests]
    budget = draw(st.sampled_from(budgets)) if is_chain else None
    return RoundsRun(model, draw(st.sampled_from(CHAINS if is_chain else TREES)), asked, budget, times_s, has_ties)


def _asked(draw: DrawFn, number: int) -> Asked:
    prompt = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4))
    is_sampled = number % 2 == 1 and draw(st.booleans())
    sampling = SamplingParameters(temperature=0.8, top_k=2, seed=draw(st.integers(0, 2**16))) if is_sampled else None
    return Asked(tuple(prompt), draw(st.integers(4, 9)), sampling)
