"""Faults of arithmetic in samplers: what is right on paper, and biases in the numbers that a machine has."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, returning
from specsim.reference.probabilities import filtered
from specsim.reference.walks import Acceptance, Block, Coins, Decisions, DraftTree, walk_block, walk_tree
from specsim.reference.walks import draw as exact_draw
from specsim.topology import Topology

Array = Any
Draw = Callable[[Array, float], int]
Rest = Callable[[Array, Array], Array]

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
    return exact_draw(np.where(weights < LEAST_NORMAL, 0.0, weights), coin)


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


def _difference(target: Array, proposal: Array) -> Array:
    return np.maximum(target - proposal, 0.0)


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


def walk_with(rest: Rest, draw: Draw, drafts: list[int], coins: Coins, laws: Array, rows: Array) -> list[int]:
    """Walk a chain by the book, but for what is left and how it is drawn from."""
    tokens = list[int]()
    for place, token in enumerate(drafts):
        target = rows[place].astype(np.float64)
        if token < 0:
            break
        proposal = np.eye(len(target))[token] if laws is None else laws[place].astype(np.float64)
        if not (proposal[token] > 0 and float(coins.each[place]) * proposal[token] < target[token]):
            return [*tokens, draw(rest(target, proposal), coins.final)]
        tokens.append(token)
    return [*tokens, draw(rows[len(tokens)].astype(np.float64), coins.final)]


def _block_with(rest: Rest, drafts: list[int], coins: Coins, laws: Array, rows: Array) -> list[int]:
    """Judge a block by the book, but for what is left."""
    kept = walk_block(drafts, coins, laws, rows)[:-1]
    block = Block.of(drafts, laws, rows)
    left = block.rest_after(len(kept))
    if len(kept) < len(block.tokens):
        left = rest(block.shares[len(kept)] * block.target[len(kept)], block.proposal[len(kept)])
    return [*kept, exact_draw(left, coins.final)]


def chains_by(walk: Callable[..., list[int]]) -> Callable[..., tuple[Array, Array]]:
    """Return a sampler of ragged chains that walks each of them in a way of its own."""

    def call(**arguments: Any) -> tuple[Array, Array]:
        bounds = list(pairwise(arguments["cu_num_drafts"].tolist()))
        output = np.full((len(bounds), arguments["max_num_drafts"] + 1), -1, dtype=np.int32)
        for request, (first, last) in enumerate(bounds):
            laws = arguments["draft_probs"]
            final = float(arguments["uniform_samples_for_final_sampling"][request])
            tokens = walk(
                arguments["draft_tokens"][first:last].tolist(),
                Coins(arguments["uniform_samples"][first:last], final),
                None if laws is None else laws[first:last],
                arguments["target_probs"][first + request : last + request + 1],
            )
            output[request, : len(tokens)] = tokens
        return output, (output >= 0).sum(axis=1).astype(np.int32) - 1

    return call


def _trees(draw: Draw) -> Callable[..., tuple[Array, Array, Array]]:
    def call(**arguments: Any) -> tuple[Array, Array, Array]:
        candidates, numbers = arguments["candidates"], arguments["retrieve_index"]
        predict = np.zeros(candidates.size, dtype=np.int32)
        accept_index = np.full((len(candidates), arguments["num_steps"] + 1), -1, dtype=np.int32)
        for request, rows in enumerate(arguments["target_probs"]):
            links = (arguments[f"retrieve_next_{name}"][request] for name in ("token", "sibling"))
            tree = Topology.from_links(*links)
            single, added = (float(arguments[f"threshold_{name}"][request]) for name in ("single", "acc"))
            final = float(arguments["uniform_samples_for_final_sampling"][request])
            walk = walk_tree(
                DraftTree(tree, candidates[request].tolist(), arguments["num_steps"], arguments["skip_duplicates"]),
                Coins(arguments["uniform_samples"][request], final),
                rows.__getitem__,
                Acceptance(single, added, arguments["strict"]),
                Decisions(draw=draw),
            )
            for node, token in walk.rejected:
                arguments["draft_probs"][request, node, token] = rows[node, token]
            accept_index[request, : len(walk.path)] = numbers[request, walk.path]
            predict[numbers[request, walk.path]] = walk.tokens
        return predict, accept_index, (accept_index >= 0).sum(axis=1).astype(np.int32) - 1

    return call


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


def _flushed(arguments: Named) -> None:
    rows = arguments["probabilities"]
    arguments["probabilities"] = np.where(rows < LEAST_NORMAL, np.float32(0), rows)


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
_CHAIN, _BLOCK, _TREE = (
    "chain_speculative_sampling",
    "chain_block_verification",
    "tree_speculative_sampling_target_only",
)


def _drawing_chains(draw: Draw) -> Function:
    return chains_by(partial(walk_with, _difference, draw))


def _drawing_blocks(draw: Draw) -> Function:
    return chains_by(partial(walk_block, decide=Decisions(draw=draw)))


def _chains_with(rest: Rest) -> Function:
    return chains_by(partial(walk_with, rest, exact_draw))


def _blocks_with(rest: Rest) -> Function:
    return chains_by(partial(_block_with, rest))


_DRAWING = ((_CHAIN, _drawing_chains), (_BLOCK, _drawing_blocks), (_TREE, _trees))
_LEAVING = ((_CHAIN, _chains_with), (_BLOCK, _blocks_with))

MUTANTS = (
    *(
        Mutant(f"OWN-56{place}{digit}", name, words, instead(sampler(draw)))
        for place, (name, sampler) in enumerate(_DRAWING)
        for digit, (words, draw) in DRAWS.items()
    ),
    *(
        Mutant(f"OWN-56{place}{digit}", name, words, instead(sampler(rest)))
        for place, (name, sampler) in enumerate(_LEAVING)
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
    Mutant("OWN-5634", "top_k_renorm", "Subnormal probabilities are flushed to zero.", given(_flushed)),
    Mutant("OWN-5635", "top_p_renorm", "Rows are multiplied by the inverse of their sum.", returning(_by_the_inverse)),
    Mutant("OWN-5636", "min_p_renorm", "Subnormal probabilities are flushed to zero.", given(_flushed)),
)
