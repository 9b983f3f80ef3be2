"""Structural rules of acceptance from raw logits."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.chains import (
    block_draft_logits_read,
    block_target_logits_read,
    draft_logits_read,
    target_logits_read,
)
from specsim.rejection import Reason
from specsim.validation.acceptance import coins_lie_below_one, drafts_fit_into_a_row
from specsim.validation.common import offsets_ascend
from specsim.validation.links import TREE
from specsim.validation.probabilities import FILTERS, LOGITS, temperature_divides
from specsim.validation.rule import Arguments, Fault, Rule

_Rows = Callable[[Arguments], NDArray[np.bool_]]


def _has_infinity(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.asarray(np.isposinf(logits).any(axis=-1))


def _leaves_no_token(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.asarray(np.isneginf(logits).all(axis=-1))


def _no_row_read(
    name: str,
    who: str,
    rows_read: _Rows,
    is_bad: Callable[[Any], NDArray[np.bool_]],
    found: tuple[str, str, str],
    reason: Reason,
    because: str,
) -> Rule:
    """Return the rule that no row which a walk reads is bad; ``found`` is how it is worded, found, and expected."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        if arguments[name] is None:
            return None
        bad = is_bad(arguments[name].astype(np.float32))
        if not bad.any():
            return None
        for row in np.flatnonzero(bad & rows_read(arguments))[:1]:
            return Fault(f"{name}[{row}]", *found[1:])
        return None

    return Rule(f"No row of `{name}` that the {who} reads {found[0]}.", reason, because, find)


_INFINITY = ("holds +inf", "a row with +inf", "below inf")
_NO_TOKEN = ("is -inf everywhere", "-inf everywhere", "a finite logit")


def _rules_of_chains(who: str, target_rows: _Rows, draft_rows: _Rows) -> tuple[Rule, ...]:
    rows = tuple(
        _no_row_read(name, who, rows_read, *kind)
        for name, rows_read in (("target_logits", target_rows), ("draft_logits", draft_rows))
        for kind in (
            (_has_infinity, _INFINITY, Reason.INFINITE_LOGIT, "differences of it are taken"),
            (_leaves_no_token, _NO_TOKEN, Reason.EMPTY_DISTRIBUTION, "the row is a law"),
        )
    )
    return (
        offsets_ascend("cu_num_drafts", "drafted"),
        drafts_fit_into_a_row,
        coins_lie_below_one,
        *FILTERS,
        temperature_divides("draft_temperature", "A draft temperature"),
        *rows,
    )


RULES = {
    "verify_tree_greedy_from_logits": TREE,
    "verify_tree_sampled_from_logits": (*TREE, coins_lie_below_one, *LOGITS, *FILTERS),
    "chain_speculative_sampling_from_logits": _rules_of_chains("walk", target_logits_read, draft_logits_read),
    "chain_block_verification_from_logits": _rules_of_chains(
        "block", block_target_logits_read, block_draft_logits_read
    ),
}
