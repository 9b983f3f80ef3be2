"""How close the decisions of a call come to their boundaries, in units of what float32 may round.

A unit is a row or a request: an entry of the first axis, or of the first axis in blocks, of every output. Below 1 two
correct implementations may decide differently.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.rounding import rounding_bound, softmax_bound
from specsim.reference.probabilities import distribution, keep_min_p, keep_top_p
from specsim.reference.walks import Walk, walk_chain, walk_tree

Arguments = Mapping[str, Any]

LARGEST_EXPONENT = 104.0
"""The exponent of a weight beyond it is below the least float32."""


def top_p_renorm(arguments: Arguments) -> Array:
    """Return the margin of each row: how far its mass with and without the last kept value lies from the share."""
    rows = zip(arguments["probabilities"], arguments["top_p"].tolist(), strict=True)
    return _in_bounds([keep_top_p(row, top_p)[1] for row, top_p in rows], arguments["probabilities"].shape[1])


def min_p_renorm(arguments: Arguments) -> Array:
    """Return the margin of each row: how far its entries lie from the threshold."""
    rows = zip(arguments["probabilities"], arguments["min_p"].tolist(), strict=True)
    return _in_bounds([keep_min_p(row, min_p)[1] for row, min_p in rows], arguments["probabilities"].shape[1])


def target_probabilities(arguments: Arguments) -> Array:
    """Return the margin of each row: that of the closest of its filters."""
    margins = []
    for row, logits in enumerate(arguments["logits"]):
        request = row // arguments["num_draft_tokens"]
        margin = distribution(logits, *filters_of(arguments, request))[1]
        margins.append(margin / row_bound(logits, arguments, request))
    return np.array(margins, dtype=np.float64)


def tree_speculative_sampling_target_only(arguments: Arguments) -> Array:
    """Return the margin of each request: that of the closest decision of its walk."""
    rows = arguments["target_probs"]
    margins = [_walk(arguments, request, rows[request].__getitem__).margin for request in range(len(rows))]
    return _in_bounds(margins, rows.shape[2])


def chain_speculative_sampling(arguments: Arguments) -> Array:
    """Return the margin of each request: that of the closest decision of its walk."""
    offsets, draft_probs = arguments["cu_num_drafts"].tolist(), arguments["draft_probs"]
    margins = [
        walk_chain(
            arguments["draft_tokens"][first:last],
            arguments["uniform_samples"][first:last],
            float(arguments["uniform_samples_for_final_sampling"][request]),
            None if draft_probs is None else draft_probs[first:last],
            arguments["target_probs"][first + request : last + request + 1],
        ).margin
        for request, (first, last) in enumerate(pairwise(offsets))
    ]
    return _in_bounds(margins, arguments["target_probs"].shape[1])


def verify_tree_sampled_from_logits(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of its walk and of the filters of the rows that it visits."""
    return np.array([_sampled_margin(arguments, request) for request in range(len(arguments["candidates"]))])


def _sampled_margin(arguments: Arguments, request: int) -> float:
    if arguments["temperature"][request] == 0:
        # NOTE: rows of zeros and a one round nothing.
        return float("inf")
    num_nodes = arguments["candidates"].shape[1]
    logits = arguments["logits"][request * num_nodes : (request + 1) * num_nodes]
    closest, bound = float("inf"), 0.0

    def row_of(node: int) -> Array:
        nonlocal closest, bound
        row, margin = distribution(logits[node], *filters_of(arguments, request))
        closest = min(closest, margin)
        bound = max(bound, row_bound(logits[node], arguments, request))
        return row

    walk = _walk(arguments, request, row_of)
    return min(closest, walk.margin, walk.single_margin) / bound


def filters_of(arguments: Arguments, request: int) -> tuple[float, int, float, float]:
    """Return temperature, top-k, top-p and min-p of a request."""
    temperature, top_p, min_p = (float(arguments[name][request]) for name in ("temperature", "top_p", "min_p"))
    return temperature, int(arguments["top_k"][request]), top_p, min_p


def row_bound(logits: Array, arguments: Arguments, request: int) -> float:
    """Return how far two correct softmaxes of a row may lie apart."""
    temperature = float(arguments["temperature"][request])
    values = logits[np.isfinite(logits)].astype(np.float64)
    widest = float(values.max() - values.min()) / temperature if temperature > 0 else 0.0
    return softmax_bound(len(logits), min(widest, LARGEST_EXPONENT))


def _walk(arguments: Arguments, request: int, row_of: Callable[[int], Array]) -> Walk:
    return walk_tree(
        arguments["candidates"][request],
        arguments["retrieve_next_token"][request],
        arguments["retrieve_next_sibling"][request],
        arguments["uniform_samples"][request],
        float(arguments["uniform_samples_for_final_sampling"][request]),
        row_of,
        (float(arguments["threshold_single"][request]), float(arguments["threshold_acc"][request])),
        arguments["num_steps"],
        bool(arguments["strict"]),
        bool(arguments["skip_duplicates"]),
    )


def _in_bounds(margins: list[float], vocab_size: int) -> Array:
    return np.array(margins, dtype=np.float64) / rounding_bound(vocab_size)


MARGINS: dict[str, Callable[[Arguments], Array]] = {
    function.__name__: function
    for function in (
        top_p_renorm,
        min_p_renorm,
        target_probabilities,
        tree_speculative_sampling_target_only,
        chain_speculative_sampling,
        verify_tree_sampled_from_logits,
    )
}
"""Of every operation that decides in floating point, the margin of each row or request."""
