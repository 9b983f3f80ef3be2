from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsim import Reason, SpecRejection
from specsim.topology import Topology, fault_of, misplaced_link

TREE = Topology(((4, 1), (5, 2), (), (), (3,), ()))
"""Siblings 4 → 1 and 5 → 2 lead to smaller numbers, and so does the link of 4 to its child."""


def every_tree(num_nodes):
    """Yield the parents of all trees with so many nodes, whatever their order."""
    for parents in product(*([*range(num_nodes)] for _ in range(1, num_nodes))):
        reached = {0}
        for _ in range(num_nodes):
            reached |= {node for node, parent in enumerate(parents, start=1) if parent in reached}
        if len(reached) == num_nodes:
            yield [-1, *parents]


@st.composite
def topologies(draw):
    """Draw a tree whose numbers say nothing about its order, now and then with nodes that hang from nothing."""
    num_nodes = draw(st.integers(1, 12))
    above = [draw(st.integers(-1 if node % 5 == 4 else 0, node - 1)) for node in range(1, num_nodes)]
    number = [0, *draw(st.permutations(range(1, num_nodes)))]
    children = [[] for _ in range(num_nodes)]
    for node, parent in enumerate(above, start=1):
        if parent >= 0:
            children[number[parent]].insert(draw(st.integers(0, len(children[number[parent]]))), number[node])
    return Topology(tuple(map(tuple, children)))


def test_a_tree_has_every_form():
    assert TREE.parents == (-1, 0, 1, 4, 0, 1)
    assert TREE.depths == (0, 1, 2, 2, 1, 2)
    assert TREE.next_token.tolist() == [4, 5, -1, -1, 3, -1]
    assert TREE.next_sibling.tolist() == [-1, -1, -1, -1, 1, 2]
    assert TREE.path_to(3) == [0, 4, 3]
    assert TREE.closure.astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 1, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]


def test_a_tree_is_drawn_in_sibling_order():
    assert str(TREE) == "0\n├─ 4\n│  └─ 3\n└─ 1\n   ├─ 5\n   └─ 2"


def test_labels_stand_in_the_place_of_numbers_and_other_roots_after_the_first():
    assert Topology.from_parents([-1, 0, -1]).draw("abc") == "a\n└─ b\nc"


def test_every_small_tree_survives_its_parents_and_its_links():
    for num_nodes in range(1, 7):
        trees = [Topology.from_parents(parents) for parents in every_tree(num_nodes)]
        # Cayley's formula counts them.
        assert len(set(trees)) == max(num_nodes ** (num_nodes - 2), 1)
        for tree in trees:
            assert Topology.from_parents(tree.parents) == tree
            assert Topology.from_links(tree.next_token, tree.next_sibling) == tree


@given(topologies())
def test_links_keep_the_order_and_parents_all_but_the_order(tree):
    assert Topology.from_links(tree.next_token, tree.next_sibling) == tree
    ascending = Topology(tuple(tuple(sorted(below)) for below in tree.children))
    assert Topology.from_parents(tree.parents) == ascending


@given(topologies())
def test_depth_path_and_closure_say_the_same(tree):
    closure = tree.closure
    for node in range(len(tree)):
        path = tree.path_to(node)
        assert path[-1] == node
        assert [tree.parents[below] for below in path] == [-1, *path[:-1]]
        assert tree.depths[node] == len(path) - 1 == closure[node].sum() - 1
        assert sorted(path) == np.flatnonzero(closure[node]).tolist()


@given(topologies())
def test_a_drawing_shows_every_node_once_at_its_depth(tree):
    drawn = [(line.lstrip("│├└─ "), line) for line in str(tree).splitlines()]
    assert sorted(int(node) for node, _ in drawn) == list(range(len(tree)))
    assert all(len(line) - len(node) == 3 * tree.depths[int(node)] for node, line in drawn)


@pytest.mark.parametrize(
    ("children", "reason"),
    [
        (((1,), (0,)), Reason.CYCLIC_TREE),
        (((0,),), Reason.CYCLIC_TREE),
        (((), (2,), (1,)), Reason.CYCLIC_TREE),
        (((1, 2), (2,), ()), Reason.SHARED_NODE),
        (((1, 1), ()), Reason.SHARED_NODE),
        (((), (0,)), Reason.SHARED_NODE),
        (((2,), ()), Reason.NODE_OUT_OF_RANGE),
    ],
)
def test_what_is_no_tree_is_refused(children, reason):
    with pytest.raises(SpecRejection) as caught:
        Topology(children)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("parents", "reason"),
    [
        ([-1, 2, 1], Reason.CYCLIC_TREE),
        ([1, -1], Reason.SHARED_NODE),
        ([-1, 2], Reason.NODE_OUT_OF_RANGE),
        ([-1, -2], Reason.NODE_OUT_OF_RANGE),
    ],
)
def test_parents_that_are_none_are_refused(parents, reason):
    with pytest.raises(SpecRejection) as caught:
        Topology.from_parents(parents)
    assert caught.value.reason is reason


def test_the_link_that_closes_a_cycle_is_named():
    with pytest.raises(SpecRejection) as caught:
        Topology.from_links([1, -1], [-1, 0])
    assert str(caught.value) == (
        "CYCLIC_TREE: next_sibling[1] is 0, but should be -1 or a node that hangs nowhere yet, "
        "because a walk along the links comes to an end"
    )


def test_a_fault_of_a_batch_is_named_with_its_request():
    next_token, next_sibling = np.array([[1, -1], [1, -1]]), np.array([[-1, -1], [-1, 0]])
    assert misplaced_link(next_token, next_sibling) == (1, 1, 1, Reason.CYCLIC_TREE)


def test_faults_are_exactly_those_of_a_search_over_all_walks():
    """Over all links of three nodes: a walk that does not end is a cycle, a node with two links in is shared."""
    counted = dict.fromkeys((None, Reason.CYCLIC_TREE, Reason.SHARED_NODE), 0)
    for links in product((-1, 0, 1, 2), repeat=6):
        targets = [links[:2], links[2:4], links[4:]]
        steps = np.zeros((3, 3), dtype=int)
        for node, row in enumerate(targets):
            for target in row:
                if target >= 0:
                    steps[node, target] = 1
        is_endless = np.linalg.matrix_power(steps, 3).any()
        entered = [0, *(target for target in links if target >= 0)]
        expected = (
            Reason.CYCLIC_TREE if is_endless else Reason.SHARED_NODE if len(set(entered)) < len(entered) else None
        )
        fault = fault_of(targets)
        assert (fault and fault[2]) == expected, targets
        arrays = np.array(targets)[None]
        in_batch = misplaced_link(arrays[:, :, 0], arrays[:, :, 1])
        assert (in_batch and in_batch[1:]) == fault, targets
        counted[expected] += 1
    assert all(counted.values())


def test_any_order_of_siblings_is_a_tree():
    for order in permutations((1, 2, 3)):
        tree = Topology((order, (), (), ()))
        assert Topology.from_links(tree.next_token, tree.next_sibling).children[0] == order


def test_a_sibling_of_the_root_is_a_root():
    assert Topology.from_links([-1, -1], [1, -1]) == Topology(((), ()))
