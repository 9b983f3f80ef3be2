"""Whether acceptance is lower than in a stored run: lower, same or cannot be told, and how many prompts would tell.

What is compared is the relative change of tokens per verify. Prompts that both runs have are resampled together, so
that only what changed on them counts; runs of other prompts are resampled apart, and take many more of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from specsim.tuning.bootstrap import FEWEST, LEVEL, Interval, interval_of, resampled_sums
from specsim.tuning.counted import Array, RequestCounts, rows_of, tokens_per_verify

MARGIN = 0.03
"""A loss below this share of the tokens per verify counts as none."""

POWER = 0.9
"""How often a loss as large as the margin is found, of runs with as many prompts as would tell."""

LOWER, SAME, UNKNOWN = "lower", "same", "cannot be told"


@dataclass(frozen=True)
class Guarded:
    """What a comparison came to.

    Parameters
    ----------
    verdict : str
        ``lower``: the whole interval lies below 0, and not within the margin. ``same``: a loss of the margin is
        excluded. ``cannot be told``: neither.
    change : Interval
        Relative change of tokens per verify.
    margin : float
        Loss that counts as none.
    num_prompts : int
        Prompts of this run; those in common where they are paired.
    is_paired : bool
        Whether both runs have these prompts.
    prompts_to_tell : int or None
        Prompts at which a loss of the margin is found in nine runs of ten; None where too few were run to know.
    """

    verdict: str
    change: Interval
    margin: float
    num_prompts: int
    is_paired: bool
    prompts_to_tell: int | None

    def __str__(self) -> str:
        change = f"{self.change.value:+.1%}"
        if self.change.low is not None and self.change.high is not None:
            change += f" [{self.change.low:+.1%}, {self.change.high:+.1%}]"
        kind = "the same" if self.is_paired else "other"
        tell = ""
        if self.prompts_to_tell is not None:
            tell = f"; a loss of {self.margin:.1%} shows with {self.prompts_to_tell:,} prompts"
        return f"{change} tokens per verify on {kind} {self.num_prompts:,} prompts{tell}"


def compare(
    baseline: Sequence[RequestCounts], now: Sequence[RequestCounts], seed: int, margin: float = MARGIN
) -> Guarded:
    """Compare acceptance with that of a stored run.

    Parameters
    ----------
    baseline, now : sequence of RequestCounts
        What was counted then and now; prompts that occur in both are compared alone if there are at least two.
    seed : int
        Of the resampling.
    margin : float
        Loss that counts as none.
    """
    then = {one.prompt: one for one in baseline}
    shared = [one for one in now if one.prompt in then]
    is_paired = len(shared) >= FEWEST and len(shared) == len({one.prompt for one in shared})
    if is_paired:
        baseline, now = [then[one.prompt] for one in shared], shared
    before, after = rows_of(baseline), rows_of(now)
    sums = [resampled_sums(rows, seed + (not is_paired) * place) for place, rows in enumerate((before, after))]
    replicates = tokens_per_verify(sums[1]) / tokens_per_verify(sums[0]) - 1
    value = float(tokens_per_verify(after.sum(axis=0)) / tokens_per_verify(before.sum(axis=0)) - 1)
    change = interval_of(value, replicates, min(len(before), len(after)))
    needed = _prompts_to_tell(before, after, sums, replicates, is_paired, margin)
    return Guarded(_verdict(change, margin), change, margin, len(now), is_paired, needed)


def _verdict(change: Interval, margin: float) -> str:
    if change.low is None or change.high is None:
        return UNKNOWN
    if change.low > -margin:
        return SAME
    return LOWER if change.high < 0 else UNKNOWN


def _prompts_to_tell(
    before: Array, after: Array, sums: Sequence[Array], replicates: Array, is_paired: bool, margin: float
) -> int | None:
    """Return at how many prompts, in each of the runs, a loss of the margin is found with the power.

    The variance of the change goes down with the number of prompts, and the loss has to exceed the quantiles of level
    and power together.
    """
    if min(len(before), len(after)) < FEWEST:
        return None
    if is_paired:
        variance = len(after) * float(replicates.var())
    else:
        variance = 0.0
        for rows, of_rows in zip((before, after), sums, strict=True):
            whole = float(tokens_per_verify(rows.sum(axis=0)))
            variance += len(rows) * float((tokens_per_verify(of_rows) / whole).var())
    normal = NormalDist()
    quantiles = normal.inv_cdf((1 + LEVEL) / 2) + normal.inv_cdf(POWER)
    return max(math.ceil(variance * (quantiles / margin) ** 2), FEWEST)
