"""Faults in what a worker hands to a model: each is planted in one operation and must show."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from specsim.config import SpecConfig
from tests.specsim.simulation.models.dense import chain_of_drafts, greedy_output
from tests.specsim.simulation.models.examples import my_transformer
from tests.specsim.simulation.models.foreign_runs import CPU, ORACLE, on_numpy, requests

CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(2, 3, 6)
PROMPTS = [[5, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [8, 2, 8, 1, 8, 2]]


@dataclass(frozen=True)
class Fault:
    """An operation, what becomes of its outputs, in which shape of a draft, and what shows it."""

    operation: str
    change: Any
    config: SpecConfig
    shown_by: str


def every_node_sees_every_node(outputs, arguments):
    return outputs._replace(tree_mask=np.ones_like(outputs.tree_mask))


def positions_are_one_more(outputs, arguments):
    return outputs._replace(positions=outputs.positions + 1)


def siblings_do_not_see_their_parent(outputs, arguments):
    width = arguments["num_draft_tokens"]
    alone = np.tile(np.eye(width, dtype=np.bool_), (len(outputs.retrieve_index), 1, 1))
    alone[:, :, 0] = True
    return outputs._replace(tree_mask=alone.reshape(-1))


def slots_of_the_next_position(outputs, arguments):
    return outputs._replace(kv_indices=np.roll(outputs.kv_indices, 1, axis=1))


def lists_one_key_less(outputs, arguments):
    less = outputs.kv_indptr.copy()
    less[:, 1:] -= 1
    return outputs._replace(kv_indptr=less)


def rows_of_the_neighbour(outputs, arguments):
    return np.roll(outputs, 1, axis=0) if outputs.ndim == 2 else outputs


def tables_of_the_neighbour(outputs, arguments):
    return outputs._replace(page_table=np.roll(outputs.page_table, 1, axis=0))


def keys_without_the_window(outputs, arguments):
    return outputs._replace(cache_seqlens=outputs.cache_seqlens - 1)


def extends_at_the_next_positions(outputs, arguments):
    return outputs._replace(positions=outputs.positions + 1)


def starts_after_the_first_accepted(outputs, arguments):
    return outputs._replace(select_index=outputs.select_index - (arguments["num_accepted_tokens"] > 1))


def prompts_are_not_rotated(outputs, arguments):
    return arguments["input_ids"]


FAULTS = {
    "wrong mask: all": Fault("build_tree", every_node_sees_every_node, TREE, "output"),
    "wrong mask: no parents": Fault("build_tree", siblings_do_not_see_their_parent, TREE, "output"),
    "positions off by one": Fault("build_tree", positions_are_one_more, CHAIN, "target_kv"),
    "stale KV": Fault("move_kv_cache", None, TREE, "target_kv"),
    "draft keys: slots shifted": Fault("generate_draft_decode_kv_indices", slots_of_the_next_position, CHAIN, "drafts"),
    "draft keys: one missing": Fault("generate_draft_decode_kv_indices", lists_one_key_less, CHAIN, "drafts"),
    "hidden states of the neighbour": Fault("compact_accepted_to_front", rows_of_the_neighbour, TREE, "draft_kv"),
    "page table of the neighbour": Fault("target_verify_metadata", tables_of_the_neighbour, TREE, "output"),
    "one key less": Fault("target_verify_metadata", keys_without_the_window, CHAIN, "output"),
    "extend positions": Fault(
        "prepare_for_extend_to_fill_draft_kvcache", extends_at_the_next_positions, CHAIN, "draft_kv"
    ),
    "extend selects another row": Fault(
        "prepare_for_extend_to_fill_draft_kvcache", starts_after_the_first_accepted, CHAIN, "hidden_states"
    ),
    "prompt not rotated": Fault("rotate_prefill_input_ids", prompts_are_not_rotated, CHAIN, "draft_kv"),
}


def planted(fault):
    """Return the oracle with the fault; without a change the operation does nothing."""
    correct = ORACLE.functions[fault.operation]

    def faulty(**arguments):
        if fault.change is None:
            return None
        return fault.change(correct(**arguments), arguments)

    return ORACLE.with_function(fault.operation, faulty, "faulty")


def what_shows(operations, config):
    """Return what a run differs in from plain decoding, from fresh prefills, and from the draft alone."""
    model, asked = my_transformer.Transformer(my_transformer.Sizes(), 7, CPU), requests(PROMPTS, 12)
    run, found = on_numpy(model, config, asked, 3, operations=operations), set()
    first = {one.request_id: greedy_output(model, one.prompt, 1) for one in asked}
    for worker in run.steps():
        if run.engine.num_iterations == 1 and config == CHAIN:
            drafts = worker.phases()[1].draft_token.reshape(len(asked), -1).tolist()
            texts = [[*one.prompt, *first[one.request_id]] for one in asked]
            expected = [[text[-1], *chain_of_drafts(model, text, config.num_steps)] for text in texts]
            found |= set() if drafts == expected else {"drafts"}
        found |= run.differences_from_a_fresh_prefill()
    for request in run.engine.scheduler.finished:
        if request.output != greedy_output(model, request.prompt, request.max_new_tokens):
            found.add("output")
    return found


@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
def test_without_a_fault_nothing_shows(config):
    assert what_shows(ORACLE, config) == set()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name):
    fault = FAULTS[name]
    assert fault.shown_by in what_shows(planted(fault), fault.config)
