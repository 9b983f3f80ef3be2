"""Faults that need one request and a few nodes are shown with just that, whatever size they were met with."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specsim.conformance.backend import Backend, load
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property

Call = dict[str, Any]
ORACLE = load("specsim.reference")


def planted(operation: str, shows: Callable[[Call, Call], bool]) -> Backend:
    """Return the reference with a fault in the first entry of an operation's first output, where a predicate holds."""

    names = [spec.name for spec in RECORDS[operation].contract.outputs]

    def faulty(**arguments: Any) -> Any:
        returned = ORACLE.functions[operation](**arguments)
        outputs = dict(zip(names, returned if isinstance(returned, tuple) else (returned,), strict=True))
        if shows(arguments, outputs):
            next(iter(outputs.values())).reshape(-1)[:1] += 1
        return returned

    return ORACLE.with_function(operation, faulty, "planted")


def takes_a_second_child(call: Call, outputs: Call) -> bool:
    num_nodes = call["candidates"].shape[1]
    for request, path in enumerate(outputs["accept_index"]):
        nodes = [node - request * num_nodes for node in path if node >= 0]
        firsts = call["retrieve_next_token"][request]
        if any(firsts[above] != node for above, node in pairwise(nodes)):
            return True
    return False


def leaves_out_a_node(call: Call, outputs: Call) -> bool:
    return bool((np.diff(call["accept_index"], axis=1) > 1).any())


FAMILIES: dict[str, tuple[str, Callable[[Call, Call], Any], dict[str, tuple[int, ...]]]] = {
    "tree": ("verify_tree_greedy", takes_a_second_child, {"candidates": (1, 3)}),
    "sampled tree": (
        "tree_speculative_sampling_target_only",
        takes_a_second_child,
        {"candidates": (1, 3), "target_probs": (1, 3, 2)},
    ),
    "chain": (
        "chain_speculative_sampling",
        lambda call, outputs: (outputs["num_accepted_drafts"] >= 2).any(),
        {"draft_tokens": (2,), "uniform_samples_for_final_sampling": (1,)},
    ),
    "building": (
        "build_tree",
        lambda call, outputs: (outputs["retrieve_next_sibling"] >= 0).any(),
        {"top_scores_index": (1, 2)},
    ),
    "compact": ("gather_accept_tokens", leaves_out_a_node, {"predict": (3,)}),
    "pages": (
        "get_src_tgt_cache_loc",
        lambda call, outputs: call["page_size"] > 1 and (call["num_accepted_drafts"] >= 2).any(),
        {"seq_lens": (1,), "out_cache_loc": (3,)},
    ),
    "probabilities": (
        "top_p_renorm",
        lambda call, outputs: (call["probabilities"] > 0).sum(axis=1).max(initial=0) > 2,
        {"probabilities": (1, 3)},
    ),
    "draft": ("fast_topk", lambda call, outputs: call["k"] > 1 and call["values"].size, {"values": (1, 2)}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_is_shown_in_as_little_as_it_needs(family: str) -> None:
    operation, shows, shapes = FAMILIES[family]
    one = property_named(f"agreement.{operation}")
    _, failure = run_property(one, planted(operation, shows), 0, 40)
    assert failure is not None and failure.case is not None
    assert {name: failure.case[name].shape for name in shapes} == shapes
