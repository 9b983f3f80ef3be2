"""Laws are named, say their facts, lean on no implementation, and say what is wrong."""

import ast
import inspect

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.catalogue import Kind, names_of
from specsim.discovery import modules_named
from specsim.operations import RECORDS
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.properties.laws import checks
from specsim.properties.laws.checks import arrangements, require_equal, take_blocks
from specsim.properties.laws.links import closure_of, depths_of, parents_by_links
from specsim.properties.operations.models.forwards import scenes
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of

REFERENCE = load("specsim.reference")
LAWS = {
    one.name: one
    for one in all_properties()
    if group_of(one) not in GENERATED and not one.is_slow and not WITHOUT_COINS.keys() & set(one.operations)
}
RACE = "specsim.reference.sampled_verify"
"""Where the law of sampled verify takes the winner of a race from, which is one line of arithmetic."""


def test_a_law_is_named_after_its_function():
    named = {name: f"{group_of(law)}.{law.law.__name__}" for name, law in LAWS.items()}
    wrong = {name: expected for name, expected in named.items() if name != expected}
    assert not wrong, f"names and what they should be: {wrong}"


def test_a_law_says_its_fact():
    silent = [name for name, law in LAWS.items() if not inspect.getdoc(law.law)]
    assert not silent, silent


def test_a_law_concerns_what_there_is():
    there = {*RECORDS, *names_of(Kind.HOST_FUNCTION, Kind.PART)}
    wrong = {name: law.operations for name, law in LAWS.items() if not law.operations or set(law.operations) - there}
    assert not wrong, wrong


def test_laws_of_operations_do_not_import_an_implementation():
    found = []
    for module in [*modules_named("specsim.properties.operations", "laws").values(), checks, scenes]:
        source = inspect.getsource(module)
        imported = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        found += [
            (module.__name__, name)
            for name in imported
            if name.startswith(("specsim.reference", "specsim.gpu")) and name != RACE
        ]
    assert not found, found


def test_a_message_names_the_first_difference():
    with pytest.raises(AssertionError) as caught:
        require_equal("positions", np.array([[4, 5], [6, 7]]), [[4, 5], [9, 7]])
    assert str(caught.value) == "positions[1, 0] = 6, but should be 9"


def test_a_message_names_the_shapes():
    with pytest.raises(AssertionError) as caught:
        require_equal("positions", np.zeros(3), np.zeros((1, 3)))
    assert str(caught.value) == "positions has shape (3,), but should have (1, 3)"


def test_arrangements_reverse_rotate_and_single_out():
    assert arrangements(3) == [[2, 1, 0], [1, 2, 0], [0], [1], [2]]
    assert arrangements(0) == [[], []]


def test_blocks_are_taken_in_the_order_asked_for():
    assert take_blocks(np.arange(6), 3, [2, 0]).tolist() == [4, 5, 0, 1]
    assert take_blocks(np.arange(0), 0, []).tolist() == []


def test_parents_are_read_from_links():
    next_token = np.array([1, 3, -1, -1, -1])
    next_sibling = np.array([-1, 2, 4, -1, -1])
    parents = parents_by_links(next_token, next_sibling)
    assert parents == [-1, 0, 0, 1, 0]
    assert depths_of(parents) == [0, 1, 1, 2, 1]
    assert closure_of(parents).astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize(
    ("next_token", "next_sibling"),
    [([1, -1, -1], [-1, 1, -1]), ([1, 0, -1], [-1, 2, -1]), ([1, -1, -1], [-1, -1, -1]), ([5, -1, -1], [-1, -1, -1])],
    ids=["sibling of itself", "child is the root", "node left out", "node that does not exist"],
)
def test_links_that_are_no_tree_are_refused(next_token, next_sibling):
    with pytest.raises(AssertionError, match="but should be"):
        parents_by_links(np.array(next_token), np.array(next_sibling))
