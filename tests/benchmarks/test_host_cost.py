"""What a call costs on the host; ``make bench`` runs this with pytest-benchmark, ``make test`` runs each body once."""

import numpy as np
import pytest

from specsim import gpu
from specsim.conformance.backend import load
from specsim.contracts.binding import bind
from specsim.gpu.arrays import from_numpy
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.reference import build_tree
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel

CHAIN = {
    "bonus_tokens": np.array([5, 6], np.int32),
    "parent_list": np.array([[-1, 0, 1], [-1, 0, 1]]),
    "top_scores_index": np.array([[0, 1, 2], [0, 1, 2]]),
    "draft_tokens": np.array([[7, 8, 9], [7, 8, 9]]),
    "seq_lens": np.array([3, 4]),
    "topk": 1,
    "num_steps": 3,
    "num_draft_tokens": 4,
    "mask_mode": 1,
    "seq_lens_sum": 7,
}


@pytest.fixture(scope="module", autouse=True)
def agreement_is_green():
    agreement = property_named("agreement.build_tree")
    report, failure = run_property(agreement, load("specsim.gpu"), seed=0, max_examples=10)
    assert report.examples >= 10
    assert failure is None, "nothing is measured while agreement is red"


def test_binding_a_contract(benchmark):
    axes = benchmark(bind, "build_tree", RECORDS["build_tree"].contract, CHAIN)
    assert (axes["request"], axes["node"]) == (2, 4)


def test_launching_a_kernel(benchmark):
    arguments = {name: from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in CHAIN.items()}
    outputs = benchmark(gpu.build_tree, **arguments)
    assert len(outputs) == 6


def test_the_reference_on_a_small_batch(benchmark):
    draft_token, *_ = benchmark(build_tree, **CHAIN)
    assert draft_token.tolist() == [5, 7, 8, 9, 6, 7, 8, 9]


def test_autoregressive_ground_truth(benchmark):
    output = benchmark(greedy_decode, HashModel(64), [1, 2, 3], 8)
    assert len(output) == 8
