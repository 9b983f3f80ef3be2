from dataclasses import replace

import numpy as np
import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import load
from specsim.reference.models import load_model
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.description import KVComponent, Layout, Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import indexer_width, layer_by_layer, pool_of, sides_that_move
from specsim.simulation.models.pool_kinds import (
    DRAFT_KINDS,
    FORMS,
    KINDS_WITHOUT_KV,
    PoolKind,
    kv_components,
    tags_of,
)
from specsim.simulation.models.toys import describe

ORACLE = load("specsim.reference")
SIZES = PoolSizes(num_slots=140, num_rows=2, row_width=8, num_swa_slots=3)
MOVING = [kind for kind in PoolKind if kind not in KINDS_WITHOUT_KV | {PoolKind.OTHER}]
TREE, CHAIN = SpecConfig(2, 2, 4), SpecConfig(1, 2, 3)


def pools(kind, reads=Reads.FULL, side=Side.TARGET):
    model = HashModel(**{f"{side.value.lower()}_pool": kind}, num_draft_layers=2)
    return Pools.of(describe(model, "numpy"), SIZES, reads)


@pytest.mark.parametrize(
    ("kind", "side"),
    [(kind, side) for kind in MOVING for side in Side if side is Side.TARGET or kind in DRAFT_KINDS],
)
def test_a_move_takes_all_that_a_slot_holds_and_counts_its_targets_alone(kind, side):
    random = np.random.default_rng(5)
    moved, slots = pools(kind, Reads.KEPT, side), np.arange(SIZES.num_slots)
    kv, form = moved.kv[side], FORMS[kind]
    tags = random.integers(0, 1 << 32, (4, SIZES.num_slots, 4))
    for place, entries in enumerate(tags):
        form.write(kv.layers()[place // 2 * len(form.parts) :], place % 2, slots, entries)
    asked = []

    def ask(slots):
        asked.append(slots.tolist())
        return np.zeros(len(slots), np.int64)

    kv.words("asked", ask)
    targets, sources = np.array([64, 66, 3, 0, 0]), np.array([66, 67, 130, 1, 1])
    moved.move_kv(side, targets, sources, ORACLE)
    expected = tags.copy()
    expected[:, targets] = tags[:, sources]
    assert [one.tolist() for one in tags_of(kind, kv.layers(), slots)] == expected.tolist()
    kv.words("asked", ask)
    assert asked[1:] == [[0, 3, 64, 66]]


def test_a_move_takes_the_swa_slots_that_its_slots_stand_for():
    moved = pools(PoolKind.SWA)
    moved.full_to_swa[[64, 66]] = 2, 1
    for buffer in layer_by_layer(moved.swa_kv):
        buffer[1:] = np.arange(8).reshape(2, 4)
    moved.move_kv(Side.TARGET, np.array([64, 0]), np.array([66, 0]), ORACLE)
    assert [buffer[1:].tolist() for buffer in layer_by_layer(moved.swa_kv)] == [[[0, 1, 2, 3]] * 2] * 2
    with pytest.raises(SpecRejection) as caught:
        moved.move_kv(Side.TARGET, np.array([64]), np.array([3]), ORACLE)
    assert caught.value.reason is Reason.UNMAPPED_SLOT


@pytest.mark.parametrize("kind", sorted(KINDS_WITHOUT_KV))
def test_a_side_without_layers_moves_at_once(kind):
    pools(kind).move_kv(Side.TARGET, np.array([1]), np.array([2]), operations=None)


def refused_moves():
    facts = describe(HashModel(target_pool=PoolKind.OTHER, draft_pool=PoolKind.OTHER), "numpy")
    return pool_of(facts, Side.TARGET, {"entries": []})


def test_a_pool_without_a_move_refuses_to():
    with pytest.raises(SpecRejection) as caught:
        refused_moves().move(np.array([1]), np.array([2]), ORACLE)
    assert caught.value.reason is Reason.NO_MOVE


@pytest.mark.parametrize(
    ("loop", "config", "page_size", "sides"),
    [
        (ReferenceWorker, TREE, 1, ["target"]),
        (ReferenceWorker, TREE, 2, ["target", "draft"]),
        (ReferenceWorker, CHAIN, 2, []),
        (ReferenceWorkerV1, TREE, 1, []),
        (ReferenceWorkerV1, CHAIN, 2, []),
    ],
)
def test_a_worker_refuses_at_once_what_it_would_have_to_move(loop, config, page_size, sides):
    facts = sides_that_move(config.topk, page_size, loop is ReferenceWorkerV1)
    assert [side.value.lower() for side in facts] == sides
    for side in ("target", "draft"):
        model = load_model(HashModel(**{f"{side}_pool": PoolKind.OTHER}))
        sizes = replace(SIZES, page_size=page_size)
        if side not in sides:
            assert loop(config, model, sizes).model is model
            continue
        with pytest.raises(SpecRejection) as caught:
            loop(config, model, sizes)
        assert str(caught.value) == (
            f"NO_MOVE: layout of the {side} component 'entries' is UNKNOWN, but should be SLOTS or INDEXER_PAGES, "
            f"because drafts are trees, for which slots of the {side} move"
        )


def test_layers_that_share_kv_are_refused_by_name():
    facts = describe(HashModel(), "numpy")
    shared = np.zeros((8, 4), np.int64)
    pool = pool_of(facts, Side.TARGET, {"keys": [shared, shared], "values": [np.zeros((8, 4)), np.zeros((8, 4))]})
    with pytest.raises(SpecRejection) as caught:
        pool.move(np.array([1]), np.array([2]), ORACLE)
    assert caught.value.reason is Reason.SHARED_MEMORY
    assert "kv_buffers[2] is in the memory of kv_buffers[0]" in str(caught.value)


def test_the_width_of_an_indexer_key_follows_from_its_pages():
    (indexer,) = (one for one in kv_components(PoolKind.DSA, Side.TARGET, 1) if one.layout is Layout.INDEXER_PAGES)
    assert indexer_width(indexer) == 128
    assert indexer_width(replace(indexer, row_shape=(64 * 264,))) == 256
    for wrong in (replace(indexer, row_shape=(100,)), replace(indexer, dtype="int8"), replace(indexer, row_shape=(0,))):
        with pytest.raises(SpecRejection) as caught:
            indexer_width(wrong)
        assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_indexers_of_different_widths_are_refused_by_name():
    facts = describe(HashModel(target_pool=PoolKind.DSA), "numpy")
    (indexer,) = (one for one in facts.components_of(Side.TARGET) if one.layout is Layout.INDEXER_PAGES)
    wider = replace(indexer, name="wider", row_shape=(64 * 264,))
    with pytest.raises(SpecRejection, match="'wider'") as refused:
        Pools.of(replace(facts, kv_components=(*facts.kv_components, wider)), SIZES)
    assert refused.value.reason is Reason.BAD_CONFIGURATION


def test_pages_of_an_indexer_hold_every_slot():
    assert KVComponent("k", (8448,), "uint8", 1, Side.TARGET, Layout.INDEXER_PAGES).buffer_shape(65) == (2, 8448)
    assert KVComponent("k", (3, 2), "uint8", 1, Side.TARGET).buffer_shape(65) == (65, 3, 2)
