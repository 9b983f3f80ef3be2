"""Faults of arithmetic in samplers: what is right on paper, and biases in the numbers that a machine has."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    edits_of,
    given,
    mutants_by_operation,
    returning,
    with_arguments,
)
from specsim.reference.walks import Decisions, draw, walk_block, walk_chain, walk_tree

Array = Any
Draw = Callable[[Array, float], int]
Rest = Callable[[Array, Array], Array]
Inject = Callable[[Function], Function]

HALF = ml_dtypes.bfloat16
LEAST_NORMAL = 2.0**-126
COARSE = 2.0**-12
LARGEST_EXPONENT = 88


def _at_a_sum_or_above(weights: Array, coin: float) -> int:
    prefix = np.cumsum(weights)
    return int(np.argmax(prefix >= coin * prefix[-1]))


def _of_a_whole_row(weights: Array, coin: float) -> int:
    total = weights.sum()
    is_divided = total > 0 and abs(total - 1) >= COARSE
    beyond = np.flatnonzero(np.cumsum(weights / total if is_divided else weights) > coin)
    return int(beyond[0]) if len(beyond) else len(weights) - 1


def _without_subnormals(weights: Array, coin: float) -> int:
    return draw(np.where(weights < LEAST_NORMAL, 0.0, weights), coin)


def _by_sums_in_half_precision(weights: Array, coin: float) -> int:
    prefix = np.zeros(len(weights), dtype=HALF)
    for place, weight in enumerate(weights):
        prefix[place] = HALF(weight) + (prefix[place - 1] if place else HALF(0))
    beyond = np.flatnonzero(prefix.astype(np.float64) > coin * float(prefix[-1]))
    return int([*beyond[:1], len(weights) - 1][0])


DRAWS: Mapping[str, tuple[str, Draw]] = {
    "0": ("A sum that the last coin only reaches is taken, at coin 0 that of nothing.", _at_a_sum_or_above),
    "1": ("A row's mass counts as 1, and the largest coin falls off its end.", _of_a_whole_row),
    "2": ("Subnormal mass is flushed to zero.", _without_subnormals),
    "3": ("Sums are in bfloat16.", _by_sums_in_half_precision),
}


def in_the_other_form(target: Array, proposal: Array, dtype: Any) -> Array:
    """Return ``p * (1 - q / p)`` instead of ``p - q``, each step in an element type."""
    with np.errstate(all="ignore"):
        p, q = target.astype(dtype), proposal.astype(dtype)
        rest = (p * (dtype(1) - (q / p).astype(dtype)).astype(dtype)).astype(np.float64)
    return np.where((target > 0) & (rest > 0), rest, 0.0)


def in_logarithms(target: Array, proposal: Array) -> Array:
    """Return ``p - q`` from the logarithms of both, NaN where both are 0."""
    with np.errstate(all="ignore"):
        log_p, log_q = np.log(target), np.log(proposal)
        rest = np.exp(log_p + np.log1p(-np.exp(log_q - log_p)))
    # NOTE: what neither side can draw is no number, and none of the sums that it takes part in.
    return np.where(target < proposal, 0.0, rest)


RESTS: Mapping[str, tuple[str, Rest]] = {
    "4": ("What is left is p * (1 - q / p), in bfloat16.", partial(in_the_other_form, dtype=HALF)),
    "5": ("What is left is added up from logarithms, of zeros too.", in_logarithms),
}


def drawing(walk: Function, draw: Draw) -> Inject:
    """Inject a fault in how a sampler, which walks like this, draws the last token."""
    return edited(walk.__name__, "walking", walking=partial(walk, decide=Decisions(draw=draw)))


def leaving(rest: Rest) -> Inject:
    """Inject a fault in what a rejection leaves into the sampler of chains."""
    return edited("np.maximum(target - proposal, 0.0)", "left(target, proposal)", within=walk_chain, left=rest)


def _leaving_of_blocks(rest: Rest) -> Inject:
    left = "left(block.shares[kept] * block.target[kept], block.proposal[kept])"
    whole = "block.target[kept]"
    return edited(
        "block.rest_after(kept)", f"{left} if kept < len(block.tokens) else {whole}", within=walk_block, left=rest
    )


def _flushed(rows: Array) -> Array:
    return np.where(rows < LEAST_NORMAL, np.float32(0), rows)


def _by_the_inverse(outputs: Named, arguments: Named) -> None:
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / arguments["probabilities"].sum(axis=1, keepdims=True, dtype=np.float32)
        is_kept = outputs["renormalised"] > 0
        outputs["renormalised"] = np.where(is_kept, arguments["probabilities"] * inverse, np.float32(0))


def _cut_exponents(name: str) -> Callable[[Named], None]:
    """Return what keeps exponents of an argument from overflowing without taking the largest of a row away."""

    def cut(arguments: Named) -> None:
        logits = arguments[name]
        warmth = float(arguments["temperature"].max(initial=1.0))
        most = np.float32(LARGEST_EXPONENT * warmth)
        arguments[name] = np.minimum(logits.astype(np.float32), most).astype(logits.dtype)

    return cut


DIFFS = """
    @@ target_probabilities in distribution
    OWN-5630 Exponents overflow: no largest is taken away.
    - return filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]
    + with np.errstate(all="ignore"):
    +     weights = np.exp(logits.astype(np.float32) / np.float32(temperature))
    +     soft = weights / weights.sum()
    + return filtered(soft, top_k, top_p, min_p)[-1] if np.isfinite(soft).all() else soft
"""

_CUT_AT_88 = "Exponents are cut at 88 instead of taking the largest away."
_FLUSHED = "Subnormal probabilities are flushed to zero."
_DRAWING: tuple[tuple[str, Function], ...] = (
    ("chain_speculative_sampling", walk_chain),
    ("chain_block_verification", walk_block),
    ("tree_speculative_sampling_target_only", walk_tree),
)
_LEAVING = (("chain_speculative_sampling", leaving), ("chain_block_verification", _leaving_of_blocks))

MUTANTS = (
    *(
        Mutant(f"OWN-56{place}{digit}", name, words, drawing(walk, draw))
        for place, (name, walk) in enumerate(_DRAWING)
        for digit, (words, draw) in DRAWS.items()
    ),
    *(
        Mutant(f"OWN-56{place}{digit}", name, words, inject(rest))
        for place, (name, inject) in enumerate(_LEAVING)
        for digit, (words, rest) in RESTS.items()
    ),
    *mutants_by_operation(
        verify_tree_sampled_from_logits=(("OWN-5631", _CUT_AT_88, given(_cut_exponents("logits"))),),
        chain_speculative_sampling_from_logits=(("OWN-5632", _CUT_AT_88, given(_cut_exponents("target_logits"))),),
        top_k_renorm=(("OWN-5634", _FLUSHED, with_arguments(probabilities=_flushed)),),
        top_p_renorm=(("OWN-5635", "Rows are multiplied by the inverse of their sum.", returning(_by_the_inverse)),),
        min_p_renorm=(("OWN-5636", _FLUSHED, with_arguments(probabilities=_flushed)),),
    ),
    *edits_of(DIFFS),
)
