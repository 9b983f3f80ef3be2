"""Faults in DFLASH's operations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import floor_to
from specsim.host.dflash import DEFAULT_BLOCK
from specsim.phases import DflashDraftInput
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    answering,
    given,
    instead,
    of_the_first,
    of_the_neighbour,
    returning,
)


def _masked_root(outputs: Named, arguments: Named) -> None:
    outputs["input_ids"][:] = arguments["mask_token"]


def _root_everywhere(outputs: Named, arguments: Named) -> None:
    outputs["input_ids"][:] = np.repeat(arguments["bonus_tokens"], arguments["num_draft_tokens"])


def _positions_from(shift: int) -> Any:
    def change(outputs: Named, arguments: Named) -> None:
        outputs["positions"] = np.maximum(outputs["positions"] + shift, 0)

    return change


def _window(shift: int) -> Any:
    def change(arguments: Named) -> None:
        arguments["draft_window"] = min(max(arguments["draft_window"] + shift, 1), 2**31 - 1)

    return change


def _tabulated(arguments: Named, starts: Array, counts: Array) -> tuple[Array, ...]:
    """Return the metadata of tables that start and end as given."""
    width, position = arguments["num_draft_tokens"], arguments["req_to_token"].shape[1]
    visible = min(arguments["draft_window"] + arguments["page_size"] - 1 + width, position)
    table = np.zeros((len(starts), visible), dtype=np.int32)
    for request, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        seen = arguments["req_to_token"][arguments["req_pool_indices"][request], start : start + count][:visible]
        table[request, : len(seen)] = seen
    offsets = np.arange(len(starts) + 1, dtype=np.int32) * width
    return starts.astype(np.int64), counts.astype(np.int32), offsets.astype(np.int32), table


def _starts_inside_a_page(**arguments: Any) -> tuple[Array, ...]:
    lengths = arguments["seq_lens"].astype(np.int64)
    starts = np.maximum(lengths - arguments["draft_window"], 0)
    return _tabulated(arguments, starts, lengths + arguments["num_draft_tokens"] - starts)


def _window_counts_the_block(**arguments: Any) -> tuple[Array, ...]:
    ends = arguments["seq_lens"].astype(np.int64) + arguments["num_draft_tokens"]
    starts = np.minimum(ends - arguments["draft_window"], arguments["seq_lens"])
    starts = floor_to(np.maximum(starts, 0), arguments["page_size"])
    return _tabulated(arguments, starts, ends - starts)


def _text_alone(outputs: Named, arguments: Named) -> None:
    outputs["cache_seqlens"] = outputs["cache_seqlens"] - np.int32(arguments["num_draft_tokens"])


def _start_is_zero(outputs: Named, arguments: Named) -> None:
    outputs["window_starts"] = np.zeros_like(outputs["window_starts"])


def _table_of_the_front(outputs: Named, arguments: Named) -> None:
    rows = arguments["req_to_token"][arguments["req_pool_indices"]]
    table = outputs["page_table"]
    table[:] = np.where(table > 0, rows[:, : table.shape[1]], 0)


def _keeping(kept_of: Callable[[Array, int], Array], is_always: bool = False) -> Callable[[Function], Function]:
    """Inject another choice of tokens: a row keeps what ``kept_of`` says of its float32 values and its k."""

    def keep(**arguments: Any) -> Array:
        logits, width = arguments["logits"].copy(), arguments["num_draft_tokens"]
        if arguments["top_k"].max(initial=0) >= logits.shape[1] and not is_always:
            return np.asarray(logits)
        for row, values in enumerate(logits):
            logits[row, ~kept_of(values.astype(np.float32), int(arguments["top_k"][row // width]))] = -np.inf
        return np.asarray(logits)

    return instead(keep)


def _in_order(values: Array, count: int, order: Array) -> Array:
    kept: Array = np.zeros(len(values), dtype=np.bool_)
    kept[order[:count]] = True
    return kept


def _best(values: Array, count: int) -> Array:
    return _in_order(values, count, np.argsort(-values, kind="stable"))


def _ties_stay(values: Array, count: int) -> Array:
    return np.asarray(values >= np.sort(values)[::-1][min(count, len(values)) - 1])


def _ties_go(values: Array, count: int) -> Array:
    least = np.sort(values)[::-1][min(count, len(values)) - 1]
    is_alone = bool((values == least).sum() == 1)
    kept: Array = _best(values, count if is_alone else 1) | (values > least)
    return kept


def _last_of_equals(values: Array, count: int) -> Array:
    return _in_order(values, count, len(values) - 1 - np.argsort(-values[::-1], kind="stable"))


def _k_of_the_batch(arguments: Named) -> None:
    arguments["top_k"] = np.full_like(arguments["top_k"], arguments["top_k"].max(initial=1))


def _k_of_the_row(correct: Function, arguments: Named) -> Any:
    counts = arguments["top_k"]
    rows = np.resize(counts, len(arguments["logits"])) if len(counts) else counts
    return correct(**{**arguments, "top_k": rows.astype(np.int32), "num_draft_tokens": 1})


def _bonus_at(shift: int) -> Any:
    def change(correct: Function, arguments: Named) -> Any:
        most = arguments["candidates"].shape[1] - 1
        counts = np.clip(arguments["num_accepted_drafts"] + shift, 0, most).astype(np.int32)
        return correct(**{**arguments, "num_accepted_drafts": counts})

    return answering(change)


def _not_shifted(outputs: Named, arguments: Named) -> None:
    tokens, place = arguments["candidates"].copy(), np.arange(len(arguments["candidates"]))
    tokens[place, arguments["num_accepted_drafts"]] = arguments["bonus_tokens"]
    outputs["out_tokens"] = tokens


def _wrapped(outputs: Named, arguments: Named) -> None:
    tokens, place = np.roll(arguments["candidates"], -1, axis=1), np.arange(len(arguments["candidates"]))
    tokens[place, arguments["num_accepted_drafts"]] = arguments["bonus_tokens"]
    outputs["out_tokens"] = tokens


def _no_bonus(outputs: Named, arguments: Named) -> None:
    outputs["out_tokens"] = np.roll(arguments["candidates"], -1, axis=1)
    outputs["out_tokens"][:, -1] = 0


def _layers_over_the_whole_depth(correct: Function, arguments: Named) -> Any:
    depth, count = arguments["num_target_layers"], arguments["num_features"]
    return tuple(round(1 + place * (depth - 1) / max(count - 1, 1)) for place in range(count))


def _layers_rounded_down(correct: Function, arguments: Named) -> Any:
    depth, count = arguments["num_target_layers"], arguments["num_features"]
    if count == 1:
        return correct(**arguments)
    return tuple(1 + place * (depth - 4) // (count - 1) for place in range(count))


def _first_layer_for_one(correct: Function, arguments: Named) -> Any:
    return (1,) if arguments["num_features"] == 1 else correct(**arguments)


def _width_of_a_block(correct: Function, arguments: Named) -> Any:
    is_block = isinstance(arguments["phase"], DflashDraftInput)
    return (DEFAULT_BLOCK, DEFAULT_BLOCK) if is_block else correct(**arguments)


_PREPARE, _TABLE, _KEEP, _FILL = (
    "prepare_block_draft",
    "block_draft_metadata",
    "keep_top_k_exactly",
    "fill_block_tokens",
)
_LAYERS = "target_feature_layers"

MUTANTS = (
    Mutant("OWN-1700", _PREPARE, "The root of a block is masked too.", returning(_masked_root)),
    Mutant("OWN-1701", _PREPARE, "A block is full of its root.", returning(_root_everywhere)),
    Mutant("OWN-1702", _PREPARE, "A block lies one position early.", returning(_positions_from(-1))),
    Mutant("OWN-1703", _PREPARE, "A block lies one position late.", returning(_positions_from(1))),
    Mutant("OWN-1704", _PREPARE, "A block has the root of its neighbour.", of_the_neighbour("bonus_tokens")),
    Mutant("OWN-1705", _PREPARE, "Every block lies after the first text.", of_the_first("seq_lens")),
    Mutant("OWN-1706", _TABLE, "A window starts inside a page.", instead(_starts_inside_a_page)),
    Mutant("OWN-1707", _TABLE, "A window is one position short.", given(_window(-1))),
    Mutant("OWN-1708", _TABLE, "A window counts the block that lies after it.", instead(_window_counts_the_block)),
    Mutant("OWN-1709", _TABLE, "The keys of a block do not count its own positions.", returning(_text_alone)),
    Mutant("OWN-1710", _TABLE, "A table starts at the front of its row.", returning(_table_of_the_front)),
    Mutant("OWN-1711", _TABLE, "A table is said to start with the text.", returning(_start_is_zero)),
    Mutant("OWN-1712", _TABLE, "A table is made of the row of another request.", of_the_neighbour("req_pool_indices")),
    Mutant("OWN-1713", _KEEP, "Logits equal to the k-th stay.", _keeping(_ties_stay)),
    Mutant("OWN-1714", _KEEP, "Of logits equal to the k-th none stays.", _keeping(_ties_go)),
    Mutant("OWN-1715", _KEEP, "Of equal logits the last ones stay.", _keeping(_last_of_equals)),
    Mutant("OWN-1716", _KEEP, "One token more than k stays.", _keeping(lambda values, count: _best(values, count + 1))),
    Mutant("OWN-1717", _KEEP, "Rows are filtered beside a request that keeps all.", _keeping(_best, is_always=True)),
    Mutant("OWN-1718", _KEEP, "Every request has the largest k of the batch.", given(_k_of_the_batch)),
    Mutant("OWN-1719", _KEEP, "The k of a request is looked up by row.", answering(_k_of_the_row)),
    Mutant("OWN-1720", _FILL, "The bonus token replaces an accepted draft.", _bonus_at(-1)),
    Mutant("OWN-1721", _FILL, "The bonus token comes after a rejected draft.", _bonus_at(1)),
    Mutant("OWN-1722", _FILL, "Blocks are not shifted: the root is output again.", returning(_not_shifted)),
    Mutant("OWN-1723", _FILL, "The root wraps to the end of its block.", returning(_wrapped)),
    Mutant("OWN-1724", _FILL, "The bonus token is lost.", returning(_no_bonus)),
    Mutant("OWN-1725", _LAYERS, "Features reach up to the last layer.", answering(_layers_over_the_whole_depth)),
    Mutant("OWN-1726", _LAYERS, "Places of features are rounded down.", answering(_layers_rounded_down)),
    Mutant(
        "OWN-1728",
        "get_spec_adjust_token_coefficient",
        "Ranks count every position of a block that is drafted.",
        answering(_width_of_a_block),
    ),
    Mutant("OWN-1727", _LAYERS, "A feature alone is of the first layer.", answering(_first_layer_for_one)),
)
