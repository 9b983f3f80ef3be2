"""Faults in tree attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.contracts.attended import slots_of
from specsim.properties.mutants.record import Mutant, Named, given, instead, with_arguments

Array = Any
_TREE = "tree_attention"
_SHARE = 4


@dataclass(frozen=True)
class Faults:
    """Attention in shares of four keys by the book, but for the faults that are switched on."""

    mask_is_transposed: bool = False
    nodes_see_no_self: bool = False
    nodes_see_the_window: bool = False
    prefix_ends_early: bool = False
    prefix_ends_late: bool = False
    heads_alternate: bool = False
    masks_of_the_first: bool = False
    shares_count_alike: bool = False
    sums_are_added: bool = False
    last_share_is_lost: bool = False
    largest_is_kept: bool = False
    sum_to_base_2: bool = False
    sum_without_the_largest: bool = False
    nothing_is_the_mean: bool = False


def _attending(faults: Faults) -> Callable[..., tuple[Array, Array]]:
    def call(**arguments: Any) -> tuple[Array, Array]:
        q = arguments["q"]
        attention = np.zeros(q.shape, dtype=np.float64)
        sums = np.full(q.shape[:2], -np.inf)
        with np.errstate(all="ignore"):
            for row, head in np.ndindex(*q.shape[:2]):
                attention[row, head], sums[row, head] = _row(arguments, row, head, faults)
        return attention.astype(q.dtype), sums.astype(np.float32)

    return call


def _row(arguments: Named, row: int, head: int, faults: Faults) -> tuple[Array, float]:
    q, keys, values = (arguments[name] for name in ("q", "k_buffer", "v_buffer"))
    num_nodes, num_kv_heads = arguments["num_draft_tokens"], keys.shape[1]
    request, node = divmod(row, num_nodes)
    slots = slots_of(arguments, request)
    sees = _sees(arguments, request, node, len(slots), faults)
    kv_head = head % num_kv_heads if faults.heads_alternate else head // (q.shape[1] // num_kv_heads)
    scale = q.shape[2] ** -0.5 if arguments["softmax_scale"] is None else float(arguments["softmax_scale"][0])
    key, value = (buffer[slots, kv_head].astype(np.float64) for buffer in (keys, values))
    scores = np.where(sees, scale * (key @ q[row, head].astype(np.float64)), -np.inf)
    if not sees.any():
        return (value.mean(axis=0), 0.0) if faults.nothing_is_the_mean else (0.0, -np.inf)
    return _joined(scores, value, faults)


def _sees(arguments: Named, request: int, node: int, length: int, faults: Faults) -> Array:
    num_nodes = arguments["num_draft_tokens"]
    masks = arguments["tree_mask"].reshape(-1, num_nodes, num_nodes)
    mask = masks[0 if faults.masks_of_the_first else request]
    window = (mask.T if faults.mask_is_transposed else mask)[node].copy()
    if faults.nodes_see_no_self:
        window[node] = False
    if faults.nodes_see_the_window:
        window[:] = True
    sees = np.concatenate([np.ones(length - num_nodes, dtype=np.bool_), window])
    if faults.prefix_ends_early and length > num_nodes:
        sees[length - num_nodes - 1] = False
    if faults.prefix_ends_late:
        sees[length - num_nodes] = True
    return sees


def _joined(scores: Array, value: Array, faults: Faults) -> tuple[Array, float]:
    """Return attention and the logarithm of the sum, joined from shares of four keys."""
    parts = []
    for first in range(0, len(scores), _SHARE):
        share = slice(first, first + _SHARE)
        if np.isfinite(scores[share]).any():
            top = scores[share].max()
            weights = np.exp(scores[share] - top)
            mean = weights @ np.where(weights[:, None] > 0, value[share], 0.0) / weights.sum()
            parts.append((mean, top + np.log(weights.sum()), top))
    if faults.last_share_is_lost and len(parts) > 1:
        parts = parts[:-1]
    means, sums, tops = (np.array(one) for one in zip(*parts, strict=True))
    joined = np.logaddexp.reduce(sums)
    weights = np.exp(sums - joined)
    if faults.shares_count_alike:
        weights = np.full(len(sums), 1 / len(sums))
    if faults.largest_is_kept:
        weights = np.exp(sums - tops) / np.exp(sums - tops).sum()
    if faults.sums_are_added:
        joined = sums.sum()
    if faults.sum_to_base_2:
        joined = joined / np.log(2)
    if faults.sum_without_the_largest:
        joined = joined - scores.max()
    return weights @ means, joined


def _fault(number: str, summary: str, **switched_on: bool) -> Mutant:
    return Mutant(number, _TREE, summary, instead(_attending(Faults(**switched_on))))


def _whole_last_page(arguments: Named) -> None:
    page_size = arguments["page_size"]
    is_read = np.zeros(len(arguments["k_buffer"]), dtype=np.bool_)
    for pages, length in zip(arguments["page_table"], arguments["cache_seqlens"].tolist(), strict=True):
        for page in pages[: -(-length // page_size)].tolist():
            is_read[page * page_size : (page + 1) * page_size] = True
    for name in ("k_buffer", "v_buffer"):
        if np.isnan(arguments[name][is_read].astype(np.float32)).any():
            raise ValueError("a number of the last page is NaN")


def _pages_in_order(arguments: Named) -> None:
    table, num_pages = arguments["page_table"], len(arguments["k_buffer"]) // arguments["page_size"]
    order = np.arange(table.size).reshape(table.shape) % num_pages
    arguments["page_table"] = order.astype(table.dtype)


def _places_reversed(arguments: Named) -> None:
    buffer = arguments["k_buffer"]
    pages = buffer.reshape(-1, arguments["page_size"], *buffer.shape[1:])
    arguments["k_buffer"] = np.where(np.isnan(buffer), buffer, pages[:, ::-1].reshape(buffer.shape))


def _one_length(arguments: Named) -> None:
    lengths = arguments["cache_seqlens"]
    arguments["cache_seqlens"] = np.full_like(lengths, lengths.min(initial=2**30))


MUTANTS = (
    _fault("OWN-3300", "The mask is read by columns.", mask_is_transposed=True),
    _fault("OWN-3301", "A node does not see itself.", nodes_see_no_self=True),
    _fault("OWN-3302", "Every node sees the whole window.", nodes_see_the_window=True),
    _fault("OWN-3303", "The prefix ends a position early.", prefix_ends_early=True),
    _fault("OWN-3304", "The prefix ends a position late.", prefix_ends_late=True),
    _fault("OWN-3305", "Query heads take KV heads in turn.", heads_alternate=True),
    _fault("OWN-3306", "All requests have the first one's mask.", masks_of_the_first=True),
    _fault("OWN-3307", "Shares of the keys count alike.", shares_count_alike=True),
    _fault("OWN-3308", "The sums of shares are added as logarithms.", sums_are_added=True),
    _fault("OWN-3309", "The last share is lost.", last_share_is_lost=True),
    _fault("OWN-3310", "Shares are joined without their largest scores.", largest_is_kept=True),
    _fault("OWN-3311", "The logarithm of the sum is to base 2.", sum_to_base_2=True),
    _fault("OWN-3312", "The logarithm of the sum lacks the largest score.", sum_without_the_largest=True),
    _fault("OWN-3313", "A node that sees nothing has the mean of the values.", nothing_is_the_mean=True),
    Mutant("OWN-3314", _TREE, "Scores are not scaled.", with_arguments(softmax_scale=np.ones(1, np.float32))),
    Mutant("OWN-3315", _TREE, "A scale that is given is not taken.", with_arguments(softmax_scale=None)),
    Mutant("OWN-3316", _TREE, "The last page is read to its end.", given(_whole_last_page)),
    Mutant("OWN-3317", _TREE, "Pages are read in the order of the pool.", given(_pages_in_order)),
    Mutant("OWN-3318", _TREE, "Keys of a page are read backwards.", given(_places_reversed)),
    Mutant("OWN-3319", _TREE, "All requests have the shortest length.", given(_one_length)),
)
