"""How the tokens of a request are chosen: greedily, or by chance from a filtered distribution."""

from dataclasses import dataclass
from math import isfinite

from specsim.config import MOST_NODES
from specsim.hashing import MASK
from specsim.rejection import Reason, SpecRejection

ALL_TOKENS = 2**30
"""A top-k that keeps every token (semantics B.4)."""

LEAST_TEMPERATURE = 2.0**-20
GREATEST_TEMPERATURE = 2.0**20
"""Bounds of a temperature but 0: a logit divided by it stays finite (semantics B.4)."""

LARGEST_SEED = MASK
"""A seed is one word of the hash that draws its coins."""

COIN_BITS = 24
COIN_STEP = 2.0**-COIN_BITS
LARGEST_COIN = 1 - COIN_STEP
"""Coins are the multiples of one step below 1: those that float32 represents evenly spread (semantics B.9)."""

FINAL_COLUMN = MOST_NODES
"""Column of the coin that draws the last token: after every node's (semantics B.9)."""

LEAST_THRESHOLD = 1e-9
"""``threshold_acc`` is raised to it, because a mass is divided by it (semantics B.8)."""


@dataclass(frozen=True)
class SamplingParameters:
    """Sampling parameters of one request.

    Parameters
    ----------
    temperature : float
        0 is greedy; otherwise ``2**-20`` to ``2**20``.
    top_k : int
        At least 1.
    top_p, min_p : float
        1 and 0 keep every token.
    threshold_single, threshold_acc : float
        1 and 1 leave the target's law as it is; less accepts more.
    seed : int
        0 to 2**32-1. With the committed length it decides every coin of the request.

    Raises
    ------
    SpecRejection
        TEMPERATURE_OUT_OF_RANGE, COUNT_OUT_OF_RANGE, PROBABILITY_OUT_OF_RANGE, SCALAR_OUT_OF_RANGE.
    """

    temperature: float = 1.0
    top_k: int = ALL_TOKENS
    top_p: float = 1.0
    min_p: float = 0.0
    threshold_single: float = 1.0
    threshold_acc: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        is_warm = isfinite(self.temperature) and LEAST_TEMPERATURE <= self.temperature <= GREATEST_TEMPERATURE
        if self.temperature != 0 and not is_warm:
            raise _outside(Reason.TEMPERATURE_OUT_OF_RANGE, "temperature", self.temperature, "0, or 2**-20 to 2**20")
        if not 1 <= self.top_k < 2**31:
            raise _outside(Reason.COUNT_OUT_OF_RANGE, "top_k", self.top_k, "1 to 2**31-1")
        if not 0 < self.top_p <= 1:
            raise _outside(Reason.PROBABILITY_OUT_OF_RANGE, "top_p", self.top_p, "above 0, at most 1")
        for name in ("min_p", "threshold_single", "threshold_acc"):
            if not 0 <= getattr(self, name) <= 1:
                raise _outside(Reason.PROBABILITY_OUT_OF_RANGE, name, getattr(self, name), "0 to 1")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise _outside(Reason.SCALAR_OUT_OF_RANGE, "seed", self.seed, "0 to 2**32-1")

    @property
    def is_greedy(self) -> bool:
        """Whether nothing is left to chance."""
        return self.temperature == 0


GREEDY = SamplingParameters(temperature=0.0)
"""Parameters of a request that asks for none."""


def _outside(reason: Reason, what: str, got: float, expected: str) -> SpecRejection:
    return SpecRejection(reason, what, got, expected, "a request is sampled with it")
