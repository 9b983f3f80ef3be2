"""Structural rules of log-probabilities."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import PATHS
from specsim.validation.probabilities import TEMPERATURE
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.INFINITE_LOGIT, "differences of it are taken")
def _read_rows_stay_finite(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No entry of `logits` that `accept_index` names is +inf."""
    del axes
    for node in arguments["accept_index"][arguments["accept_index"] >= 0]:
        for token in np.flatnonzero(np.isposinf(arguments["logits"][node].astype(np.float32)))[:1]:
            return Fault(f"logits[{node}, {token}]", "inf", "below inf")
    return None


@rule(Reason.EMPTY_DISTRIBUTION, "a token was chosen from it")
def _read_rows_leave_a_token(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No row of `logits` that `accept_index` names is -inf everywhere."""
    del axes
    for node in arguments["accept_index"][arguments["accept_index"] >= 0]:
        if np.isneginf(arguments["logits"][node].astype(np.float32)).all():
            return Fault(f"logits[{node}]", "-inf everywhere", "a finite logit")
    return None


RULES = {"gather_output_logprobs": (*PATHS, _read_rows_stay_finite, _read_rows_leave_a_token, TEMPERATURE)}
