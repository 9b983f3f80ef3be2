"""Faults in DFLASH's operations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.host.dflash import DEFAULT_BLOCK
from specsim.phases import DflashDraftInput
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    answering,
    mutants_by_operation,
    of_the_first,
    of_the_neighbour,
    with_arguments,
)

_TOKEN = 'axes["mask_token"] if node else bonus_tokens[request]'
_DISTANCE = 'length - min(length, axes["draft_window"])'
_COUNT = 'top_k[row // axes["num_draft_tokens"]]'
_LEAST = f"logits[row, best_first[{_COUNT} - 1]]"


def _shifted(statement: str) -> Callable[[Function], Function]:
    return edited("out_tokens[request, :-1] = candidates[request, 1:]", statement)


@answering
def _layers_over_the_whole_depth(correct: Function, arguments: Named) -> Any:
    depth, count = arguments["num_target_layers"], arguments["num_features"]
    return tuple(round(1 + place * (depth - 1) / max(count - 1, 1)) for place in range(count))


@answering
def _first_layer_for_one(correct: Function, arguments: Named) -> Any:
    return (1,) if arguments["num_features"] == 1 else correct(**arguments)


@answering
def _width_of_a_block(correct: Function, arguments: Named) -> Any:
    is_block = isinstance(arguments["phase"], DflashDraftInput)
    return (DEFAULT_BLOCK, DEFAULT_BLOCK) if is_block else correct(**arguments)


_one_early = edited("seq_lens[request] + node", "max(seq_lens[request] + node - 1, 0)")
_window_counts_the_block = edited(_DISTANCE, 'min(max(length + num_nodes - axes["draft_window"], 0), length)')
_table_of_the_front = edited(
    "req_to_token[req_pool_indices[request], start : start + count]", "req_to_token[req_pool_indices[request], :count]"
)
_ties_go = edited(
    _COUNT, f"{_COUNT} if (logits[row] == {_LEAST}).sum() == 1 else max((logits[row] > {_LEAST}).sum(), 1)"
)
_last_of_equals = edited(
    'np.argsort(-logits[row].astype(np.float32), kind="stable")',
    'logits.shape[1] - 1 - np.argsort(-logits[row, ::-1].astype(np.float32), kind="stable")',
)
_largest_of_the_batch = with_arguments(top_k=lambda counts: np.full_like(counts, counts.max(initial=1)))
_bonus_one_early = edited("num_accepted_drafts[request]", "max(num_accepted_drafts[request] - 1, 0)")
_bonus_one_late = edited("num_accepted_drafts[request]", 'min(num_accepted_drafts[request] + 1, axes["node"] - 1)')
_no_bonus = edited("out_tokens[request, num_accepted_drafts[request]] = bonus_tokens[request]", "")
_rounded_down = edited("round(1 + place * span / (num_features - 1))", "1 + place * span // (num_features - 1)")
_one_late = edited("seq_lens[request] + node", "seq_lens[request] + node + 1")
_text_alone = edited("start, count", "start, count - num_nodes")
_always_filtered = edited('top_k.max(initial=0) >= axes["vocab"]', "False")
_count_of_the_row = edited('row // axes["num_draft_tokens"]', "row % len(top_k)")
_not_shifted = _shifted("out_tokens[request] = candidates[request]")
_root_wrapped = _shifted("out_tokens[request] = np.roll(candidates[request], -1)")

MUTANTS = mutants_by_operation(
    prepare_block_draft=(
        ("OWN-1700", "The root of a block is masked too.", edited(_TOKEN, 'axes["mask_token"]')),
        ("OWN-1701", "A block is full of its root.", edited(_TOKEN, "bonus_tokens[request]")),
        ("OWN-1702", "A block lies one position early.", _one_early),
        ("OWN-1703", "A block lies one position late.", _one_late),
        ("OWN-1704", "A block has the root of its neighbour.", of_the_neighbour("bonus_tokens")),
        ("OWN-1705", "Every block lies after the first text.", of_the_first("seq_lens")),
    ),
    block_draft_metadata=(
        ("OWN-1706", "A window starts inside a page.", edited(f'floor_to({_DISTANCE}, axes["page_size"])', _DISTANCE)),
        ("OWN-1707", "A window is one position short.", with_arguments(draft_window=lambda width: max(width - 1, 1))),
        ("OWN-1708", "A window counts the block that lies after it.", _window_counts_the_block),
        ("OWN-1709", "The keys of a block do not count its own positions.", _text_alone),
        ("OWN-1710", "A table starts at the front of its row.", _table_of_the_front),
        ("OWN-1711", "A table is said to start with the text.", edited("start, count", "0, count")),
        ("OWN-1712", "A table is made of the row of another request.", of_the_neighbour("req_pool_indices")),
    ),
    keep_top_k_exactly=(
        ("OWN-1713", "Logits equal to the k-th stay.", edited(_COUNT, f"(logits[row] >= {_LEAST}).sum()")),
        ("OWN-1714", "Of logits equal to the k-th none stays.", _ties_go),
        ("OWN-1715", "Of equal logits the last ones stay.", _last_of_equals),
        ("OWN-1716", "One token more than k stays.", edited(_COUNT, f"{_COUNT} + 1")),
        ("OWN-1717", "Rows are filtered beside a request that keeps all.", _always_filtered),
        ("OWN-1718", "Every request has the largest k of the batch.", _largest_of_the_batch),
        ("OWN-1719", "The k of a request is looked up by row.", _count_of_the_row),
    ),
    fill_block_tokens=(
        ("OWN-1720", "The bonus token replaces an accepted draft.", _bonus_one_early),
        ("OWN-1721", "The bonus token comes after a rejected draft.", _bonus_one_late),
        ("OWN-1722", "Blocks are not shifted: the root is output again.", _not_shifted),
        ("OWN-1723", "The root wraps to the end of its block.", _root_wrapped),
        ("OWN-1724", "The bonus token is lost.", _no_bonus),
    ),
    target_feature_layers=(
        ("OWN-1725", "Features reach up to the last layer.", _layers_over_the_whole_depth),
        ("OWN-1726", "Places of features are rounded down.", _rounded_down),
        ("OWN-1727", "A feature alone is of the first layer.", _first_layer_for_one),
    ),
    get_spec_adjust_token_coefficient=(
        ("OWN-1728", "Ranks count every position of a block that is drafted.", _width_of_a_block),
    ),
)
