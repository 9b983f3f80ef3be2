"""Cases of pools, recurrent states and log-probabilities without which a fault would not show are drawn often."""

import numpy as np
import pytest

from specsim.config import INDEXER_PAGE_KEYS
from tests.quality.test_discovery_often import LEAST, calls_of, number_of


def moves_between_pages(case):
    pages = [case[name] // INDEXER_PAGE_KEYS for name in ("target_slots", "source_slots")]
    return any(map(len, case["indexer_buffers"])) and (pages[0] != pages[1]).any()


def has_layers_with_and_without_an_indexer(case):
    return len({len(buffer) for buffer in case["indexer_buffers"]}) == 2


def moves_inside_and_outside_of_the_window(case):
    is_held = case["full_to_swa"][case["target_slots"][case["target_slots"] > 0]] > 0
    return is_held.any() and not is_held.all()


def ends_at(offset):
    """Return whether a length ends so far after a multiple of the interval."""

    def ends(case):
        after = case["seq_lens"].astype(np.int64) + case["num_accepted_tokens"]
        return case["interval"] > 0 and (after % max(case["interval"], 1) == offset % max(case["interval"], 1)).any()

    return ends


def keeps_both(case):
    return ((case["commit_step"] >= 0) & (case["snapshot_step"] >= 0) & (case["snapshot_slots"] >= 0)).any()


def has_temperatures_that_differ(case):
    return case["temperature"] is not None and len(set(case["temperature"].tolist())) > 1


def has_ties_at_the_top(case):
    rows = case["logits"][case["accept_index"][case["accept_index"] >= 0]].astype(np.float32)
    return case["num_top"] > 0 and ((rows == rows.max(axis=1, keepdims=True)).sum(axis=1) > 1).any()


def tells_of_an_impossible_token(case):
    nodes = case["accept_index"][case["accept_index"] >= 0]
    return np.isneginf(case["logits"][nodes, case["predict"][nodes]].astype(np.float32)).any()


CALLS = {
    "a move between pages": ("move_indexer_cache", moves_between_pages, LEAST),
    "layers with and without an indexer": ("move_indexer_cache", has_layers_with_and_without_an_indexer, LEAST),
    "pairs inside and outside of the window": ("translate_move_slots", moves_inside_and_outside_of_the_window, 8),
    "a length that ends at a snapshot": ("get_recurrent_steps", ends_at(0), LEAST),
    "a length that ends one short of it": ("get_recurrent_steps", ends_at(-1), LEAST),
    "a state with a snapshot": ("commit_recurrent_states", keeps_both, LEAST),
    "temperatures that differ": ("gather_output_logprobs", has_temperatures_that_differ, LEAST),
    "ties at the top": ("gather_output_logprobs", has_ties_at_the_top, LEAST),
    "an impossible token": ("gather_output_logprobs", tells_of_an_impossible_token, 5),
}


@pytest.mark.parametrize("what", CALLS)
def test_calls_are_common_with(what):
    operation, predicate, least = CALLS[what]
    assert number_of(predicate, calls_of(operation)) >= least
