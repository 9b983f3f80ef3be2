import numpy as np
import pytest

from specsim import gpu, reference
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.gpu.launching.mode import launching
from specsim.rejection import Reason

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")


def trees(num_requests, num_nodes, vocab, reach=4, seed=0):
    """Return random trees, an automaton of five states whose last one is terminated, and one request without any."""
    source = np.random.default_rng(seed)
    child = np.full((num_requests, num_nodes), -1)
    sibling = np.full((num_requests, num_nodes), -1)
    for request in range(num_requests):
        for node in range(num_nodes - 1, 0, -1):
            parent = source.integers(max(0, node - reach), node)
            sibling[request, node] = child[request, parent]
            child[request, parent] = node
    transitions = source.integers(0, 5, (5, vocab))
    transitions[source.random((5, vocab)) < 0.3] = -1
    return {
        "transitions": transitions.astype(np.int32),
        "is_terminated": np.arange(5) == 4,
        "candidates": source.integers(0, vocab + 1, (num_requests, num_nodes)),
        "retrieve_next_token": child,
        "retrieve_next_sibling": sibling,
        "grammar_state": np.resize(np.array([0, 3, -1, 4], np.int32), num_requests),
    }


def chain(num_nodes, vocab=2):
    """Return a chain through an automaton that counts its nodes."""
    transitions = np.full((num_nodes, vocab), -1, np.int32)
    transitions[:-1, 1] = np.arange(1, num_nodes)
    return {
        "transitions": transitions,
        "is_terminated": np.zeros(num_nodes, np.bool_),
        "candidates": np.ones((1, num_nodes), np.int64),
        "retrieve_next_token": np.array([[*range(1, num_nodes), -1]]),
        "retrieve_next_sibling": np.full((1, num_nodes), -1),
        "grammar_state": np.zeros(1, np.int32),
    }


@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 3), (1, 1), (4, 2), (6, 9), (3, 40)])
@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 1000])
def test_masks(agrees, num_requests, num_nodes, vocab):
    for seed in range(3):
        agrees("generate_token_bitmask", **trees(num_requests, num_nodes, vocab, seed=seed))


def test_masks_of_several_programs(agrees, cut):
    cut(block=lambda size, most, interpreted: 1)
    agrees("generate_token_bitmask", **trees(3, 5, 70))


@pytest.mark.parametrize("held", [0, 4, 14, -1, 15])
def test_what_memory_held_before_decides_nothing(held):
    arguments = trees(3, 5, 70)
    arguments["transitions"][arguments["transitions"] > 0] = 3
    expected = reference.generate_token_bitmask(**arguments)

    def fill_scratch(launch):
        if "reach" in launch.plan.name:
            for memory in launch.scratch.values():
                memory.fill_(held)

    with launching(fill_scratch):
        masks = gpu.generate_token_bitmask(**{name: from_numpy(value) for name, value in arguments.items()})
    assert masks.tolist() == expected.tolist()


@pytest.mark.parametrize("num_nodes", [33, 129, pytest.param(1024, marks=ON_GPU)])
def test_deep_chains(agrees, num_nodes):
    agrees("generate_token_bitmask", **chain(num_nodes))


def test_bits_by_hand():
    arguments = chain(3, vocab=34)
    arguments["transitions"][1, [31, 33]] = 0
    arguments["is_terminated"][2] = True
    masks = gpu.generate_token_bitmask(**{name: from_numpy(value) for name, value in arguments.items()})
    assert masks.tolist() == [[2, 0], [2 - 2**31, 2], [-1, -1]]


def test_views(agrees):
    drawn = trees(3, 7, 40)
    wide = {name: np.repeat(value, 2, axis=-1)[..., ::2] for name, value in drawn.items()}
    agrees("generate_token_bitmask", **wide)


def test_malformed_links_neither_hang_nor_leave_the_request(rejection):
    arguments = trees(3, 6, 33)
    expected = masks_of(arguments)
    for links in ([0] * 6, [1, 2, 3, 1, 2, 3], [99, -7, 6, -2, 2**40, 5]):
        arguments["retrieve_next_token"][1] = links
        arguments["retrieve_next_sibling"][1] = links
        assert masks_of(arguments)[::2].tolist() == expected[::2].tolist()
    arguments["retrieve_next_token"][1] = [1, 2, 3, 1, -1, -1]
    arguments["retrieve_next_sibling"][1] = -1
    assert rejection("generate_token_bitmask", **arguments) is Reason.CYCLIC_TREE


def masks_of(arguments):
    carried = {name: from_numpy(value.copy()) for name, value in arguments.items()}
    return gpu.generate_token_bitmask(**carried).reshape(3, -1)


@ON_GPU
def test_large_vocabularies(agrees):
    agrees("generate_token_bitmask", **trees(64, 32, 152_064))
    agrees("generate_token_bitmask", **trees(8, 1024, 33, reach=1024))
