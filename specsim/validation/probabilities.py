"""Structural rules of logits, sampling parameters and distributions."""

import numpy as np
from numpy.typing import NDArray

from specsim.host.sampling import GREATEST_TEMPERATURE, LEAST_TEMPERATURE
from specsim.rejection import Reason
from specsim.validation.common import Arguments, first_place, reject


def prepare_logits(arguments: Arguments, axes: Arguments) -> None:
    """Logits, penalties and bias keep every sum defined; a scale is a positive number."""
    del axes
    for name in ("logits", "additive_penalty", "logit_bias"):
        if arguments[name] is not None:
            check_not_infinite(arguments[name], name)
    scale = arguments["scaling_penalty"]
    if scale is not None:
        for place in first_place(~((scale > 0) & np.isfinite(scale))):
            raise reject(
                Reason.INFINITE_LOGIT,
                f"scaling_penalty{list(place)}",
                scale[place],
                "a finite number above 0",
                "logits are divided and multiplied by it",
            )


def top_k_renorm(arguments: Arguments, axes: Arguments) -> None:
    """Every row has mass."""
    del axes
    check_has_mass(arguments["probabilities"], "probabilities")


def top_p_renorm(arguments: Arguments, axes: Arguments) -> None:
    """Every row has mass, and some of it is asked for."""
    check_has_mass(arguments["probabilities"], "probabilities")
    check_top_p(arguments, axes)


def min_p_renorm(arguments: Arguments, axes: Arguments) -> None:
    """Every row has mass."""
    del axes
    check_has_mass(arguments["probabilities"], "probabilities")


def target_probabilities(arguments: Arguments, axes: Arguments) -> None:
    """Rows leave a token possible; the sampling parameters define a distribution."""
    check_logits(arguments["logits"])
    check_top_p(arguments, axes)
    check_temperature(arguments)


def check_logits(logits: NDArray[np.generic]) -> None:
    """Check that every row has a finite largest logit."""
    check_not_infinite(logits, "logits")
    empty = np.asarray(np.isneginf(logits.astype(np.float32)).all(axis=-1))
    for place in first_place(empty):
        raise reject(
            Reason.EMPTY_DISTRIBUTION, f"logits{list(place)}", "-inf everywhere", "a finite logit", "a token is drawn"
        )


def check_not_infinite(values: NDArray[np.generic], what: str) -> None:
    """Check that no entry is positive infinity."""
    for place in first_place(np.isposinf(values.astype(np.float32))):
        raise reject(
            Reason.INFINITE_LOGIT, f"{what}{list(place)}", values[place], "below inf", "differences of it are taken"
        )


def check_has_mass(probabilities: NDArray[np.generic], what: str) -> None:
    """Check that every row has a finite, positive sum."""
    total = probabilities.sum(axis=-1, dtype=np.float64)
    for place in first_place(~((total > 0) & np.isfinite(total))):
        raise reject(
            Reason.EMPTY_DISTRIBUTION,
            f"{what}{list(place)}.sum()",
            total[place],
            "a finite number above 0",
            "a token is drawn from the row",
        )


def check_top_p(arguments: Arguments, axes: Arguments) -> None:
    """Check that some mass is asked for."""
    del axes
    for place in first_place(arguments["top_p"] <= 0):
        raise reject(
            Reason.PROBABILITY_OUT_OF_RANGE,
            f"top_p{list(place)}",
            arguments["top_p"][place],
            "above 0, at most 1",
            "at least one token is kept",
        )


def check_temperature(arguments: Arguments) -> None:
    """Check that a temperature is 0, which means greedy, or divides logits without overflow."""
    temperature = arguments["temperature"]
    in_range = (temperature >= LEAST_TEMPERATURE) & (temperature <= GREATEST_TEMPERATURE)
    for place in first_place((temperature != 0) & ~in_range):
        raise reject(
            Reason.TEMPERATURE_OUT_OF_RANGE,
            f"temperature{list(place)}",
            temperature[place],
            f"0, or {LEAST_TEMPERATURE} to {GREATEST_TEMPERATURE}",
            "logits are divided by it",
        )
