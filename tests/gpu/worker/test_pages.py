"""Both workers of the device on pages beside those of the reference: chains, trees, cached prefixes, graphs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import debugging
from specsim.gpu.worker import ends, pools, reclaim
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.transfer import download
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import SpecRejection
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.models.description import Side
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from tests.gpu.worker.test_v1 import synchronisations
from tests.gpu.worker.v1_runs import CHAIN, MODEL, Pair, mixed_requests, pair
from tests.worker_faults import moving_no

HAS_GPU = DEVICE.type == "cuda"
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="CUDA graphs exist on a GPU only")
TREE = SpecConfig(2, 2, 5)
EXACT, PADDED, GRAPHS = {"use_graphs": False}, {"use_graphs": False, "pads": True}, {"use_graphs": True}
SHARED = Schedule(has_prefix_cache=True)
SHAPES = [TREE, CHAIN, SpecConfig(4, 5, 16), SpecConfig(16, 3, 40)]


def sizes_of(config, asked, max_batch, page_size, num_fewer_slots):
    """Return pools that hold all requests, or so many slots less."""
    sizes = sizes_for(config, asked, max_batch, page_size)
    return replace(sizes, num_slots=sizes.num_slots - num_fewer_slots)


def v1_on_pages(config, asked, max_batch, page_size, schedule=SHARED, num_fewer_slots=0, **options):
    sizes = sizes_of(config, asked, max_batch, page_size, num_fewer_slots)
    return pair(config, asked, max_batch, sizes=sizes, schedule=schedule, **options)


class PairOfV2(Pair):
    """Two engines of V2, whose maps and pools are compared after every step, but for what padding writes."""

    def play(self, asked):
        for engine in self.engines:
            for request in asked:
                engine.submit(request.fresh())
        left, right = self.engines
        while left.has_work:
            ran = [engine.step() is not None for engine in self.engines]
            right.scheduler.check_ledger()
            if ran[0]:
                divergence = first_divergence(0, left.worker.phases(), right.worker.phases())
                assert divergence is None, str(divergence)
            expected, got = (engine.worker.state() for engine in self.engines)
            np.testing.assert_array_equal(got["req_to_token"][1:], expected["req_to_token"][1:], err_msg="req_to_token")
            for name in ("target_kv", "draft_kv"):
                for one, other in zip(expected[name], got[name], strict=True):
                    np.testing.assert_array_equal(other[1:], one[1:], err_msg=name)
        outputs = [[(one.request_id, one.output) for one in engine.scheduler.finished] for engine in self.engines]
        assert outputs[0] == outputs[1]


def v2_on_pages(config, asked, max_batch, page_size, schedule=SHARED, num_fewer_slots=0, **options):
    sizes = sizes_of(config, asked, max_batch, page_size, num_fewer_slots)
    believed = ReferenceWorker(config, load_model(MODEL), sizes)
    workers = [believed, GpuWorker(config, load_on_device(MODEL), sizes, **options)]
    seen = set()
    engines = [Engine(one, max_batch, 5, schedule=schedule, observer=seen.add) for one in workers]
    return PairOfV2(engines, first_divergence, seen)


def sharing(number, max_new_tokens):
    """Return requests whose prompts are fronts of one another, and which end anywhere on a page."""
    return [Request(one, [5, 7, 3, 9, 1, 4][: 3 + one % 4], max_new_tokens + one % 2) for one in range(number)]


@pytest.mark.parametrize("options", [PADDED, pytest.param(GRAPHS, marks=needs_gpu)], ids=["padded", "graphs"])
def test_trees_of_v1_share_prefixes_in_pages_and_the_host_waits_once(options, monkeypatch):
    asked = sharing(3, 3)
    both, downloads = v1_on_pages(TREE, asked, 2, 2, **options), []

    def counted(tensors):
        downloads.append(len(tensors))
        return download(tensors)

    monkeypatch.setattr(ends, "download", counted)
    with debugging(options is PADDED):
        both.play(asked, [0, 0, 1])
    assert both.seen >= {Tag.PREFIX, Tag.REJECTED, Tag.RAGGED, Tag.HISTORY, Tag.PAGES}
    assert downloads == [4] * both.engines[1].num_iterations


@pytest.mark.parametrize("options", [EXACT, pytest.param(GRAPHS, marks=needs_gpu)], ids=["exact", "graphs"])
def test_chains_of_v1_keep_the_page_that_they_end_in(options):
    asked = sharing(1, 6)
    both = v1_on_pages(CHAIN, asked, 2, 4, **options)
    with debugging(options is EXACT):
        both.play(asked)
    assert both.seen >= {Tag.REJECTED, Tag.PAGES}


@pytest.mark.parametrize("options", [PADDED, pytest.param(GRAPHS, marks=needs_gpu)], ids=["padded", "graphs"])
def test_trees_of_v2_draft_on_pages_of_their_own(options, monkeypatch):
    """The ends of texts are moved in several parts, as of many requests they would be."""
    if options is PADDED:
        monkeypatch.setattr(pools, "MOST_PAIRS_IN_REGISTERS", 2)
    asked = sharing(2, 4)
    both = v2_on_pages(TREE, asked, 2, 4, **options)
    both.play(asked)
    assert both.seen >= {Tag.REJECTED, Tag.PAGES, Tag.TREE}


@needs_gpu
@pytest.mark.parametrize("options", [EXACT, GRAPHS], ids=["exact", "graphs"])
@pytest.mark.parametrize("page_size", [4, 64])
@pytest.mark.parametrize("config", SHAPES, ids=str)
@pytest.mark.parametrize("on_pages", [v1_on_pages, v2_on_pages], ids=["v1", "v2"])
def test_every_shape_on_pages_is_that_of_the_reference(on_pages, config, page_size, options):
    asked = sharing(9, 12)
    on_pages(config, asked, 5, page_size, **options).play(asked)


@needs_gpu
@pytest.mark.parametrize("options", [EXACT, GRAPHS], ids=["exact", "graphs"])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_sampled_and_constrained_requests_on_pages_are_those_of_the_reference(config, options):
    asked = mixed_requests(17, 12)
    v1_on_pages(config, asked, 5, 4, **options).play(asked)


@pytest.mark.usefixtures("unguarded")
@needs_gpu
@pytest.mark.parametrize("options", [EXACT, PADDED, GRAPHS], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_an_iteration_on_pages_synchronises_exactly_once(config, options):
    asked = [Request(number, [number, 7], 20 + 9 * number) for number in range(4)]
    engine = v1_on_pages(config, asked, 4, 4, **options).engines[1]
    for request in asked:
        engine.submit(request)
    found = synchronisations(engine)
    assert found == [1] * len(found)
    assert len(found) > 3


WIDE = SpecConfig(16, 2, 17)
GIVING_WAY = Schedule(promised=Fraction(0))


def of_sixteen_beams(on_pages, page_size, max_new_tokens, num_fewer_slots, **options):
    """Play two requests in a pool that is too small for both of them, so that one is retracted and starts anew."""
    asked = [Request(one, [one, 7, 3, 5][: 1 + 2 * one], max_new_tokens + one) for one in range(2)]
    both = on_pages(WIDE, asked, 2, page_size, GIVING_WAY, num_fewer_slots, **options)
    both.play(asked)
    return both.seen


@pytest.mark.parametrize("options", [PADDED, GRAPHS], ids=["padded", "graphs"])
@pytest.mark.parametrize(
    ("on_pages", "page_size", "max_new_tokens", "num_fewer_slots"),
    [(v1_on_pages, 1, 10, 75), (v1_on_pages, 4, 6, 276), (v2_on_pages, 1, 6, 10), (v2_on_pages, 4, 6, 24)],
    ids=["v1", "v1 on pages", "v2", "v2 on pages"],
)
def test_requests_of_sixteen_beams_that_give_way_lose_nothing(
    on_pages, page_size, max_new_tokens, num_fewer_slots, options
):
    seen = of_sixteen_beams(on_pages, page_size, max_new_tokens, num_fewer_slots, **options)
    assert seen >= {Tag.RETRACT, Tag.TREE}


def keeping_the_first_slots(self, ranges):
    """Assign slots, but to a request that comes back to a row those that were there."""
    owned = vars(self).setdefault("owned", set())
    ORIGINAL_ASSIGN(self, [one for one in ranges if one.start or one.row not in owned])
    owned |= {one.row for one in ranges}


ORIGINAL_ASSIGN = GpuWorker.assign_slots


def test_a_request_that_comes_back_to_the_slots_that_it_gave_up_is_seen(monkeypatch):
    monkeypatch.setattr(GpuWorker, "assign_slots", keeping_the_first_slots)
    with pytest.raises(AssertionError, match="req_to_token"):
        of_sixteen_beams(v2_on_pages, 1, 6, 10, **GRAPHS)
    assert Tag.RETRACT not in of_sixteen_beams(v2_on_pages, 1, 6, 0, **GRAPHS)


@needs_gpu
@pytest.mark.parametrize("options", [EXACT, GRAPHS], ids=["exact", "graphs"])
@pytest.mark.parametrize(
    ("on_pages", "page_size", "num_fewer_slots"),
    [(v1_on_pages, 1, 1936), (v1_on_pages, 16, 14_128), (v2_on_pages, 1, 1936), (v2_on_pages, 16, 12_144)],
    ids=["v1", "v1 on pages", "v2", "v2 on pages"],
)
def test_many_requests_of_sixteen_beams_give_way_and_lose_nothing(on_pages, page_size, num_fewer_slots, options):
    asked = sharing(24, 40)
    both = on_pages(SpecConfig(16, 4, 64), asked, 16, page_size, GIVING_WAY, num_fewer_slots, **options)
    both.play(asked)
    assert both.seen >= {Tag.RETRACT, Tag.TREE}


@pytest.mark.parametrize(
    ("length", "accepted", "freed"),
    [(9, 1, 3), (9, 2, 3), (9, 4, 7), (11, 1, 1), (11, 2, 5), (8, 1, 4), (10, 2, 2)],
)
def test_k6_the_host_knows_what_chains_free(length, accepted, freed):
    path = np.where(np.arange(8) < accepted, np.arange(8), -1).astype(np.int32)
    got = reclaim.evicted_nodes(path[None], np.array([length]), 8, 4)
    assert got.tolist() == [[place >= freed for place in range(8)]]


def keeping_a_page_more(*arguments):
    """Find what is freed, and keep the first page of it."""
    is_evicted = ORIGINAL_NODES(*arguments)
    is_evicted[:, 1:] &= is_evicted[:, :-1]
    return is_evicted


def taking_the_first(seq_lens, window, accepted, *arguments):
    """Move, but give the slots of the first request to those that go on."""
    new_lens, committed, kept = ORIGINAL_MOVE(seq_lens, window, accepted, *arguments)
    return new_lens, committed, window[: len(kept)].clone()


def pages_as_slots(*arguments):
    """Lay nodes out with a page table that is read as if it had slots."""
    slots, keys = ORIGINAL_LAYOUT(*arguments)
    return slots, replace(keys, page_size=1)


ORIGINAL_NODES, ORIGINAL_MOVE = reclaim.evicted_nodes, reclaim._move_to_the_front
ORIGINAL_LAYOUT = Pools.nodes
FAULTS = {
    "ends of texts were not copied": (Pools, "move_kv", moving_no(Side.DRAFT, Pools), "draft_kv"),
    "accepted entries stayed": (Pools, "move_kv", moving_no(Side.TARGET, Pools), "target_kv"),
    "kept one too many": (reclaim, "evicted_nodes", keeping_a_page_more, r"owners of page \d+ = none"),
    "pages taken for slots": (Pools, "nodes", pages_as_slots, "target_predict"),
    "slots of the first request": (reclaim, "_move_to_the_front", taking_the_first, "out_cache_loc"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    place, name, planted, message = FAULTS[fault]
    monkeypatch.setattr(place, name, planted)
    asked = [Request(0, [5, 7, 3], 2), Request(1, [5, 7, 3, 9, 1], 9)][place is not reclaim :]
    both = v1_on_pages(TREE, asked, 2, 4, use_graphs=HAS_GPU)
    with pytest.raises((AssertionError, SpecRejection), match=message):
        both.play(asked)
