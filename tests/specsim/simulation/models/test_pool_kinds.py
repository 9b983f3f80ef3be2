import numpy as np
import pytest

from specsim.hashing import MASK
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.description import Layout, Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import (
    DRAFT_KINDS,
    FORMS,
    KINDS_WITHOUT_KV,
    RECURRENT_KINDS,
    PoolKind,
    kv_components,
    state_components,
    tags_of,
)
from specsim.simulation.models.toys import describe

NUM_SLOTS = 70
STORING = [kind for kind in PoolKind if kind not in KINDS_WITHOUT_KV]
stored_kinds = pytest.mark.parametrize("kind", STORING, ids=[kind.value for kind in STORING])


def empty_layer(kind):
    components = kv_components(kind, Side.TARGET, 1)
    return [np.full(one.buffer_shape(NUM_SLOTS), 77, dtype=one.dtype) for one in components]


def some_tags(random, count):
    tags = random.integers(0, MASK, (2, count, 4))
    tags[..., :2] = random.integers(0, 300, (2, count, 2))
    return tags


def written(kind, slots, tags):
    buffers = empty_layer(kind)
    for which in (0, 1):
        FORMS[kind].write(buffers, which, slots, tags[which])
    return buffers


@stored_kinds
def test_what_is_written_is_read(kind):
    random = np.random.default_rng(1)
    slots, tags = random.permutation(NUM_SLOTS)[:9], some_tags(random, 9)
    got = tags_of(kind, written(kind, slots, tags), slots)
    assert [one.tolist() for one in got] == tags.tolist()


@stored_kinds
def test_what_is_written_of_one_slot_changes_no_other(kind):
    random = np.random.default_rng(2)
    slots, tags = np.arange(NUM_SLOTS), some_tags(random, NUM_SLOTS)
    buffers = written(kind, slots, tags)
    others = np.delete(slots, 66)
    for which in (0, 1):
        FORMS[kind].write(buffers, which, slots[[66]], tags[which, [3]])
    assert [one.tolist() for one in tags_of(kind, buffers, others)] == tags[:, others].tolist()


@stored_kinds
def test_every_byte_of_every_component_counts(kind):
    """What a move leaves out changes what is read."""
    slot, tags = np.array([66]), some_tags(np.random.default_rng(3), 1)
    for place, (part, blank) in enumerate(zip(FORMS[kind].parts, empty_layer(kind), strict=True)):
        for byte in bytes_of(part, blank, 66):
            buffers = written(kind, slot, tags)
            buffers[place].reshape(-1).view(np.uint8)[byte] ^= 0x5A
            assert [one.tolist() for one in tags_of(kind, buffers, slot)] != tags.tolist(), (part.name, byte)


def bytes_of(part, buffer, slot):
    """Return where the bytes of a slot lie in a buffer; words of 64 bits hold 32."""
    if part.layout is Layout.INDEXER_PAGES:
        page, offset = divmod(slot, 64)
        keys = [page * 64 * 132 + offset * 128 + byte for byte in range(128)]
        return keys + [page * 64 * 132 + 64 * 128 + offset * 4 + byte for byte in range(4)]
    row = len(buffer) - 1 - slot if part.layout is Layout.UNKNOWN else slot
    used = range(4) if part.dtype == "int64" else range(8)
    return [row * buffer[0].nbytes + byte for byte in range(buffer[0].nbytes) if byte % 8 in used]


def test_the_bytes_of_an_indexer_entry_are_those_of_the_specification():
    before, slots = empty_layer(PoolKind.DSA)[1], np.array([64])
    after = written(PoolKind.DSA, slots, some_tags(np.random.default_rng(4), 1))[1]
    page, places = np.nonzero(before != after)
    assert before.shape == (2, 8448)
    assert set(page.tolist()) == {1}
    assert set(places.tolist()) <= {*range(128), *range(8192, 8196)}


@pytest.mark.parametrize("kind", PoolKind, ids=[kind.value for kind in PoolKind])
def test_a_model_says_what_its_pool_is_made_of(kind):
    facts = describe(HashModel(target_pool=kind), "numpy")
    target = facts.components_of(Side.TARGET)
    assert [one.name for one in facts.components_of(Side.DRAFT)] == ["keys", "values"]
    assert {one.num_layers for one in target} == ({0} if kind is PoolKind.ZERO_LAYER else {2} if target else set())
    assert [one.name for one in target] == [part.name for part in FORMS[kind].parts]
    assert bool(facts.state_components) is (kind in RECURRENT_KINDS)
    assert facts.state_components == state_components(kind, 2)


def test_a_draft_has_no_recurrent_state():
    with pytest.raises(SpecRejection) as caught:
        describe(HashModel(draft_pool=PoolKind.HYBRID), "numpy")
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    known = " or ".join(kind.value for kind in DRAFT_KINDS)
    because = "a worker keeps recurrent state and SWA slots of the target alone"
    assert str(caught.value) == f"BAD_CONFIGURATION: draft_pool is hybrid, but should be {known}, because {because}"
