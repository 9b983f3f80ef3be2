"""Which slots attention reads, and how far two correct results of it may differ.

Lengths, pages and slots may be those of a call that is refused for them; what lies outside of the pool is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.rounding import BFLOAT16_DIGITS, EPSILON, rounding_bound

Arguments = Mapping[str, Any]

SCORE_STAGES = 8
"""Roundings of a score besides those of its sum: scale, base, difference to the largest, and the exponential."""


class Head(NamedTuple):
    """The scores of one query head of a request, -inf where a node does not see a key, and what they weigh."""

    request: int
    head: int
    scores: NDArray[np.float64]  # [node, key]
    sizes: NDArray[np.float64]
    """What the terms of each score add up to by size, [node, key]."""
    values: NDArray[np.float64]  # [key, head_dim]


def pages_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which entries of ``page_table`` are read, bool [request, page]: those that begin below the length."""
    table, page_size = arguments["page_table"], max(int(arguments["page_size"]), 1)
    starts = np.arange(table.shape[1]) * page_size
    read: NDArray[np.bool_] = starts[None, :] < arguments["cache_seqlens"][:, None]
    return read


def slots_of(arguments: Arguments, request: int) -> NDArray[np.int64]:
    """Return the slots of the keys of a request, in the order of their positions."""
    table, page_size = arguments["page_table"][request].astype(np.int64), max(int(arguments["page_size"]), 1)
    most = len(table) * page_size
    position = np.arange(min(max(int(arguments["cache_seqlens"][request]), 0), most))
    slots: NDArray[np.int64] = table[position // page_size] * page_size + position % page_size
    return slots


def slots_read(arguments: Arguments, num_slots: int) -> NDArray[np.bool_]:
    """Return which slots of a pool hold a key of some request, bool [slot]."""
    read = np.zeros(num_slots, dtype=np.bool_)
    for request in range(len(arguments["page_table"])):
        slots = slots_of(arguments, request)
        read[slots[(slots >= 0) & (slots < num_slots)]] = True
    return read


def heads_of(arguments: Arguments) -> Iterator[Head]:
    """Yield every query head of every request of a call of ``tree_attention``, its scores in float64."""
    q, keys, values = (arguments[name] for name in ("q", "k_buffer", "v_buffer"))
    num_nodes, num_heads = int(arguments["num_draft_tokens"]), q.shape[1]
    group, scale = num_heads // keys.shape[1], scale_of(arguments)
    for request in range(len(arguments["page_table"])):
        slots = slots_of(arguments, request)
        rows = slice(request * num_nodes, (request + 1) * num_nodes)
        window = arguments["tree_mask"].reshape(-1, num_nodes)[rows]
        sees = np.concatenate([np.ones((num_nodes, len(slots) - num_nodes), dtype=np.bool_), window], axis=1)
        for head in range(num_heads):
            query = q[rows, head].astype(np.float64)
            key, value = (buffer[slots, head // group].astype(np.float64) for buffer in (keys, values))
            scores = np.where(sees, scale * (query @ key.T), -np.inf)
            sizes = abs(scale) * (np.abs(query) @ np.abs(key).T)
            yield Head(request, head, scores, sizes, value)


def scale_of(arguments: Arguments) -> float:
    """Return what scores are multiplied by: 1 over the root of the size of a head, unless the call has a number."""
    given = arguments["softmax_scale"]
    return float(given[0]) if given is not None else float(arguments["q"].shape[2]) ** -0.5


def attention_bounds(arguments: Arguments) -> dict[str, NDArray[np.float64]]:
    """Return how far each entry of the outputs of ``tree_attention`` may lie from another correct one, by name.

    A score is off by what adding up its terms rounds. A weight follows its score, and is rounded to the type of the
    values before it multiplies one, as kernels do whose matrix units take that type alone. What follows is a share of
    the attention over the sizes of the values; the output is rounded to its type on both sides.
    """
    q = arguments["q"]
    spacing, least = _spacing_of(q.dtype)
    attention, log_sum_exp = np.zeros(q.shape), np.zeros(q.shape[:2])
    num_nodes = int(arguments["num_draft_tokens"])
    for request, head, scores, sizes, values in heads_of(arguments):
        rows, seen = slice(request * num_nodes, (request + 1) * num_nodes), np.isfinite(scores)
        largest = np.max(scores, axis=1, initial=-np.inf)[:, None]
        with np.errstate(invalid="ignore"):
            weights = np.where(seen, np.exp(scores - largest), 0.0)
        total = np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
        off = EPSILON * (q.shape[2] + SCORE_STAGES) * np.max(sizes, axis=1, initial=0.0, where=seen)[:, None]
        share = np.expm1(2 * off) + spacing / 2 + 2 * rounding_bound(scores.shape[1])
        of_weights = share * (weights / total @ np.abs(values)) + least * (seen / total @ np.abs(values))
        of_output = spacing * np.abs(weights / total @ values)
        attention[rows, head] = of_weights + of_output
        size = np.abs(np.where(np.isfinite(largest), largest, 0.0)) + np.log(total)
        log_sum_exp[rows, head] = (off + rounding_bound(scores.shape[1]) + SCORE_STAGES * EPSILON * size)[:, 0]
    return {"attention": attention, "log_sum_exp": log_sum_exp}


def _spacing_of(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the spacing of numbers of a type at 1, and its least number."""
    if dtype.name == "bfloat16":
        return 2.0**-BFLOAT16_DIGITS, 0.0
    return float(np.finfo(dtype).eps), float(np.finfo(dtype).smallest_subnormal)
