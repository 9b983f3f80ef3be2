"""Simulated acceptance: how many tokens every request of a batch outputs, drawn instead of verified."""

import math

from specsim.counts import path_width
from specsim.rejection import Reason, SpecRejection

SIMULATED_TOKEN = 100
"""What every position predicts while acceptance is simulated (semantics B.10)."""

METHODS = ("multinomial", "match-expected")


def simulated_num_tokens(mean: float, num_steps: int, method: str, sample: float) -> int | None:
    """Return the one count of output tokens that holds for the whole batch in this iteration.

    Parameters
    ----------
    mean : float
        The count aimed at; 0 or less switches simulation off.
    num_steps : int
        Levels of a draft, so that the count lies in 1 to ``num_steps + 1``.
    method : str
        ``multinomial`` rounds ``mean + sample``, half to even; ``match-expected`` takes one of the two neighbours of
        the mean, so that the mean is met.
    sample : float
        Standard normal for ``multinomial``, uniform in [0, 1) for ``match-expected``.

    Returns
    -------
    num_tokens : int or None
        None where simulation is off.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: another method, a mean or sample that is not finite, or a uniform sample outside [0, 1).

    Notes
    -----
    Source: semantics B.10.
    """
    for what, got in (("mean", mean), ("sample", sample)):
        if not math.isfinite(got):
            raise _reject(what, got, "finite", "a count comes out of it")
    if mean <= 0:
        return None
    most = path_width(num_steps)
    if method == "multinomial":
        return round(min(max(mean + sample, 1.0), float(most)))
    if method != "match-expected":
        raise _reject("method", method, " or ".join(METHODS), "no other way of drawing is known")
    if not 0.0 <= sample < 1.0:
        raise _reject("sample", sample, "0 to 1, 1 excluded", "it is uniform")
    aimed = min(max(mean, 1.0), float(most))
    below = math.floor(aimed)
    return below + 1 if sample < aimed - below else below


def _reject(what: str, got: object, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.SCALAR_OUT_OF_RANGE, what, got, expected, because)
