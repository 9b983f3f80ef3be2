"""The device's worker of FROZEN_KV_MTP beside the reference's: eager, padded and in graphs, and with planted faults."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import debugging
from specsim.gpu.worker.graphs import Kind
from specsim.gpu.worker.stages import SETTLING, Stages
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.reference.models import load_model
from specsim.rejection import SpecRejection
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.draft_sides.frozen_kv_mtp import FrozenSide
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import shared_kv
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from tests.gpu.worker.v1_runs import Pair, mixed_requests, requests

HAS_GPU = DEVICE.type == "cuda"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)
SHAPES = [TREE, CHAIN, SpecConfig(4, 5, 16), SpecConfig(16, 3, 64)]
MODEL = HashModel(32, 3, 0.8, kv_sharing=(1, 0))
EXACT, PADDED, GRAPHS = {"use_graphs": False}, {"use_graphs": False, "pads": True}, {"use_graphs": True}


def pair(config, asked, max_batch, model=MODEL, schedule=IN_TURN, page_size=1, num_fewer_slots=0, **options):
    sizes = sizes_for(config, asked, max_batch, page_size)
    sizes = replace(sizes, num_slots=sizes.num_slots - num_fewer_slots)
    workers = (
        loop_of("frozen_kv_mtp")(config, load_model(model), sizes),
        GpuWorkerV1(config, load_on_device(model), sizes, **{"make_side": FrozenSide, **options}),
    )
    seen = set()
    engines = [Engine(one, max_batch, shuffle_seed=5, schedule=schedule, observer=seen.add) for one in workers]
    return Pair(engines, first_divergence, seen)


@pytest.mark.parametrize("options", [PADDED, pytest.param(GRAPHS, marks=needs_gpu)], ids=["padded", "graphs"])
def test_every_phase_and_state_of_trees_that_share_a_prefix_is_that_of_the_reference(options):
    asked = [Request(one, [5, 7, 3, 9][: 2 + one], 3 + one % 2) for one in range(3)]
    both = pair(TREE, asked, 2, schedule=Schedule(has_prefix_cache=True), **options)
    both.play(asked, [0, 0, 1])
    assert both.seen >= {Tag.PREFIX, Tag.REJECTED}


@pytest.mark.parametrize("options", [EXACT, pytest.param(GRAPHS, marks=needs_gpu)], ids=["exact", "graphs"])
def test_chains_of_requests_that_give_way_lose_nothing(options):
    asked = [Request(one, [one, 7, 3, 5][: 3 + one], 6) for one in range(2)]
    schedule = Schedule(prefill_chunk=4, promised=Fraction(0))
    both = pair(CHAIN, asked, 2, schedule=schedule, num_fewer_slots=14, **options)
    with debugging(options is EXACT):
        both.play(asked)
    assert both.seen >= {Tag.CHUNK, Tag.RETRACT}


@pytest.mark.parametrize(
    ("config", "options"),
    [(TREE, PADDED), *(pytest.param(one, GRAPHS, marks=needs_gpu) for one in SHAPES)],
    ids=str,
)
def test_every_phase_of_v2_is_that_of_the_reference(config, options):
    asked = requests(2, 3) if not HAS_GPU else requests(17, 12)
    sizes = sizes_for(config, asked, 3)
    workers = (
        loop_of("frozen_kv_mtp_v2")(config, load_model(MODEL), sizes),
        loop_of("frozen_kv_mtp_v2", "gpu")(config, load_on_device(MODEL), sizes, **options),
    )
    Pair([Engine(one, 3, shuffle_seed=5) for one in workers], first_divergence, set()).play(asked)


@needs_gpu
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_every_shape_is_that_of_the_reference(config, options, page_size):
    asked = requests(9, 12)
    pair(config, asked, 5, page_size=page_size, **options).play(asked, [number % 4 for number in range(9)])


@needs_gpu
@pytest.mark.filterwarnings("ignore:.*recurrent state:UserWarning")
@pytest.mark.parametrize("kind", [PoolKind.MLA, PoolKind.DSA, PoolKind.QUANTISED, PoolKind.HYBRID])
def test_every_kind_of_pool_is_read_as_the_reference_reads_it(kind):
    asked = requests(5, 9)
    for options in (EXACT, GRAPHS):
        pair(TREE, asked, 3, replace(MODEL, target_pool=kind), **options).play(asked)


@needs_gpu
@pytest.mark.parametrize("batch", [1, 3, 17, 64])
def test_every_batch_size_is_that_of_the_reference(batch):
    asked = requests(batch, 6)
    pair(SpecConfig(4, 3, 8), asked, batch, **GRAPHS).play(asked)


@needs_gpu
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=str)
def test_sampled_and_constrained_requests_are_those_of_the_reference(config):
    asked = mixed_requests(17, 12)
    pair(config, asked, 3, **GRAPHS).play(asked)


def test_padded_rows_are_zeroed_whatever_was_drafted_before():
    worker = pair(TREE, requests(4), 4, **PADDED).engines[1].worker
    stages = Stages(worker._shared, Kind(2, False), SETTLING, worker._waiting.take([]), 4, is_v1=True)
    phase, window = stages._batch, stages._window
    for values in (*vars(phase).values(), window):
        if values is not None:
            values.fill_(7)
    one = replace(phase, **{name: values[:1].clone() for name, values in vars(phase).items() if values is not None})
    stages.load(one, window[:5].clone())
    for name, values in vars(phase).items():
        if values is not None:
            assert (values[:1] == 7).all(), name
            assert (values[1:] == (1 if name == "seq_lens" else 0)).all(), name
    assert not window[5:].any()


class SeedOfTheRoot(FrozenSide):
    """Starts the next draft from the first row of each request."""

    def extend_ragged(self, batch, pools):
        phase, counts = batch.info, batch.info.num_accepted_tokens.long()
        rows = torch.cumsum(counts, 0) - counts
        return self._seeds(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, phase.hidden_states, rows)


class LayersInTurn(FrozenSide):
    """Gives the draft's layers the target's from the first one on."""

    def _forward(self, batch, pools):
        description = self.facts.description
        in_turn = {layer: layer for layer in range(description.num_assistant_layers)}
        kv = shared_kv(replace(description, target_layer_of=in_turn), pools.kv[Side.TARGET])
        return self._model.draft_frozen(batch, kv)


class SeedOfTheFirstRow(FrozenSide):
    """Starts the first draft from the state of the first token of a batch of chunks."""

    def prefill(self, after, pools):
        return super().prefill(replace(after, last=torch.zeros_like(after.last)), pools)


FAULTS = {
    "seeds of the root": SeedOfTheRoot,
    "layers in turn": LayersInTurn,
    "first seeds of one row": SeedOfTheFirstRow,
    "an old batch was replayed": None,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    side = FAULTS[fault] or FrozenSide
    if side is FrozenSide:
        monkeypatch.setattr(Stages, "load", lambda *_: None)
    asked = [Request(0, [1, 5, 9], 12), Request(1, [2, 4], 12)]
    perfect = HashModel(32, 3, 1.0, kv_sharing=(1, 0))
    both = pair(CHAIN, asked, 2, perfect, use_graphs=HAS_GPU, pads=True, make_side=side)
    with pytest.raises((AssertionError, SpecRejection)):
        both.play(asked)


def test_what_is_carried_is_what_the_target_says_of_the_last_key():
    """And nothing of the KV is the draft's: the worker has no buffers of that side."""
    both = pair(CHAIN, [Request(0, [1, 5], 12)], 1, **EXACT)
    state = both.engines[1].worker.state()
    assert state["draft_kv"] == []
    assert state["hidden_states"].shape == (2, 3) and state["hidden_states"].dtype == np.int64
