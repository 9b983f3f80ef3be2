"""Faults in the preparation of logits, and in the filters of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, of_the_first, returning

Array = Any
FINITE = -1e4


def _prepared(arguments: Named, rows: Array, forbidden: float, steps: str) -> Array:
    values = arguments["logits"].astype(np.float32)
    for step in steps:
        if step == "s" and arguments["scaling_penalty"] is not None:
            scale = arguments["scaling_penalty"][rows]
            values = np.where(values > 0, values / scale, values * scale)
        if step == "d" and arguments["scaling_penalty"] is not None:
            values = values / arguments["scaling_penalty"][rows]
        if step == "a" and arguments["additive_penalty"] is not None:
            values = values + arguments["additive_penalty"][rows]
        if step == "b" and arguments["logit_bias"] is not None:
            values = values + arguments["logit_bias"][rows]
        if step == "m" and arguments["vocab_mask"] is not None:
            token = np.arange(values.shape[1])
            allowed = (arguments["vocab_mask"][:, token // 32] >> (token % 32)) & 1
            values = np.where(allowed == 1, values, np.float32(forbidden))
    return values.astype(np.float32)


def _in_order(steps: str, forbidden: float = -np.inf) -> Callable[..., Array]:
    def prepare(**arguments: Any) -> Array:
        width = arguments["num_draft_tokens"]
        rows = np.repeat(np.arange(len(arguments["logits"]) // width), width)
        return _prepared(arguments, rows, forbidden, steps)

    return prepare


def _rows_by_place(**arguments: Any) -> Array:
    count = len(arguments["logits"])
    rows = np.arange(count) % max(count // arguments["num_draft_tokens"], 1)
    return _prepared(arguments, rows, -np.inf, "asbm")


def _neutral_rows_left_out(arguments: Named) -> None:
    penalty = arguments["additive_penalty"]
    if penalty is not None:
        is_neutral = (penalty == 0).all(axis=1)
        arguments["additive_penalty"] = np.concatenate([penalty[~is_neutral], penalty[is_neutral]])


def _words_from_the_other_end(arguments: Named) -> None:
    mask = arguments["vocab_mask"]
    if mask is not None:
        bits = np.unpackbits(np.ascontiguousarray(mask).view(np.uint8).reshape(*mask.shape, 4), axis=2)
        arguments["vocab_mask"] = np.packbits(bits, axis=2, bitorder="little").view(np.int32).reshape(mask.shape)


def _mask_of_the_root(arguments: Named) -> None:
    mask, width = arguments["vocab_mask"], arguments["num_draft_tokens"]
    if mask is not None:
        arguments["vocab_mask"] = np.repeat(mask[::width], width, axis=0)


def _kept(given_rows: Array, is_kept: Array) -> Array:
    rows = np.where(is_kept, given_rows.astype(np.float64), 0.0)
    return (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)


def _ties_cut(probabilities: Array, top_k: Array) -> Array:
    places = np.argsort(np.argsort(-probabilities, axis=1, kind="stable"), axis=1)
    return _kept(probabilities, places < top_k[:, None])


def _one_too_many(arguments: Named) -> None:
    arguments["top_k"] = np.minimum(arguments["top_k"], 2**30) + np.int32(1)


def _only_above(probabilities: Array, top_k: Array) -> Array:
    ranked = -np.sort(-probabilities, axis=1)
    place = np.minimum(top_k, probabilities.shape[1])[:, None] - 1
    threshold = np.take_along_axis(ranked, place, axis=1)
    everything = (top_k >= probabilities.shape[1])[:, None]
    return _kept(probabilities, (probabilities > threshold) | (probabilities == ranked[:, :1]) | everything)


def _dropped_from_the_end(probabilities: Array, top_k: Array) -> Array:
    ranked = -np.sort(-probabilities, axis=1)
    possible = (probabilities > 0).sum(axis=1)
    place = np.maximum(possible - np.maximum(probabilities.shape[1] - top_k, 0), 1)[:, None] - 1
    return _kept(probabilities, probabilities >= np.take_along_axis(ranked, place, axis=1))


def _count_wraps(arguments: Named) -> None:
    arguments["top_k"] = ((arguments["top_k"] - 1) % arguments["probabilities"].shape[1] + 1).astype(np.int32)


def _nothing_masked_forbids(outputs: Named, arguments: Named) -> None:
    if arguments["vocab_mask"] is None:
        outputs["prepared_logits"][:, 32:] = -np.inf


def _not_renormalised(outputs: Named, arguments: Named) -> None:
    outputs["renormalised"] = np.where(outputs["renormalised"] > 0, arguments["probabilities"], np.float32(0))


def _mass_before(probabilities: Array) -> Array:
    rows = probabilities.astype(np.float64)
    before = [[row[row > value].sum() for value in row] for row in rows]
    return np.array(before).reshape(rows.shape)


def _beyond_the_share(probabilities: Array, top_p: Array) -> Array:
    wanted = top_p[:, None] * probabilities.sum(axis=1, keepdims=True, dtype=np.float64)
    return _kept(probabilities, (_mass_before(probabilities) <= wanted) | (top_p >= 1)[:, None])


def _mass_of_one(probabilities: Array, top_p: Array) -> Array:
    return _kept(probabilities, (_mass_before(probabilities) < top_p[:, None]) | (top_p >= 1)[:, None])


def _last_of_ties_dropped(probabilities: Array, top_p: Array) -> Array:
    rows = probabilities.astype(np.float64)
    order = np.argsort(-rows, axis=1, kind="stable")
    ranked = np.take_along_axis(rows, order, axis=1)
    before = np.zeros_like(rows)
    np.put_along_axis(before, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    wanted = top_p[:, None] * rows.sum(axis=1, keepdims=True)
    return _kept(probabilities, (before < wanted) | (top_p >= 1)[:, None])


def _share_of_one(probabilities: Array, min_p: Array) -> Array:
    least = np.minimum(min_p[:, None], probabilities.max(axis=1, keepdims=True))
    return _kept(probabilities, probabilities >= least)


def _above_the_share(probabilities: Array, min_p: Array) -> Array:
    largest = probabilities.max(axis=1, keepdims=True)
    return _kept(probabilities, (probabilities > min_p[:, None] * largest) | (probabilities == largest))


_TOP_K, _TOP_P, _MIN_P = "top_k_renorm", "top_p_renorm", "min_p_renorm"
_PREPARE = "prepare_logits"

MUTANTS = (
    Mutant("OWN-356", _PREPARE, "Rows of requests without penalty are left out.", given(_neutral_rows_left_out)),
    Mutant("OWN-220", _PREPARE, "A row belongs to the request of its place in the batch.", instead(_rows_by_place)),
    Mutant("OWN-221", _PREPARE, "Forbidden tokens get a finite logit.", instead(_in_order("asbm", FINITE))),
    Mutant("OWN-222", _PREPARE, "The bias comes before the scaling penalty.", instead(_in_order("absm"))),
    Mutant("OWN-223", _PREPARE, "The scaling penalty comes before the additive one.", instead(_in_order("sabm"))),
    Mutant("OWN-224", _PREPARE, "Negative logits are divided too.", instead(_in_order("adbm"))),
    Mutant("OWN-225", _PREPARE, "Bits of a word are counted from the other end.", given(_words_from_the_other_end)),
    Mutant("OWN-226", _PREPARE, "Every node has the root's mask.", given(_mask_of_the_root)),
    Mutant("OWN-246", _PREPARE, "Without a mask only a word of tokens is allowed.", returning(_nothing_masked_forbids)),
    Mutant("OWN-227", _TOP_K, "Ties at the threshold are cut.", instead(_ties_cut)),
    Mutant("OWN-228", _TOP_K, "One token too many is kept.", given(_one_too_many)),
    Mutant("OWN-229", _TOP_K, "What is kept is not divided by its sum.", returning(_not_renormalised)),
    Mutant("OWN-230", _TOP_K, "Every row has the count of the first.", of_the_first("top_k")),
    Mutant("OWN-247", _TOP_K, "Only tokens above the k-th largest are kept.", instead(_only_above)),
    Mutant("OWN-248", _TOP_K, "A count beyond the vocabulary wraps.", given(_count_wraps)),
    Mutant("OWN-249", _TOP_K, "Impossible tokens do not count as dropped.", instead(_dropped_from_the_end)),
    Mutant("OWN-231", _TOP_P, "A mass that reaches the share is not enough.", instead(_beyond_the_share)),
    Mutant("OWN-232", _TOP_P, "The share is of 1, not of the row's mass.", instead(_mass_of_one)),
    Mutant("OWN-233", _TOP_P, "Ties at the threshold are cut.", instead(_last_of_ties_dropped)),
    Mutant("OWN-234", _MIN_P, "The share is of 1, not of the largest entry.", instead(_share_of_one)),
    Mutant("OWN-235", _MIN_P, "A token exactly at the threshold is dropped.", instead(_above_the_share)),
)
