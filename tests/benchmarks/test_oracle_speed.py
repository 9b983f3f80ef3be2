"""How fast the oracle decodes: ``make bench`` prints it; elsewhere bodies run once, shorter, and nothing is timed."""

import time

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.running import run_property
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation import report as runs
from specsim.simulation.engine import Engine
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.pools import sizes_for

# NOTE: seconds of the processor, which say the same while other processes are at work.
pytestmark = pytest.mark.benchmark(timer=time.process_time)

TREE, WIDE_TREE = SpecConfig(4, 5, 16), SpecConfig(8, 8, 64)
CHECKED = ("engine.output_equals_autoregressive_decoding", "reads.kept_reads_are_full_reads")
NUM_ROUNDS = 40
SHORTER_UNTIMED = 8
"""How many times shorter whole runs are that are not timed: what they assert holds or fails of any length."""

TEXT = default_text()


@pytest.fixture(scope="module")
def text_model():
    return TextModel.from_text(TEXT)


@pytest.fixture(scope="module", autouse=True)
def agreement_is_green():
    for one in all_properties():
        if one.name in CHECKED:
            _, failure = run_property(one, load("specsim.reference"), seed=0, max_examples=3)
            assert failure is None, f"nothing is measured while {one.name} is red"


def prompts(count, length, max_new_tokens):
    return runs.requests_from_text(TEXT, count, length, max_new_tokens)


@pytest.mark.parametrize("reads", [Reads.KEPT, Reads.FULL], ids=["kept", "full"])
@pytest.mark.parametrize("length", [100, 1024])
def test_a_decode_iteration_of_eight_requests(benchmark, text_model, length, reads):
    asked = prompts(8, length, 6 * (NUM_ROUNDS + 2))
    engine = Engine(ReferenceWorker(TREE, load_model(text_model), sizes_for(TREE, asked, 8), reads=reads), 8, 0)
    for request in asked:
        engine.submit(request)
    engine.step()
    iteration = benchmark.pedantic(engine.step, rounds=NUM_ROUNDS, warmup_rounds=1)
    assert len(iteration.num_accepted_tokens) == len(engine.scheduler.running) == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "count", "max_new_tokens"),
    [(TREE, 8, 1024), (WIDE_TREE, 64, 32)],
    ids=["8 requests of 1,024 tokens", "64 requests, 64 nodes"],
)
def test_a_whole_run_beside_its_ground_truth(request, benchmark, text_model, config, count, max_new_tokens):
    if not request.config.getoption("benchmark_only"):
        max_new_tokens //= SHORTER_UNTIMED

    def run():
        asked = prompts(count, 32, max_new_tokens)
        sizes = sizes_for(config, asked, count)
        worker = ReferenceWorker(config, load_model(text_model), sizes, reads=Reads.KEPT)
        return runs.simulate(worker, asked, max_batch=count, shuffle_seed=0)

    report = benchmark.pedantic(run, rounds=1)
    assert report.lossless
    assert report.output_tokens == count * max_new_tokens
