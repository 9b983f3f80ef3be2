"""The device's V1 worker beside the reference's and beside V2: eager, padded and in graphs."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import debugging, simulating_graphs
from specsim.gpu.worker import ends
from specsim.gpu.worker.carried import Carried, WaitingBatch
from specsim.gpu.worker.transfer import download, upload
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.properties.runs.choices import Automaton
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from tests.gpu.worker.v1_runs import CHAIN, PERFECT, joining_and_leaving, mixed_requests, pair, requests

HAS_GPU = DEVICE.type == "cuda"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="CUDA graphs exist on a GPU only")
TREE = SpecConfig(2, 2, 5)
SHAPES = [TREE, CHAIN, SpecConfig(4, 5, 16), SpecConfig(16, 5, 64)]
ADAPTIVE = AdaptiveConfig((AdaptiveSlot(1, (1, 2)),), alpha=0.5, warmup=0, interval=1)
EXACT, PADDED, GRAPHS = {"use_graphs": False}, {"use_graphs": False, "pads": True}, {"use_graphs": True}


@pytest.mark.parametrize("options", [PADDED, pytest.param(GRAPHS, marks=needs_gpu)], ids=["padded", "graphs"])
def test_every_phase_and_state_of_trees_that_share_a_prefix_is_that_of_the_reference(options):
    asked = [Request(one, [5, 7, 3, 9][: 2 + one], 3 + one % 2) for one in range(3)]
    both = pair(TREE, asked, 2, schedule=Schedule(has_prefix_cache=True), **options)
    both.play(asked, [0, 0, 1])
    assert both.seen >= {Tag.PREFIX, Tag.REJECTED, Tag.RAGGED, Tag.HISTORY}


@pytest.mark.parametrize("options", [EXACT, pytest.param(GRAPHS, marks=needs_gpu)], ids=["exact", "graphs"])
def test_requests_that_give_way_in_the_middle_lose_nothing(options):
    """Prompts run in chunks beside decodes, steps change, and the pool is too small for both requests."""
    config = SpecConfig(1, 2, 3)
    asked = [Request(one, [one, 7, 3, 5][: 3 + one], 7) for one in range(2)]
    sizes = sizes_for(config, asked, 2)
    both = pair(
        config,
        asked,
        2,
        HashModel(32, 1, 0.9),
        sizes=replace(sizes, num_slots=sizes.num_slots - 14),
        schedule=Schedule(prefill_chunk=4, promised=Fraction(0)),
        adaptive=lambda: AdaptiveController(1, ADAPTIVE),
        **options,
    )
    widths = set()
    right = both.engines[1].worker
    decode = right.decode

    def recorded(rows, num_steps=None):
        widths.add(num_steps)
        return decode(rows, num_steps)

    right.decode = recorded
    both.play(asked)
    assert widths == {1, 2}
    assert both.seen >= {Tag.CHUNK, Tag.RETRACT}


@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_every_shape_is_that_of_the_reference(config, options):
    asked = requests(9, 12)
    pair(config, asked, 5, **options).play(asked, [number % 4 for number in range(9)])


@needs_gpu
@pytest.mark.parametrize("batch", [1, 2, 3, 8, 17, 64, 129])
def test_every_batch_size_is_that_of_the_reference(batch):
    asked = requests(batch, 6)
    for options in (EXACT, GRAPHS):
        pair(SpecConfig(4, 3, 8), asked, batch, **options).play(asked)


@pytest.mark.parametrize(
    ("config", "options"),
    [(TREE, EXACT), pytest.param(TREE, GRAPHS, marks=needs_gpu), pytest.param(CHAIN, GRAPHS, marks=needs_gpu)],
)
def test_every_phase_and_count_of_a_request_is_that_of_v2(config, options):
    asked = requests(3, 3) if not HAS_GPU else requests(17, 12)
    pair(config, asked, 3, believed=ReferenceWorker, **options).play(asked)


@pytest.mark.parametrize(
    ("config", "options"),
    [(TREE, PADDED), pytest.param(TREE, GRAPHS, marks=needs_gpu), pytest.param(CHAIN, GRAPHS, marks=needs_gpu)],
)
def test_sampled_and_constrained_requests_are_those_of_the_reference(config, options):
    asked = mixed_requests(3, 3) if not HAS_GPU else mixed_requests(17, 12)
    pair(config, asked, 3, **options).play(asked)


@pytest.mark.parametrize("options", [EXACT, pytest.param(GRAPHS, marks=needs_gpu)], ids=["exact", "graphs"])
def test_requests_leave_and_join_and_the_host_waits_once(options, monkeypatch):
    asked, delays = joining_and_leaving()
    both = pair(CHAIN, asked, 2, PERFECT, **options)
    downloads, seen = [], []

    def counted(tensors):
        downloads.append(len(tensors))
        return download(tensors)

    monkeypatch.setattr(ends, "download", counted)
    worker = both.engines[1].worker
    decode = worker.decode

    def recorded(rows, num_steps=None):
        with debugging(options is EXACT):
            iteration = decode(rows, num_steps)
        seen.append((len(rows), len(worker.phases()[3].seq_lens)))
        return iteration

    worker.decode = recorded
    both.play(asked, delays)
    assert seen == [(2, 1), (2, 0), (1, 0)]
    assert downloads == [3] * len(seen)


@pytest.mark.parametrize("has_dp_attention", [False, True])
def test_an_idle_extend_runs_where_other_ranks_wait_for_it(has_dp_attention):
    asked = [Request(0, [1, 2], 3)]
    worker = GpuWorkerV1(
        CHAIN,
        load_on_device(PERFECT),
        sizes_for(CHAIN, asked, 1),
        use_graphs=False,
        has_dp_attention=has_dp_attention,
    )
    engine = Engine(worker, 1)
    engine.submit(asked[0])
    forwards = []
    extend = worker.model.draft_extend
    worker.model.draft_extend = lambda batch, kv: (forwards.append(len(batch.input_ids)), extend(batch, kv))[1]
    engine.step()
    assert asked[0].finish is not None
    assert forwards == ([2, 0] if has_dp_attention else [2])
    assert worker._waiting.carried.rows == ()
    assert worker._waiting.carried.phase.topk_index.shape == (0, 1)


def synchronisations(engine):
    """Step to the end after the first prefill; return how often each step waited for the device, or was about to."""
    engine.step()
    found = []
    while engine.has_work:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                engine.step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        found.append(sum("called a synchronizing" in str(one.message) for one in caught))
    return found


@pytest.mark.usefixtures("unguarded")
@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("is_constrained", [False, True], ids=["free", "grammar"])
def test_an_iteration_synchronises_exactly_once(config, options, is_constrained):
    """And once more where grammars look at the trees; requests end one after another."""
    grammar = Automaton(32, 3, 0.75, 99, 5).start if is_constrained else None
    asked = [Request(number, [number, 7], 20 + 9 * number, grammar=grammar) for number in range(4)]
    engine = pair(config, asked, 4, **options).engines[1]
    for request in asked:
        engine.submit(request)
    found = synchronisations(engine)
    assert found == [2 if is_constrained else 1] * len(found)
    assert len(found) > 3


def test_what_goes_up_comes_down_as_it_is():
    arrays = [[3, 1], [], np.arange(20).reshape(4, 5)]
    uploaded = upload(arrays, DEVICE)
    assert [one.tolist() for one in uploaded] == [[3, 1], [], list(range(20))]
    assert all(one.data_ptr() % 16 == 0 for one in uploaded)
    got = download([uploaded[2].int().view(4, 5), uploaded[1].int(), uploaded[0].int()])
    assert [one.shape for one in got] == [(4, 5), (0,), (2,)]
    assert (got[0] == arrays[2]).all()
    assert got[2].tolist() == [3, 1]


def test_a_row_that_was_prefilled_again_is_the_request_that_joins_with_it():
    """A request gave way, and its row went to another: what was carried for it is dropped by its place."""
    worker = pair(CHAIN, requests(3), 3, use_graphs=False).engines[1].worker
    waiting = WaitingBatch(worker.side.facts, worker.sizes)

    def carried(*rows):
        idle = waiting.carried.phase
        values = torch.tensor(rows, device=DEVICE)
        filled = {
            name: torch.zeros(
                (len(rows), *getattr(idle, name).shape[1:]), dtype=getattr(idle, name).dtype, device=DEVICE
            )
            for name in ("topk_p", "topk_index", "hidden_states", "bonus_tokens")
        }
        return Carried(rows, replace(idle, req_pool_indices=values % 10, seq_lens=values, **filled))

    first, joining = carried(1, 2, 3), carried(12)
    waiting.keep(first.phase, rows=(1, 2, 3))
    waiting.keep(joining.phase, joins=True, rows=(2,))
    assert waiting.take([1, 3, 2]).seq_lens.tolist() == [1, 3, 12]
    assert waiting.joining.rows == ()


def test_graphs_without_a_gpu_are_refused():
    if HAS_GPU:
        pytest.skip("there is a GPU")
    with simulating_graphs(False), pytest.raises(SpecRejection) as caught:
        pair(TREE, requests(1), 1, use_graphs=True)
    assert caught.value.reason is Reason.WRONG_DEVICE
