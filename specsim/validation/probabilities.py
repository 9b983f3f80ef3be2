"""Structural rules of logits, sampling parameters and distributions."""

import numpy as np
from numpy.typing import NDArray

from specsim.host.sampling import GREATEST_TEMPERATURE, LEAST_TEMPERATURE
from specsim.rejection import Reason
from specsim.validation.common import fault_in
from specsim.validation.rule import Arguments, Fault, Rule, rule


def _stays_finite(name: str) -> Rule:
    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        values = arguments[name]
        return None if values is None else fault_in(values, _is_positive_infinity(values), name, "below inf")

    return Rule(f"No entry of `{name}` is +inf.", Reason.INFINITE_LOGIT, "differences of it are taken", find)


def _is_positive_infinity(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    return np.asarray(np.isposinf(values.astype(np.float32)))


@rule(Reason.INFINITE_LOGIT, "logits are divided and multiplied by it")
def _scales_are_positive(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Every entry of `scaling_penalty` is a finite number above 0."""
    del axes
    scale = arguments["scaling_penalty"]
    if scale is None:
        return None
    return fault_in(scale, ~((scale > 0) & np.isfinite(scale)), "scaling_penalty", "a finite number above 0")


@rule(Reason.EMPTY_DISTRIBUTION, "a token is drawn")
def _rows_leave_a_token(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No row of `logits` is -inf everywhere."""
    del axes
    empty = np.asarray(np.isneginf(arguments["logits"].astype(np.float32)).all(axis=-1))
    for row in np.flatnonzero(empty)[:1]:
        return Fault(f"logits[{row}]", "-inf everywhere", "a finite logit")
    return None


def rows_have_mass(name: str) -> Rule:
    """Return the rule that something can be drawn from every row."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        total = arguments[name].sum(axis=-1, dtype=np.float64)
        fault = fault_in(total, ~((total > 0) & np.isfinite(total)), name, "a finite number above 0")
        return fault and fault._replace(what=f"{fault.what}.sum()")

    return Rule(
        f"Every row of `{name}` has a finite sum above 0.",
        Reason.EMPTY_DISTRIBUTION,
        "a token is drawn from the row",
        find,
    )


@rule(Reason.PROBABILITY_OUT_OF_RANGE, "at least one token is kept")
def _share_is_asked_for(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Every entry of `top_p` is above 0."""
    del axes
    top_p = arguments["top_p"]
    return None if top_p is None else fault_in(top_p, top_p <= 0, "top_p", "above 0, at most 1")


def temperature_divides(name: str, what: str) -> Rule:
    """Return the rule that every temperature can divide logits; ``what`` is how the sentence names one."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        temperature = arguments[name]
        if temperature is None:
            return None
        in_range = (temperature >= LEAST_TEMPERATURE) & (temperature <= GREATEST_TEMPERATURE)
        bounds = f"0, or {LEAST_TEMPERATURE} to {GREATEST_TEMPERATURE}"
        return fault_in(temperature, (temperature != 0) & ~in_range, name, bounds)

    sentence = f"{what} is 0, which means greedy, or 2**-20 to 2**20."
    return Rule(sentence, Reason.TEMPERATURE_OUT_OF_RANGE, "logits are divided by it", find)


LOGITS = (_stays_finite("logits"), _rows_leave_a_token)
"""Every row has a finite largest logit."""

TEMPERATURE = temperature_divides("temperature", "A temperature")

FILTERS = (_share_is_asked_for, TEMPERATURE)
"""The sampling parameters define a distribution."""

_MASS = rows_have_mass("probabilities")

RULES = {
    "prepare_logits": (
        _stays_finite("logits"),
        _stays_finite("additive_penalty"),
        _stays_finite("logit_bias"),
        _scales_are_positive,
    ),
    "top_k_renorm": (_MASS,),
    "top_p_renorm": (_MASS, _share_is_asked_for),
    "min_p_renorm": (_MASS,),
    "target_probabilities": (*LOGITS, *FILTERS),
}
