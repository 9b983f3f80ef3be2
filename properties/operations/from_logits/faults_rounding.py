"""Faults of arithmetic in samplers: what is right on paper, and biases in the numbers that a machine has."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Mutant, Named, given, returning, with_arguments
from specsim.reference.probabilities import filtered
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
    return edited(
        "block.rest_after(kept)",
        f"{left} if kept < len(block.tokens) else block.target[kept]",
        within=walk_block,
        left=rest,
    )


def _without_the_largest(outputs: Named, arguments: Named) -> None:
    """Soften rows by exponents that nothing is subtracted from."""
    width = arguments["num_draft_tokens"]
    rows = outputs["target_probs"]
    for place, logits in enumerate(arguments["logits"].astype(np.float32)):
        temperature, top_k, top_p, min_p = (arguments[name][place // width] for name in _SAMPLING)
        if temperature > 0:
            with np.errstate(all="ignore"):
                weights = np.exp(logits / temperature)
                soft = weights / weights.sum()
            rows[place] = (
                filtered(soft, int(top_k), float(top_p), float(min_p))[-1] if np.isfinite(soft).all() else soft
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


_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
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
    Mutant(
        "OWN-5630",
        "target_probabilities",
        "Exponents overflow: no largest is taken away.",
        returning(_without_the_largest),
    ),
    Mutant(
        "OWN-5631",
        "verify_tree_sampled_from_logits",
        "Exponents are cut at 88 instead of taking the largest away.",
        given(_cut_exponents("logits")),
    ),
    Mutant(
        "OWN-5632",
        "chain_speculative_sampling_from_logits",
        "Exponents are cut at 88 instead of taking the largest away.",
        given(_cut_exponents("target_logits")),
    ),
    Mutant(
        "OWN-5634",
        "top_k_renorm",
        "Subnormal probabilities are flushed to zero.",
        with_arguments(probabilities=_flushed),
    ),
    Mutant("OWN-5635", "top_p_renorm", "Rows are multiplied by the inverse of their sum.", returning(_by_the_inverse)),
    Mutant(
        "OWN-5636",
        "min_p_renorm",
        "Subnormal probabilities are flushed to zero.",
        with_arguments(probabilities=_flushed),
    ),
)
