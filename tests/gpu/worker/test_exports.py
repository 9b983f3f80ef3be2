"""What the workers hand out of a text is the same on both layers, and what no request owns is refused."""

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import SpecConfig
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

TREE = SpecConfig(2, 2, 5)
LOOPS = {"v2": (ReferenceWorker, GpuWorker), "v1": (ReferenceWorkerV1, GpuWorkerV1)}


def started(worker, requests):
    engine = Engine(worker, len(requests), shuffle_seed=3)
    for request in requests:
        engine.submit(request)
    return engine


def asked(num_tokens=9):
    return [Request(number, [number, 5, 7, 2][: 2 + number], num_tokens) for number in range(2)]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("page_size", [1, 4])
def test_both_layers_hand_out_the_same(loop, page_size):
    model = HashModel(32, 5, 0.9, target_pool=PoolKind.HYBRID)
    sizes, batches = sizes_for(TREE, asked(), 2, page_size), [asked(), asked()]
    of_reference, on_device = LOOPS[loop]
    workers = of_reference(TREE, load_model(model), sizes), on_device(TREE, load_on_device(model), sizes)
    engines = [started(worker, requests) for worker, requests in zip(workers, batches, strict=True)]
    num_compared = 0
    for _ in range(4):
        for engine in engines:
            engine.step()
        for pair in zip(*batches, strict=True):
            if all(request.row for request in pair):
                exports = [engine.export(request) for engine, request in zip(engines, pair, strict=True)]
                assert exports[0] == exports[1]
                assert exports[0].lengths.states == exports[0].lengths.target > 0
                contents = [
                    worker.export(request.row, exports[0].slots) for worker, request in zip(workers, pair, strict=True)
                ]
                assert contents[0].keys() == contents[1].keys() == {"target_kv", "draft_kv", "states"}
                for name, layers in contents[0].items():
                    assert len(layers) == len(contents[1][name]) > 0
                    for expected, got in zip(layers, contents[1][name], strict=True):
                        np.testing.assert_array_equal(got, expected)
                num_compared += 1
    assert num_compared >= 3


KINDS = {"window": (PoolKind.SWA, 4), "states": (PoolKind.HYBRID, 0), "latent": (PoolKind.MLA, 0)}


PLACES = {"onto gpu": (0, 1), "off gpu": (1, 0), "on gpu": (1, 1)}
MOVES = [
    pytest.param([*LOOPS][(column + row) % 2], places, kind, id=f"{[*LOOPS][(column + row) % 2]}-{name}-{kind}")
    for column, kind in enumerate(KINDS)
    for row, (name, places) in enumerate(PLACES.items())
]
"""Every kind in every direction, and each of both in either loop."""


@pytest.mark.parametrize(("loop", "places", "kind"), MOVES)
def test_a_text_goes_on_on_either_layer(loop, places, kind):
    """The tree of one engine on slots, then a chain of another one on pages of four."""
    pool, window = KINDS[kind]
    model, requests = HashModel(32, 5, 0.9, target_pool=pool, window=window), asked(20)
    handed, config, page_size = None, TREE, 1
    for place in places:
        sizes = sizes_for(config, requests, 2, page_size, window)
        worker = LOOPS[loop][place](config, (load_model, load_on_device)[place](model), sizes)
        engine = Engine(worker, 2, shuffle_seed=3)
        for number, request in enumerate(requests):
            engine.submit(request) if handed is None else engine.load(request, handed[number])
        for _ in range(2):
            engine.step()
        if handed is None:
            handed = [engine.hand_over(request) for request in requests]
            requests, config, page_size = [request.elsewhere() for request in requests], SpecConfig(1, 2, 3), 4
    for request in requests:
        taken, expected = engine.hand_over(request), computed(model, request, config)
        assert taken.lengths == expected.lengths
        for name, layers in expected.contents.items():
            for got, wanted in zip(taken.contents[name], layers, strict=True):
                both = min(len(got), len(wanted)) if name == "swa_kv" else len(wanted)
                np.testing.assert_array_equal(got[len(got) - both :], wanted[len(wanted) - both :])
    engine.run()
    for request in requests:
        assert request.output == greedy_decode(model, request.prompt, 20)


def computed(model, request, config):
    """Return what the reference hands over that has computed the text itself."""
    text = Request(5, request.fill[:-1], 3)
    worker = ReferenceWorker(config, load_model(model), sizes_for(config, [text], 1, window=model.window))
    engine = Engine(worker, 1)
    engine.submit(text)
    engine._take_turn(engine._launch_prefill)
    return engine.hand_over(text)


@pytest.mark.parametrize("place", [0, 1], ids=["reference", "gpu"])
def test_a_slot_without_a_window_leaves_zeros(place):
    """The window has passed the first positions of a long prompt: no SWA slot is theirs."""
    model = HashModel(32, 5, 0.9, target_pool=PoolKind.SWA, window=4)
    request = Request(0, list(range(20)), 9)
    worker = LOOPS["v2"][place](TREE, (load_model, load_on_device)[place](model), sizes_for(TREE, [request], 1, 1, 4))
    engine = started(worker, [request])
    engine.step()
    engine.step()
    contents = worker.export(request.row, request.slots[: request.num_committed])
    is_zero = [not row.any() for row in contents["swa_kv"][0]]
    assert is_zero.index(False) == engine.hand_over(request).window_start > 0
    assert not any(is_zero[is_zero.index(False) :])


@pytest.mark.parametrize("place", [0, 1], ids=["reference", "gpu"])
def test_what_leaves_is_a_copy(place):
    requests = asked()
    sizes, model = sizes_for(TREE, requests, 2), HashModel(32, 5, 0.9, target_pool=PoolKind.HYBRID)
    worker = LOOPS["v2"][place](TREE, (load_model, load_on_device)[place](model), sizes)
    engine = started(worker, requests)
    engine.step()
    request = requests[0]
    contents = worker.export(request.row, request.slots[:2])
    before = [layer.copy() for layers in contents.values() for layer in layers]
    engine.run()
    for layer, expected in zip([layer for layers in contents.values() for layer in layers], before, strict=True):
        np.testing.assert_array_equal(layer, expected)


@pytest.mark.parametrize("place", [0, 1], ids=["reference", "gpu"])
@pytest.mark.parametrize(
    ("row", "slots", "kind", "reason"),
    [
        (0, [1], PoolKind.MHA, Reason.ROW_OUT_OF_RANGE),
        (3, [1], PoolKind.MHA, Reason.ROW_OUT_OF_RANGE),
        (1, [1, 0], PoolKind.MHA, Reason.SLOT_OUT_OF_RANGE),
        (1, [1, 1000], PoolKind.MHA, Reason.SLOT_OUT_OF_RANGE),
        (1, [1], PoolKind.DSA, Reason.NO_MOVE),
    ],
    ids=["dump row", "no row", "dump slot", "no slot", "pages of an indexer"],
)
def test_what_no_request_owns_is_refused(place, row, slots, kind, reason):
    sizes, model = sizes_for(TREE, asked(), 2), HashModel(32, 5, target_pool=kind)
    worker = LOOPS["v2"][place](TREE, (load_model, load_on_device)[place](model), sizes)
    with pytest.raises(SpecRejection) as refusal:
        worker.export(row, slots)
    assert refusal.value.reason is reason
