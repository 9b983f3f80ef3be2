"""Structural rules of penalties."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import fault_in
from specsim.validation.rule import Arguments, Fault, Rule, rule

MOST = 2.0**20
"""The strongest penalty: a logit less a few thousand times as much is still a number."""


def _is_moderate(name: str) -> Rule:
    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        values = arguments[name]
        return fault_in(values, ~(np.abs(values) <= MOST), name, f"-{MOST} to {MOST}")

    return Rule(f"Entries of `{name}` are -2**20 to 2**20.", Reason.INFINITE_LOGIT, "logits are less by it", find)


@rule(Reason.INFINITE_LOGIT, "logits are divided and multiplied by it")
def _repetition_scales(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Entries of `repetition_penalty` are 2**-20 to 2**20."""
    del axes
    values = arguments["repetition_penalty"]
    return fault_in(values, ~((values >= 1 / MOST) & (values <= MOST)), "repetition_penalty", f"{1 / MOST} to {MOST}")


@rule(Reason.INFINITE_LOGIT, "differences of it are taken")
def _logits_stay_finite(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No entry of `logits` is +inf."""
    del axes
    values = arguments["logits"]
    return fault_in(values, np.asarray(np.isposinf(values.astype(np.float32))), "logits", "below inf")


RULES = {
    "apply_penalties": (
        _logits_stay_finite,
        _is_moderate("frequency_penalty"),
        _is_moderate("presence_penalty"),
        _repetition_scales,
    )
}
