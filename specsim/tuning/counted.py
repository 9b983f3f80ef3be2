"""What verifies of one configuration accepted, request by request, and the figures of it with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from specsim.tuning.bootstrap import Interval, interval_of, resampled_sums

Array = NDArray[Any]

SCHEMA = "specsim.acceptance/1"


class RequestCounts(msgspec.Struct, frozen=True):
    """What the verifies of one request accepted; ``histogram[k]`` counts those that accepted ``k`` drafts.

    ``prompt`` tells prompts apart. Counts of a replay are expected ones, and no whole numbers where tokens are sampled.
    A drafter that counts no histogram has none.
    """

    prompt: str
    verifies: float
    accepted: float
    histogram: tuple[float, ...] = ()

    @classmethod
    def of(cls, prompt: str, histogram: Sequence[float]) -> "RequestCounts":
        """Return the counts of a histogram."""
        accepted = sum(drafts * count for drafts, count in enumerate(histogram))
        return cls(prompt, float(sum(histogram)), float(accepted), tuple(map(float, histogram)))


class Cell(msgspec.Struct, frozen=True):
    """One configuration: its sizes, and what came of it, or why it cannot run.

    Parameters
    ----------
    drafter : str
        Algorithm, or ``MODULE:NAME``.
    topk, steps, draft_tokens : int
        Sizes of a draft.
    temperature : float
        Of target and draft; 0 is greedy.
    worker : str
        Which worker the rules choose; empty for a replay.
    step_forwards, extend_forwards : int
        Forwards of the draft an iteration: over beams, and over all nodes.
    requests : tuple of RequestCounts
        What was counted.
    reason : str
        Why it cannot run; empty if it can.
    """

    drafter: str
    topk: int
    steps: int
    draft_tokens: int
    temperature: float = 0.0
    worker: str = ""
    step_forwards: int = 0
    extend_forwards: int = 0
    requests: tuple[RequestCounts, ...] = ()
    reason: str = ""

    @property
    def draft_forwards(self) -> int:
        """Forwards of the draft an iteration."""
        return self.step_forwards + self.extend_forwards

    @property
    def key(self) -> tuple[Any, ...]:
        """What says which configuration it is."""
        return self.drafter, self.topk, self.steps, self.draft_tokens, self.temperature

    def __str__(self) -> str:
        return f"{self.drafter}, topk {self.topk}, steps {self.steps}, {self.draft_tokens} draft tokens"


class Run(msgspec.Struct, frozen=True):
    """A stored run: what it ran on, and its configurations."""

    source: dict[str, Any]
    seed: int
    cells: tuple[Cell, ...]
    schema: str = SCHEMA


def prompt_key(tokens: Sequence[int]) -> str:
    """Return what tells a prompt from others, whatever runs it."""
    return sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()[:16]


def rows_of(requests: Sequence[RequestCounts]) -> Array:
    """Return them as one array, float64 [request, column]: verifies, accepted drafts, and the histogram."""
    width = max((len(one.histogram) for one in requests), default=0)
    rows = np.zeros((len(requests), 2 + width))
    for row, one in zip(rows, requests, strict=True):
        row[:2] = one.verifies, one.accepted
        row[2 : 2 + len(one.histogram)] = one.histogram
    return rows


def tokens_per_verify(sums: Array) -> Array:
    """Return output tokens of a verify, the bonus token included, of columns along the last axis."""
    with np.errstate(invalid="ignore", divide="ignore"):
        tokens: Array = 1 + sums[..., 1] / sums[..., 0]
    return tokens


def rates_by_position(sums: Array) -> tuple[Array, Array]:
    """Return the shares that accepted a draft at each position: of all verifies, and of those that came so far."""
    at_least = np.cumsum(sums[..., :1:-1], axis=-1)[..., ::-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        return at_least[..., 1:] / at_least[..., :1], at_least[..., 1:] / at_least[..., :-1]


@dataclass(frozen=True)
class Figures:
    """Figures of one configuration, each with its interval.

    ``by_position`` has for each position the share of verifies that accepted a draft there, ``conditional`` the share
    of those that accepted one at every position before.
    """

    num_requests: int
    num_verifies: float
    accepted_per_verify: Interval
    tokens_per_verify: Interval
    by_position: tuple[Interval, ...]
    conditional: tuple[Interval, ...]


def figures_of(requests: Sequence[RequestCounts], seed: int) -> Figures:
    """Return the figures of some requests, and their intervals by resampling these."""
    rows, count = rows_of(requests), len(requests)
    total, replicates = rows.sum(axis=0), resampled_sums(rows, seed)
    tokens = interval_of(float(tokens_per_verify(total)), tokens_per_verify(replicates), count)
    bounds = [None if one is None else one - 1 for one in (tokens.low, tokens.high)]
    shares = [
        tuple(
            interval_of(float(value), column, count)
            for value, column in zip(of_all, of_replicates.T, strict=True)
            if np.isfinite(value)
        )
        for of_all, of_replicates in zip(rates_by_position(total), rates_by_position(replicates), strict=True)
    ]
    return Figures(count, float(total[0]), Interval(tokens.value - 1, *bounds), tokens, *shares)


def public(figures: Figures) -> dict[str, Any]:
    """Return figures as JSON has them."""
    built: Mapping[str, Any] = msgspec.to_builtins(figures)
    return dict(built)


def chain_tokens_per_verify(agreement: float, num_steps: int) -> float:
    """Return the expected tokens of a verify of a chain whose drafts are accepted independently.

    Notes
    -----
    Source: Leviathan et al. 2023: (1 - a^(g+1)) / (1 - a).
    """
    if agreement == 1:
        return num_steps + 1.0
    return float((1 - agreement ** (num_steps + 1)) / (1 - agreement))
