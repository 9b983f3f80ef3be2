"""Acceptance by position against numbers counted by hand, and what engines of every width count."""

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.host.ngram import NgramParameters
from specsim.host.positions import PositionCounters, count_positions
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.worker import Proposals

MODEL = HashModel(8, 3, 0.8)


def test_five_verifies_of_four_widths():
    """Three chains of depth 3, one of depth 1, and one that proposes nothing."""
    counters = count_positions(PositionCounters(), [3, 3, 0], [3, 3, 0], [3, 1, 0])
    counters = count_positions(counters, [1, 3], [1, 3], [1, 0])
    assert counters == PositionCounters(4, 10, 5, (3, 1, 1), (4, 2, 1))
    assert counters.public() == {
        "num_drafts": 4,
        "num_draft_tokens": 10,
        "num_accepted_tokens": 5,
        "num_accepted_tokens_per_pos": [3, 1, 1],
        "mean_acceptance_length": 2.25,
        "draft_acceptance_rate": 0.5,
        "per_position_acceptance_rate": [0.75, 0.25, 0.25],
        "conditional_acceptance_rate": [0.75, 0.5, 1.0],
    }


def test_without_a_verify_everything_is_zero_but_the_length_which_is_one():
    nothing = count_positions(PositionCounters(), [0, 0], [0, 0], [0, 0])
    assert nothing == PositionCounters()
    public = nothing.public()
    assert public.pop("mean_acceptance_length") == 1.0
    assert set(map(str, public.values())) == {"0", "0.0", "[]"}


def requests():
    return [Request(number, [number, 1, 2], 12) for number in range(3)]


@pytest.mark.parametrize("config", [SpecConfig(1, 3, 4), SpecConfig(2, 3, 7)], ids=["chain", "tree"])
@pytest.mark.parametrize("make", [ReferenceWorkerV1, ReferenceWorker])
def test_an_engine_counts_what_its_requests_count(make, config):
    asked = requests()
    engine = Engine(make(config, load_model(MODEL), sizes_for(config, asked, 2)), 2, decode_log_interval=10**6)
    for request in asked:
        engine.submit(request)
    accepted = []
    while engine.has_work:
        iteration = engine.step()
        accepted += [] if iteration is None else iteration.num_accepted_drafts.tolist()
    count = len(accepted)
    expected = count_positions(PositionCounters(), [config.num_draft_tokens - 1] * count, [3] * count, accepted)
    assert engine.positions == expected
    assert (expected.num_accepted_drafts, count) == (engine.counters.num_accepted_drafts, engine.counters.num_verifies)


@pytest.mark.parametrize("make", [loop_of("ngram"), loop_of("ngram_v2")])
def test_trees_of_a_store_are_as_deep_as_it_knows(make):
    parameters, asked = NgramParameters(max_depth=5, max_breadth=3, num_draft_tokens=6), requests()
    worker = make(parameters, load_model(MODEL), sizes_for(parameters.config, asked, 2))
    engine = Engine(worker, 2)
    for request in asked:
        engine.submit(request)
    counters, depths = PositionCounters(), set()
    while engine.has_work:
        iteration = engine.step()
        if iteration is not None:
            phase = worker.phases()[0]
            levels = (phase.positions.reshape(-1, 6).max(axis=1) - phase.seq_lens).tolist()
            depths |= set(levels)
            counters = count_positions(counters, [5] * len(levels), levels, iteration.num_accepted_drafts.tolist())
    assert engine.positions == counters
    assert len(depths) > 1


def test_every_step_counts_with_the_depth_that_it_drafted():
    config, asked = SpecConfig(1, 3, 4), requests()
    controller = AdaptiveController(3, AdaptiveConfig((AdaptiveSlot(1, (0, 1, 3)),), warmup=2, interval=2, ceiling=1.0))
    worker = ReferenceWorker(config, load_model(HashModel(8, 3, num_right=1)), sizes_for(config, asked, 2))
    engine = Engine(worker, 2, adaptive=controller)
    for request in asked:
        engine.submit(request)
    counters, depths = PositionCounters(), set()
    while engine.has_work:
        iteration = engine.step()
        if iteration is not None:
            depth, accepted = worker.phases()[1].num_draft_tokens - 1, iteration.num_accepted_drafts.tolist()
            counters = count_positions(counters, [depth] * len(accepted), [depth] * len(accepted), accepted)
            depths.add(depth)
    assert engine.positions == counters
    assert len(depths) > 1


def test_proposals_of_trees_lie_on_the_levels_of_their_nodes():
    chain, star, lost = [0, 1, 2], [0, 1, 1], [0, 1, 0]
    assert Proposals.of_depths(np.array([chain, star, lost])) == Proposals((2, 2, 2), (2, 1, 1))
    assert Proposals.of_depths(np.array([chain, star, chain]), [1, 2, 0]) == Proposals((1, 2, 0), (1, 1, 0))
    assert Proposals.of_depths(np.zeros((1, 1), dtype=np.int64)) == Proposals((0,), (0,))
