"""The device's DFLASH worker beside the reference's: eager, padded and in graphs, on slots and pages."""

import warnings
from dataclasses import replace

import pytest
import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.host.dflash import DflashParameters
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Shifted
from specsim.reference.models import load_model
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.loops import loop_of
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from tests.gpu.worker.v1_runs import Pair

HAS_GPU = DEVICE.type == "cuda"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="CUDA graphs exist on a GPU only")
SMALL = DflashParameters(3, mask_token=2)
MODEL = HashModel(32, 5, 0.8, reads_all_layers=True)
EXACT, PADDED, GRAPHS = {"use_graphs": False}, {"use_graphs": False, "pads": True}, {"use_graphs": True}
IN_GRAPHS = pytest.param(GRAPHS, marks=needs_gpu, id="graphs")


IN_TURN, AHEAD = (loop_of("dflash"), loop_of("dflash", "gpu")), (loop_of("dflash_v2"), loop_of("dflash_v2", "gpu"))
KINDS = pytest.mark.parametrize("kinds", [IN_TURN, AHEAD], ids=["v1", "v2"])


def beside(asked, max_batch, parameters=SMALL, model=MODEL, page_size=1, schedule=None, kinds=IN_TURN, **options):
    schedule = Schedule() if schedule is None else schedule
    sizes = sizes_for(parameters.config, asked, max_batch, page_size, schedule=schedule)
    workers = [
        kinds[0](parameters, load_model(model), sizes),
        kinds[1](parameters, load_on_device(model), sizes, **options),
    ]
    seen = set()
    engines = [Engine(one, max_batch, shuffle_seed=5, schedule=schedule, observer=seen.add) for one in workers]
    return Pair(engines, first_divergence, seen)


def asked_of(number, length):
    return [Request(one, [one, 1, 2, 3, 9][: 2 + one], length + one) for one in range(number)]


@pytest.mark.parametrize(
    ("page_size", "options"),
    [
        pytest.param(1, EXACT, id="exact"),
        pytest.param(4, PADDED, id="padded"),
        pytest.param(1, GRAPHS, marks=needs_gpu, id="graphs"),
        pytest.param(4, GRAPHS, marks=needs_gpu, id="graphs-on-pages"),
    ],
)
@KINDS
def test_every_phase_and_state_is_that_of_the_reference(page_size, options, kinds):
    asked = asked_of(3, 5)
    both = beside(asked, 3, page_size=page_size, kinds=kinds, **options)
    both.play(asked, [0, 0, 2])
    assert both.seen >= {Tag.REJECTED, Tag.RAGGED}
    for request in both.engines[1].scheduler.finished:
        assert request.output == greedy_decode(MODEL, request.prompt, request.max_new_tokens)
        assert request.counters.num_accepted_drafts > 0
        assert (request.counters.histogram == ()) == (kinds == IN_TURN)


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        pytest.param(PADDED, IN_TURN, id="padded"),
        pytest.param(GRAPHS, IN_TURN, marks=needs_gpu, id="graphs"),
        pytest.param(GRAPHS, AHEAD, marks=needs_gpu, id="graphs-ahead"),
    ],
)
def test_what_is_sampled_or_processed_is_that_of_the_reference(options, kinds):
    """One request keeps as few tokens as it asks for, beside others that keep as few or are greedy."""
    asked = [
        Request(0, [1, 2], 3, sampling=SamplingParameters(1.2, top_k=3, seed=3)),
        Request(1, [2, 7], 3, processor=Shifted(1)),
        Request(2, [1, 4], 3, sampling=SamplingParameters(0.8, top_k=30, top_p=0.9, seed=4)),
    ]
    beside(asked, 3, kinds=kinds, **options).play(asked)


@pytest.mark.parametrize("options", [pytest.param(EXACT, id="exact"), IN_GRAPHS])
def test_windows_chunks_and_hits_are_those_of_the_reference(options):
    shared = list(range(9))
    asked = [Request(one, [*shared, one], 5) for one in range(2)]
    schedule = Schedule(prefill_chunk=4, has_prefix_cache=True)
    both = beside(asked, 2, DflashParameters(3, 2, 5), page_size=4, schedule=schedule, **options)
    both.play(asked, [0, 2])
    assert both.seen >= {Tag.PREFIX, Tag.CHUNK}


@pytest.mark.parametrize("kind", [PoolKind.MLA, PoolKind.QUANTISED])
def test_every_kind_of_draft_pool_holds_features(kind):
    asked = asked_of(1, 3)
    beside(asked, 1, DflashParameters(2), replace(MODEL, draft_pool=kind), use_graphs=False).play(asked)


@needs_gpu
@KINDS
@pytest.mark.parametrize("block_size", [2, 8, 16])
def test_blocks_of_real_text_are_those_of_the_reference(block_size, kinds):
    text = default_text()[:8000]
    asked = requests_from_text(text, 6, 24, 24)
    both = beside(
        asked,
        4,
        DflashParameters(block_size),
        replace(TextModel.from_text(text), reads_all_layers=True),
        4,
        kinds=kinds,
        use_graphs=True,
    )
    both.play(asked, [0, 0, 0, 1, 3, 5])


@pytest.mark.parametrize("options", [pytest.param(EXACT, id="exact"), IN_GRAPHS])
def test_overlapped_iterations_lose_nothing(options):
    asked, schedule = asked_of(3, 4), Schedule(True, 4, has_prefix_cache=True)
    sizes = sizes_for(SMALL.config, asked, 2, schedule=schedule)
    engine = Engine(AHEAD[1](SMALL, load_on_device(MODEL), sizes, **options), 2, schedule=schedule)
    for request in asked:
        engine.submit(request)
    for request in engine.run():
        assert request.output == greedy_decode(MODEL, request.prompt, request.max_new_tokens)


@pytest.mark.usefixtures("unguarded")
@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_an_iteration_waits_for_the_device_once(page_size, options):
    asked = asked_of(3, 30)
    sizes = sizes_for(SMALL.config, asked, 3, page_size)
    engine = Engine(IN_TURN[1](SMALL, load_on_device(MODEL), sizes, **options), 3, shuffle_seed=5)
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


def test_models_and_graphs_that_cannot_be_are_refused():
    sizes = sizes_for(SMALL.config, asked_of(1, 1), 1)
    with pytest.raises(SpecRejection) as caught:
        IN_TURN[1](SMALL, load_model(MODEL), sizes)
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "description.arrays")
    model = load_on_device(MODEL)
    model.description = replace(model.description, is_capturable=False)
    with pytest.raises(SpecRejection) as caught:
        IN_TURN[1](SMALL, model, sizes, use_graphs=True)
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "use_graphs")
