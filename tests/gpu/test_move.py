import numpy as np
import pytest
import torch

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.move import MOST_PAIRS_IN_REGISTERS
from specsim.rejection import Reason, SpecRejection

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU captures graphs")


def buffers(num_slots, *forms):
    """Return buffers of distinct entries, one a (dtype, trailing shape)."""
    source = np.random.default_rng(num_slots)
    return [source.integers(0, 250, (num_slots, *trailing)).astype(dtype) for dtype, trailing in forms]


def moved(given, target, source):
    """Return what each buffer should hold, from plain indexing of a copy."""
    copies = [buffer.clone() for buffer in given]
    for buffer, copy in zip(given, copies, strict=True):
        buffer[target] = copy[source]
    return given


WIDE = (("float32", (2, 8)), ("int64", (4,)), ("uint8", (3,)), ("float16", ()), ("bool", (5,)))


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ([1, 2, 3], [2, 3, 4]),
        ([4, 3, 2], [3, 2, 1]),
        ([1, 2, 3, 4, 5], [2, 3, 1, 5, 4]),
        ([7], [7]),
        ([5, 6, 0, 0], [6, 8, 0, 0]),
        ([1, 2], [9, 9]),
        ([], []),
    ],
    ids=["chain-up", "chain-down", "cycles", "itself", "padded-tail", "one-source-twice", "no-pair"],
)
def test_a_move_is_a_snapshot(agrees, target, source):
    agrees(
        "move_kv_cache",
        kv_buffers=buffers(10, *WIDE),
        target_slots=np.array(target, dtype=np.int64),
        source_slots=np.array(source, dtype=np.int64),
    )


@pytest.mark.parametrize("num_pairs", [1024, 1500, MOST_PAIRS_IN_REGISTERS, MOST_PAIRS_IN_REGISTERS + 700])
def test_a_permutation_of_many_slots(agrees, num_pairs):
    order = np.random.default_rng(num_pairs)
    agrees(
        "move_kv_cache",
        kv_buffers=buffers(num_pairs + 1, ("int64", (2,)), ("int32", (3,))),
        target_slots=order.permutation(num_pairs) + 1,
        source_slots=order.permutation(num_pairs) + 1,
    )


def test_one_long_cycle_through_the_scratch_buffer(agrees):
    slots = np.arange(1, MOST_PAIRS_IN_REGISTERS + 2)
    agrees(
        "move_kv_cache",
        kv_buffers=buffers(len(slots) + 1, ("float16", (8, 4))),
        target_slots=slots,
        source_slots=np.roll(slots, -1),
    )


def test_a_pool_without_layers_or_pairs_is_left_alone():
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    some = torch.tensor([1, 2], device=DEVICE)
    assert gpu.move_kv_cache([], some, some) is None
    assert gpu.move_kv_cache(gpu.KVBuffers([]), none, none) is None
    assert gpu.move_kv_cache([torch.zeros((4, 0), device=DEVICE)], some, some) is None


@pytest.mark.parametrize("pairs", [([1, 2, 3], [2, 3, 1])], ids=["cycle"])
def test_views_are_written_where_they_lie(pairs):
    target, source = (torch.tensor(slots, device=DEVICE) for slots in pairs)
    base = torch.arange(11 * 6 * 4, device=DEVICE, dtype=torch.int32).reshape(11, 6, 4)

    def views(tensor):
        return [tensor[1::2, :3], tensor[:5, 4, 1:4:2], tensor[5:10, 5].narrow(1, 1, 2)]

    expected = base.clone()
    moved(views(expected), target, source)
    gpu.move_kv_cache(views(base), target, source)
    assert torch.equal(base, expected)


def test_heads_before_slots_are_moved_head_by_head():
    base = torch.arange(3 * 6 * 4, device=DEVICE, dtype=torch.float32).reshape(3, 6, 4)
    expected = base.clone()
    target, source = torch.tensor([1, 2], device=DEVICE), torch.tensor([2, 1], device=DEVICE)
    moved([expected.transpose(0, 1)], target, source)
    gpu.move_kv_cache([base.transpose(0, 1)], target, source)
    assert torch.equal(base, expected)


@pytest.mark.parametrize("width", [8 * 128, 576])
def test_bfloat16_layers_move_in_one_call(width):
    layers = [torch.randn((64, width), device=DEVICE).bfloat16() for _ in range(3)]
    expected = [layer.clone() for layer in layers]
    target, source = torch.arange(1, 33, device=DEVICE), torch.arange(2, 34, device=DEVICE)
    moved(expected, target, source)
    gpu.move_kv_cache(gpu.KVBuffers(layers), target, source)
    assert all(torch.equal(layer, wanted) for layer, wanted in zip(layers, expected, strict=True))


def test_the_table_of_kv_buffers_is_built_once():
    layers = gpu.KVBuffers([torch.zeros((4, 3), dtype=torch.int64, device=DEVICE) for _ in range(2)])
    assert [buffer.shape for buffer in layers] == [(4, 3), (4, 3)]
    assert layers.strips is layers.strips
    assert layers.strips.table.tolist() == [[layer.data_ptr(), 3, 3, 3] for layer in layers]


def test_bad_slots_are_rejected(rejection):
    pool = buffers(4, ("int64", (2,)))
    one, two, five = (np.array(slots, dtype=np.int64) for slots in ([1], [2, 2], [4]))
    assert rejection("move_kv_cache", kv_buffers=pool, target_slots=one, source_slots=five) is Reason.SLOT_OUT_OF_RANGE
    assert rejection("move_kv_cache", kv_buffers=pool, target_slots=two, source_slots=two) is Reason.DUPLICATE_SLOT
    assert rejection("move_kv_cache", kv_buffers=pool, target_slots=one, source_slots=two) is Reason.WRONG_SHAPE


@NEEDS_GPU
def test_a_captured_move_replays():
    layers = [torch.arange(40, device=DEVICE).reshape(10, 4) for _ in range(2)]
    pool, expected = gpu.KVBuffers(layers), [layer.clone() for layer in layers]
    target, source = torch.tensor([1, 2], device=DEVICE), torch.tensor([2, 3], device=DEVICE)
    gpu.move_kv_cache(pool, target, source)
    moved(expected, target, source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu.move_kv_cache(pool, target, source)
    target.copy_(torch.tensor([7, 8]))
    source.copy_(torch.tensor([8, 7]))
    graph.replay()
    moved(expected, target, source)
    assert all(torch.equal(layer, wanted) for layer, wanted in zip(layers, expected, strict=True))


@NEEDS_GPU
def test_a_list_cannot_be_captured():
    layers = [torch.zeros((10, 4), device=DEVICE)]
    slots = torch.tensor([1, 2], device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(SpecRejection) as caught, torch.cuda.graph(graph):
        gpu.move_kv_cache(layers, slots, slots)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
