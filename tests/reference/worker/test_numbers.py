"""Requests of one batch draft none, one and all steps, anew in each iteration, on every drafter and both loops."""

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.counts import path_width
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.drafted import ALL_WORKERS, drafted_by
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag, ignore
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.numbers import DrawnNumbers
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

BACKEND = load("specsim.reference")
CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(2, 3, 7)
MODEL = HashModel(32, 5, 1.0)
ARRIVALS = tuple(Arrival((number, 7, 1), 14, None, 0) for number in range(3))
WORKERS = pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker], ids=["v1", "v2"])


def numbered(name, config, pattern=(0, 1, MOST), observer=ignore, **changes):
    """Return a play whose requests draft numbers of their own."""
    scenario = scenario_of(config, MODEL, ARRIVALS, 3, 4, num_drafts=PatternNumbers(pattern), **changes)
    return Play(drafted_by(name, scenario), observer=observer)


def iterations_of(play):
    """Run to the end; yield every iteration with the numbers that its requests drafted."""
    for number, iteration in enumerate(play.iterations()):
        play.engine.scheduler.check_ledger()
        yield iteration, play.numbers.calls[number][1]
    play.require_outputs()


def all_within(iteration, numbers):
    """Return whether no one accepts more than it drafts."""
    counts = iteration.num_accepted_drafts.tolist()
    return all(count <= most for count, most in zip(counts, numbers, strict=True))


@pytest.mark.filterwarnings("ignore:.*recurrent state:UserWarning")
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("name", ALL_WORKERS)
def test_every_drafter_takes_none_one_and_all(name, config, page_size):
    play = numbered(name, config, page_size=page_size)
    played = list(iterations_of(play))
    assert all(all_within(*one) for one in played)
    numbers = [numbers for _, numbers in played]
    assert [sorted(one) for one in numbers].count([0, 1, play.scenario.config.num_steps]) >= 3


@pytest.mark.parametrize("name", ["eagle_v2", "dflash_v2", "ngram_v2", "multi_layer_eagle_v2", "frozen_kv_mtp_v2"])
def test_numbers_are_launched_ahead(name):
    assert all(all_within(*one) for one in iterations_of(numbered(name, CHAIN, is_overlapped=True)))


@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("name", [name for name in ALL_WORKERS if not name.startswith("ngram")])
def test_a_perfect_draft_is_accepted_as_far_as_it_goes(name, config):
    """What follows a rest is what it would have been without."""
    # NOTE: no request ends in the first iterations, which is why none of them cuts what it accepts.
    for iteration, numbers in [*iterations_of(numbered(name, config))][:3]:
        assert iteration.num_accepted_drafts.tolist() == numbers


@pytest.mark.parametrize("name", ALL_WORKERS)
@pytest.mark.parametrize("number", [0, 1])
def test_one_number_is_that_of_every_request(name, number):
    """A number for all is the same whether it is said once or for each."""
    played = []
    for says_once in (False, True):
        play = numbered(name, CHAIN, (number,))
        worker = play.worker
        if says_once:
            decode = worker.decode
            worker.decode = lambda rows, num_steps, decode=decode: decode(rows, num_steps[0])
        phases = [[vars(one) for one in worker.phases()] for _ in play.iterations()]
        played.append((phases, [one.output for one in play.finished], play.engine.positions))
    for one, other in zip(*(phases for phases, *_ in played), strict=True):
        np.testing.assert_equal(one, other)
    assert played[0][1:] == played[1][1:]


@WORKERS
def test_nodes_beyond_a_number_are_no_drafts(loop):
    play = numbered("eagle_v1" if loop.is_v1 else "eagle_v2", CHAIN)
    seen = set()
    for _, numbers in iterations_of(play):
        phase = play.last_verify_input()
        width = phase.num_draft_tokens
        assert width == path_width(max(numbers))
        tokens = phase.draft_token.reshape(-1, width)
        for request, number in enumerate(numbers):
            expected = [*range(1, number + 1), *[-1] * (width - number)]
            assert phase.retrieve_next_token[request].tolist() == expected
            assert not tokens[request, number + 1 :].any()
            seen.add(number)
    assert seen == {0, 1, 3}


@WORKERS
def test_figures_are_over_the_drafts_that_there_were(loop):
    reach, num_drafts = Reach(), 0
    play = numbered("eagle_v1" if loop.is_v1 else "eagle_v2", TREE, observer=reach)
    for _, numbers in iterations_of(play):
        phase = play.last_verify_input()
        depths = phase.positions.reshape(len(numbers), -1) - phase.seq_lens[:, None]
        num_drafts += sum(int(((one > 0) & (one <= most)).sum()) for one, most in zip(depths, numbers, strict=True))
    assert play.engine.positions.num_proposed_drafts == num_drafts
    proposing = sum(most > 0 for _, numbers in play.numbers.calls for most in numbers)
    assert play.engine.positions.num_proposing == proposing
    assert all(reach.counts[tag] for tag in (Tag.MIXED, Tag.RESTING, Tag.NARROWER, Tag.WIDER))


@pytest.mark.parametrize("name", ["eagle_v1", "eagle_v2"])
def test_sampled_requests_go_the_same_way_alone(name):
    """A number is a request's own, and so are its coins: neighbours with other numbers change nothing."""
    asked = [Request(number, (number, 3), 12, sampling=SamplingParameters(0.9, seed=number)) for number in range(3)]
    for config in (CHAIN, TREE):
        workers = [numbered(name, config).worker for _ in range(2)]
        report = simulate(
            workers[0], asked, max_batch=3, alone=workers[1], schedule=Schedule(num_drafts=DrawnNumbers(3))
        )
        assert report.reproducible
        asked = [one.fresh() for one in asked]


def test_numbers_are_drawn_from_none_to_the_most():
    asked = [Request(number, (1,), 3) for number in range(200)]
    numbers = DrawnNumbers(5)(asked, 3)
    assert set(numbers) == {0, 1, 2, 3}
    assert numbers == [DrawnNumbers(5)([one], 3)[0] for one in asked]
    assert set(DrawnNumbers(5)(asked, 0)) == {0}


@WORKERS
@pytest.mark.parametrize(
    ("numbers", "reason", "what"),
    [
        ([1], Reason.INCONSISTENT_LENGTHS, "len(num_steps)"),
        ([0, 4], Reason.BAD_CONFIGURATION, "num_steps[1]"),
        ([-1, 0], Reason.BAD_CONFIGURATION, "num_steps[0]"),
    ],
)
def test_other_numbers_are_refused_before_anything_runs(loop, numbers, reason, what):
    worker = loop(CHAIN, load_model(MODEL), sizes_for(CHAIN, [Request(0, (1,), 3)], 3))
    Engine(worker, 3)
    with pytest.raises(SpecRejection) as caught:
        worker.decode([1, 2], numbers)
    assert (caught.value.reason, caught.value.what) == (reason, what)


class OneForAll(ReferenceWorker):
    """A worker that takes one number for all requests."""

    mixes_drafts = False


def test_workers_that_do_not_mix_are_not_asked_to():
    worker = OneForAll(CHAIN, load_model(MODEL), sizes_for(CHAIN, [Request(0, (1,), 3)], 3))
    with pytest.raises(SpecRejection) as caught:
        Engine(worker, 3, schedule=Schedule(num_drafts=PatternNumbers((0, 1))))
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "num_drafts")


def test_an_engine_asks_for_one_number_a_request():
    worker = ReferenceWorker(CHAIN, load_model(MODEL), sizes_for(CHAIN, [Request(0, (1,), 3)], 3))
    engine = Engine(worker, 3, schedule=Schedule(num_drafts=lambda requests, most: [most + 1]))
    engine.submit(Request(0, (1,), 3))
    with pytest.raises(SpecRejection) as caught:
        engine.run()
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "num_steps[0]")
