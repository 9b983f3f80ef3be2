"""Structural rules of acceptance by chance."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.chains import block_target_rows_read, target_rows_read
from specsim.rejection import Reason
from specsim.validation.common import PATHS, fault_in, offsets_ascend
from specsim.validation.links import TREE
from specsim.validation.probabilities import rows_have_mass
from specsim.validation.rule import Arguments, Fault, Rule, rule


@rule(Reason.COIN_OUT_OF_RANGE, "a coin is uniform on [0, 1)")
def coins_lie_below_one(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Every coin lies below 1."""
    del axes
    for name in ("uniform_samples", "uniform_samples_for_final_sampling"):
        fault = fault_in(arguments[name], arguments[name] >= 1, name, "at least 0 and below 1")
        if fault is not None:
            return fault
    return None


@rule(Reason.COUNT_OUT_OF_RANGE, "an output row holds no more")
def drafts_fit_into_a_row(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No request has more drafts than `max_num_drafts`."""
    counts = np.diff(arguments["cu_num_drafts"])
    for request in np.flatnonzero(counts > axes["draft"])[:1]:
        return Fault(f"drafts of request {request}", int(counts[request]), f"at most {axes['draft']}")
    return None


def _read_rows_have_mass(rows_read: Callable[[Arguments], NDArray[np.bool_]], who: str, because: str) -> Rule:
    """Return the rule that every row of the target that is read has mass."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        total = arguments["target_probs"].sum(axis=-1, dtype=np.float64)
        bad = rows_read(arguments) & ~((total > 0) & np.isfinite(total))
        for row in np.flatnonzero(bad)[:1]:
            return Fault(f"target_probs[{row}].sum()", total[row], "a finite number above 0")
        return None

    return Rule(
        f"Every row of `target_probs` that the {who} reads has a finite sum above 0.",
        Reason.EMPTY_DISTRIBUTION,
        because,
        find,
    )


def _rules_of_chains(have_mass: Rule) -> tuple[Rule, ...]:
    return (offsets_ascend("cu_num_drafts", "drafted"), drafts_fit_into_a_row, coins_lie_below_one, have_mass)


RULES = {
    "tree_speculative_sampling_target_only": (*TREE, coins_lie_below_one, rows_have_mass("target_probs")),
    "chain_speculative_sampling": _rules_of_chains(
        _read_rows_have_mass(target_rows_read, "walk", "a token is drawn from the last of them")
    ),
    "chain_block_verification": _rules_of_chains(
        _read_rows_have_mass(block_target_rows_read, "block", "a token may be drawn from each of them")
    ),
    "generate_simulated_accept_index": PATHS,
}
