"""Every kind of pool stores on the device what it stores in NumPy arrays, and recurrent states are the same."""

import numpy as np
import pytest
import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import recurrence as on_device
from specsim.gpu.models.stored import unpacked, write_back
from specsim.reference.models import recurrence
from specsim.reference.models.stored import unpacked as unpacked_in_numpy
from specsim.reference.models.stored import write_back as write_back_in_numpy
from specsim.simulation.models.batches import PagedKeys, TargetBatch
from specsim.simulation.models.description import Side
from specsim.simulation.models.pool_kinds import FORMS, KINDS_WITHOUT_KV, PoolKind, kv_components, state_components

NUM_SLOTS, NUM_LAYERS = 70, 2
KINDS = [kind for kind in PoolKind if kind not in KINDS_WITHOUT_KV and not FORMS[kind].is_plain]


def to_device(arrays):
    return {name: [torch.tensor(one, device=DEVICE) for one in layers] for name, layers in arrays.items()}


def same(tensors, arrays):
    assert [one.tolist() for one in tensors] == [one.tolist() for one in arrays]


@pytest.mark.parametrize("num_written", [5, 0])
@pytest.mark.parametrize("kind", KINDS, ids=[kind.value for kind in KINDS])
def test_forms_store_and_read_the_same_bytes(kind, num_written):
    random = np.random.default_rng(1)
    kv = {
        one.name: [
            random.integers(0, 256, one.buffer_shape(NUM_SLOTS)).astype(one.dtype) for _ in range(one.num_layers)
        ]
        for one in kv_components(kind, Side.TARGET, NUM_LAYERS)
    }
    there, slots = to_device(kv), random.permutation(NUM_SLOTS)[:num_written]
    tags, tags_there = unpacked_in_numpy(FORMS[kind], kv), unpacked(kind, there)
    same(tags_there, tags)
    for one, other in zip(tags, tags_there, strict=True):
        one[slots] = random.integers(0, 1 << 32, (num_written, 4))
        other[torch.tensor(slots, device=DEVICE)] = torch.tensor(one[slots], device=DEVICE)
    write_back_in_numpy(FORMS[kind], kv, tags, slots)
    write_back(kind, there, tags_there, torch.tensor(slots, device=DEVICE))
    for name, layers in kv.items():
        same(there[name], layers)


def arrays_of(random, num_requests):
    """Return states of more rows than requests, and which rows these have."""
    states = {
        one.name: [random.integers(0, 1 << 32, (num_requests + 2, *one.row_shape)) for _ in range(one.num_layers)]
        for one in state_components(PoolKind.HYBRID, NUM_LAYERS)
    }
    return states, random.permutation(num_requests + 2)[:num_requests]


def batch_of(array, row, tokens, positions, cu_seqlens, parents):
    keys = PagedKeys(array(np.zeros((len(row), 1), np.int32)), array(row), array(cu_seqlens), 1)
    parents = None if parents is None else array(parents)
    parts = [array(one) for one in (row, tokens, positions, positions, row)]
    return TargetBatch(*parts, keys, None, parents, None, (-1,), False)


def both(*arguments):
    return batch_of(np.asarray, *arguments), batch_of(lambda one: torch.tensor(one, device=DEVICE), *arguments)


def test_states_after_chunks_are_the_same():
    random = np.random.default_rng(2)
    states, row = arrays_of(random, 3)
    there, widths = to_device(states), [1, 7, 3]
    tokens, positions = random.integers(0, 300, (2, sum(widths)))
    batch, batch_there = both(row, tokens, positions, np.cumsum([0, *widths]), None)
    one, other = recurrence.after_chunks(batch, states), on_device.after_chunks(batch_there, there)
    same([other.sums, other.windows, other.hidden_states()], [one.sums, one.windows, one.hidden_states()])
    attended = random.integers(0, 1 << 32, (sum(widths), NUM_LAYERS + 1))
    same([other.beside(torch.tensor(attended, device=DEVICE))], [one.beside(attended)])
    recurrence.keep_chunks(one, batch, states)
    on_device.keep_chunks(other, batch_there, there)
    for name, layers in states.items():
        same(there[name], layers)


def test_states_after_nodes_are_the_same():
    random = np.random.default_rng(3)
    states, row = arrays_of(random, 2)
    parents = np.array([[-1, 0, 0, 1, 3, 2], [-1, 0, 1, 2, 3, 4]])
    tokens, positions = random.integers(0, 300, (2, parents.size))
    batch, batch_there = both(row, tokens, positions, np.arange(0, 13, 6), parents)
    one, other = recurrence.after_nodes(batch, states), on_device.after_nodes(batch_there, to_device(states))
    same([other.sums, other.windows], [one.sums, one.windows])
    scratch = {
        name: [np.zeros((*parents.shape, *layer.shape[1:]), np.int64) for layer in layers]
        for name, layers in states.items()
    }
    scratch_there = to_device(scratch)
    recurrence.keep_nodes(one, scratch)
    on_device.keep_nodes(other, scratch_there)
    for name, layers in scratch.items():
        same(scratch_there[name], layers)


def test_a_state_continues_that_of_its_parent():
    random = np.random.default_rng(4)
    states, row = arrays_of(random, 1)
    tokens, positions = random.integers(0, 300, 5), 20 + np.arange(5)
    chunk = recurrence.after_chunks(both(row, tokens, positions, np.array([0, 5]), None)[0], states)
    chain = recurrence.after_nodes(both(row, tokens, positions, np.array([0, 5]), np.arange(5)[None] - 1)[0], states)
    same([chain.sums, chain.windows], [chunk.sums, chunk.windows])
