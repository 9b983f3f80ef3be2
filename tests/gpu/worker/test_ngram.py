"""The device's NGRAM worker beside the reference's: eager, padded and in graphs, on slots and pages."""

import warnings
from dataclasses import replace

import pytest
import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import simulating_graphs
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.reference.models import load_model
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.loops import loop_of
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.ngram import figures_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from tests.gpu.worker.v1_runs import Pair

HAS_GPU = DEVICE.type == "cuda"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="CUDA graphs exist on a GPU only")
SMALL = NgramParameters(max_depth=4, max_breadth=3, capacity=12, num_draft_tokens=5)
WIDE = NgramParameters(num_draft_tokens=16)
CORPORA = replace(SMALL, corpora=(((1, 2, 0, 1, 1, 2, 2, 0, 1),),), corpus_budget=2)
MODEL = HashModel(3, 5, 0.8)
V1, V2 = (loop_of("ngram"), loop_of("ngram", "gpu")), (loop_of("ngram_v2"), loop_of("ngram_v2", "gpu"))
EXACT, PADDED, GRAPHS = {"use_graphs": False}, {"use_graphs": False, "pads": True}, {"use_graphs": True}
IN_GRAPHS = pytest.param(GRAPHS, marks=needs_gpu, id="graphs")


def beside(asked, max_batch, parameters=SMALL, model=MODEL, page_size=1, schedule=None, kinds=V1, **options):
    schedule = Schedule() if schedule is None else schedule
    sizes = sizes_for(parameters.config, asked, max_batch, page_size, schedule=schedule)
    believed, own = kinds
    workers = [
        believed(parameters, load_model(model), sizes),
        own(parameters, load_on_device(model), sizes, **options),
    ]
    seen = set()
    engines = [Engine(one, max_batch, shuffle_seed=5, schedule=schedule, observer=seen.add) for one in workers]
    return Pair(engines, first_divergence, seen)


def of_few_tokens(number, length):
    return [Request(one, [one % 3, 1, 2, 1][: 1 + one % 4], length + one % 3) for one in range(number)]


@pytest.mark.parametrize("options", [pytest.param(EXACT, id="exact"), pytest.param(PADDED, id="padded"), IN_GRAPHS])
@pytest.mark.parametrize(("page_size", "kinds"), [(1, V1), (4, V1), (3, V2)], ids=["slots", "pages", "V2"])
def test_every_phase_and_state_is_that_of_the_reference(page_size, kinds, options):
    asked = of_few_tokens(3, 6)
    both = beside(asked, 3, CORPORA, page_size=page_size, kinds=kinds, **options)
    both.play(asked, [0, 0, 2])
    stores = [figures_of(engine.worker) for engine in both.engines]
    assert stores[0]["num_forgotten"] == stores[1]["num_forgotten"] > 0
    assert both.seen >= {Tag.REJECTED, Tag.RAGGED}
    for request in both.engines[1].scheduler.finished:
        assert request.output == greedy_decode(MODEL, request.prompt, request.max_new_tokens)


@pytest.mark.parametrize("options", [pytest.param(PADDED, id="padded"), IN_GRAPHS])
def test_what_is_sampled_constrained_or_reported_is_that_of_the_reference(options):
    asked = [
        Request(0, [1, 2], 5, sampling=SamplingParameters(1.2, seed=3), top_logprobs=1),
        Request(1, [2], 5, processor=Shifted(1)),
        Request(2, [1], 4, grammar=Automaton(3, 2, 0.5, 99, 7).start),
    ]
    both = beside(asked, 3, **options)
    both.play(asked)
    reported = [[len(one.logprobs) for one in engine.scheduler.finished] for engine in both.engines]
    assert reported[0] == reported[1] and max(reported[0]) > 0


@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("mode", TreeMode)
@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("kinds", [V1, V2], ids=["V1", "V2"])
def test_real_text_in_large_batches_is_that_of_the_reference(page_size, mode, options, kinds):
    text = default_text()[:20000]
    asked = requests_from_text(text, 9, 32, 40)
    parameters = NgramParameters(num_draft_tokens=16, mode=mode)
    both = beside(
        asked, 9, parameters, TextModel.from_text(text), page_size, Schedule(prefill_chunk=20), kinds, **options
    )
    both.play(asked, [0, 0, 0, 0, 1, 1, 2, 3, 9])
    assert sum(request.counters.num_accepted_drafts for request in both.engines[1].scheduler.finished) > 0


@pytest.mark.usefixtures("unguarded")
@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("kind", [V1[1], V2[1]])
def test_an_iteration_waits_for_the_device_once(page_size, options, kind):
    asked = of_few_tokens(4, 30)
    sizes = sizes_for(SMALL.config, asked, 4, page_size)
    worker = kind(SMALL, load_on_device(MODEL), sizes, **options)
    engine = Engine(worker, 4, shuffle_seed=5)
    for request in asked:
        engine.submit(request)
    engine.step()
    waits = []
    for _ in range(5):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                engine.step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits.append(sum("called a synchronizing" in str(one.message) for one in caught))
    assert waits == [1] * 5


@pytest.mark.skipif(HAS_GPU, reason="graphs can be captured on a GPU")
def test_graphs_are_refused_where_there_is_no_gpu():
    with simulating_graphs(False), pytest.raises(SpecRejection) as refusal:
        V1[1](SMALL, load_on_device(MODEL), sizes_for(SMALL.config, of_few_tokens(1, 4), 1), use_graphs=True)
    assert refusal.value.reason is Reason.WRONG_DEVICE
