"""Every worker of the reference is one of two loops with a draft side; a side that is brought alone runs in both."""

import pytest

from specsim.algorithms import DRAFTERS, WORKERS
from specsim.host.ngram import NgramParameters
from specsim.reference.models import load_model
from specsim.reference.worker.sides.ngram import NgramSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request
from tests.worker_sides import suffix_side


def test_every_side_runs_in_both_loops():
    made = {name: loop_of(name) for name in WORKERS}
    loops = {(make.keywords["make_side"].__name__, make.func) for make in made.values()}
    sides = {one.side.rpartition(".")[2] for one in DRAFTERS.values()}
    assert loops == {(side, loop) for side in sides for loop in (ReferenceWorkerV1, ReferenceWorker)}
    assert len({make.func.decode for make in made.values()}) == 2


@pytest.mark.parametrize("page_size", [1, 3])
@pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker], ids=["V1", "V2"])
def test_a_side_of_ones_own_runs_in_both_loops(loop, page_size):
    asked = [Request(number, [1, 2, 3] * 3, 12 + number) for number in range(4)]
    parameters = NgramParameters(num_draft_tokens=4)
    sizes = sizes_for(parameters.config, asked, 3, page_size)
    worker = loop(parameters, load_model(HashModel(4, 3, 0.7)), sizes, make_side=suffix_side(NgramSide))
    report = simulate(worker, asked, max_batch=3)
    assert report.lossless
    assert report.num_accepted_drafts > 0
