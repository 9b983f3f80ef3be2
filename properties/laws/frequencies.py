"""Laws of samplers that draw their own coins: chi-square tests with a stated size, power and smallest effect.

A test can only say that counts fit a law. How much it would have noticed is its power: the chance to reject a law that
is off by Cohen's w, ``w**2 = sum((q - p)**2 / p)``, the size of the effect. Under that law the statistic follows the
noncentral chi-square distribution with noncentrality ``samples * w**2``. A test whose power is below what is asked for
decides nothing, and its verdict is ``inconclusive`` unless it rejects.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

from specsim.properties.distribution import Outcome

LEAST_EXPECTED = 5.0
"""Cells of which fewer are expected are pooled, because their counts are far from normal."""

LEAST_POWER = 0.99
LOOKS = 4

FrequencyVerdict = Literal["fits", "differs", "inconclusive"]
Counts = Mapping[Outcome, int]
Expected = Mapping[Outcome, Fraction | float]


class Inconclusive(Exception):
    """A law met too little to decide, such as too few samples to notice the effect that it is meant to notice."""


@dataclass(frozen=True)
class LawVerdict:
    """What counts say about a law.

    Parameters
    ----------
    verdict : str
        ``fits``, ``differs`` or ``inconclusive``.
    statistic, p_value : float
        Of the chi-square test; infinity and 0 if an impossible outcome occurred.
    power : float
        The chance to reject a law that is off by the stated effect, at this sample size.
    sample_size : int
        How many outcomes were counted.
    """

    verdict: FrequencyVerdict
    statistic: float
    p_value: float
    power: float
    sample_size: int


def chi_square_law(counts: Counts, expected: Expected, *, alpha: float, effect: float) -> LawVerdict:
    """Test whether counts were drawn from a law.

    Parameters
    ----------
    counts : mapping of outcome to int
        How often each outcome occurred.
    expected : mapping of outcome to probability
        The law; probabilities add up to 1.
    alpha : float
        The chance to reject the law although it holds.
    effect : float
        Cohen's w of the smallest deviation that has to be noticed with a chance of ``LEAST_POWER``.

    Returns
    -------
    verdict : LawVerdict
        ``differs`` at once if an outcome of probability 0 occurred, however few samples there are.

    Notes
    -----
    Outcomes of which fewer than 5 are expected form one cell; if it too stays below 5, it joins the rarest other one.
    The power is that of the cells that are left: it says nothing about deviations within one of them.
    """
    # NOTE: SciPy is long to import, and few of the processes that import this need it.
    from scipy.special import chdtrc

    total = sum(counts.values())
    cells = pooled(counts, expected, total)
    freedom = len(cells) - 1
    is_certain = sum(1 for share in expected.values() if share) == 1
    power = power_of(total, freedom, alpha=alpha, effect=effect) if freedom else float(is_certain and total > 0)
    if any(count and not expected.get(outcome) for outcome, count in counts.items()):
        return LawVerdict("differs", float("inf"), 0.0, power, total)
    statistic = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
    p_value = float(chdtrc(freedom, statistic)) if freedom else 1.0
    verdict: FrequencyVerdict = "differs" if p_value < alpha else "fits" if power >= LEAST_POWER else "inconclusive"
    return LawVerdict(verdict, float(statistic), p_value, power, total)


def sequential_law(
    sample: Callable[[int, int], Counts],
    expected: Expected,
    *,
    alpha: float,
    effect: float,
    most_samples: int | None = None,
    looks: int = LOOKS,
) -> LawVerdict:
    """Draw in stages, look after each, and stop as soon as the law is rejected.

    Parameters
    ----------
    sample : callable
        Takes a number of outcomes and the number of the stage, which is its seed; returns their counts.
    alpha : float
        For all looks together: each has ``alpha / looks``, which bounds the chance of any false rejection by alpha.
    most_samples : int or None
        What the sampler can be asked for; by default as many as the power needs.
    looks : int
        Stages of equal size.
    """
    freedom = max(sum(1 for share in expected.values() if share) - 1, 1)
    needed = samples_needed(freedom, alpha=alpha / looks, effect=effect)
    size = needed if most_samples is None else min(needed, most_samples)
    counts: dict[Outcome, int] = {}
    verdict = LawVerdict("inconclusive", 0.0, 1.0, 0.0, 0)
    for look in range(looks):
        more = sample(size * (look + 1) // looks - size * look // looks, look)
        for outcome, count in more.items():
            counts[outcome] = counts.get(outcome, 0) + count
        verdict = chi_square_law(counts, expected, alpha=alpha / looks, effect=effect)
        if verdict.verdict == "differs":
            return verdict
    return verdict


def power_of(num_samples: int, freedom: int, *, alpha: float, effect: float) -> float:
    """Return the chance to reject a law that is off by an effect, with ``freedom + 1`` cells."""
    from scipy.special import chdtri, chndtr

    if not num_samples:
        return 0.0
    return 1.0 - float(chndtr(chdtri(freedom, alpha), freedom, num_samples * effect**2))


def samples_needed(freedom: int, *, alpha: float, effect: float) -> int:
    """Return the least number of samples whose power is ``LEAST_POWER``."""
    power, most = partial(power_of, freedom=freedom, alpha=alpha, effect=effect), 1
    while power(most) < LEAST_POWER:
        most *= 2
    return bisect_left(range(most), LEAST_POWER, key=power)


def detectable_effect(num_samples: int, freedom: int, *, alpha: float) -> float:
    """Return the smallest Cohen's w that so many samples notice with a chance of ``LEAST_POWER``."""
    low, high = 0.0, 2.0**20
    for _ in range(80):
        middle = (low + high) / 2
        if power_of(num_samples, freedom, alpha=alpha, effect=middle) < LEAST_POWER:
            low = middle
        else:
            high = middle
    return high


def pooled(counts: Counts, expected: Expected, total: int) -> list[tuple[int, float]]:
    """Return (count, expected count) of every cell of the test, the rare outcomes together in one."""
    cells = [(counts.get(outcome, 0), total * float(share)) for outcome, share in expected.items() if share]
    frequent = sorted((cell for cell in cells if cell[1] >= LEAST_EXPECTED), key=lambda cell: -cell[1])
    rare = _joined([cell for cell in cells if cell[1] < LEAST_EXPECTED])
    if rare[1] >= LEAST_EXPECTED or not frequent:
        return [*frequent, rare] if rare[1] else frequent
    return [*frequent[:-1], _joined([frequent[-1], rare])]


def _joined(cells: Sequence[tuple[int, float]]) -> tuple[int, float]:
    return sum(count for count, _ in cells), sum(wanted for _, wanted in cells)
