import numpy as np
import pytest
import torch

from specsim import gpu, reference
from specsim.gpu.arrays import DEVICE
from specsim.gpu.move import MOST_PAIRS_IN_REGISTERS
from specsim.rejection import Reason

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU captures graphs")


def layers(head_dim, *pages):
    """Return one buffer a layer, of that many pages."""
    source = np.random.default_rng(head_dim)
    width = 64 * (head_dim + 4 * head_dim // 128)
    return [source.integers(0, 256, (count, width), dtype=np.uint8) for count in pages]


def slots(*numbers):
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize("head_dim", [32, 128, 512])
@pytest.mark.parametrize(
    ("target", "source"),
    [([62, 63, 64], [63, 64, 65]), ([65, 1, 127], [1, 127, 65]), ([5, 0, 0], [70, 0, 0]), ([], [])],
    ids=["chain", "cycle across pages", "padded tail", "no pair"],
)
def test_a_move_of_pages_is_a_snapshot(agrees, head_dim, target, source):
    agrees(
        "move_indexer_cache",
        indexer_buffers=layers(head_dim, 2, 0, 2),
        target_slots=slots(*target),
        source_slots=slots(*source),
        head_dim=head_dim,
    )


def test_more_pairs_than_registers_hold(agrees):
    count = MOST_PAIRS_IN_REGISTERS + 1
    around = np.arange(1, count + 1)
    agrees(
        "move_indexer_cache",
        indexer_buffers=layers(32, count // 64 + 1),
        target_slots=around,
        source_slots=np.roll(around, -1),
        head_dim=32,
    )


def test_layers_without_indexer_are_no_launch():
    one, none = torch.tensor([1], device=DEVICE), torch.zeros(0, dtype=torch.int64, device=DEVICE)
    empty = [torch.zeros((0, 64 * 132), dtype=torch.uint8, device=DEVICE)]
    assert gpu.move_indexer_cache([], one, one, 128) is None
    assert gpu.move_indexer_cache(empty, none, none, 128) is None
    assert gpu.move_indexer_cache(gpu.KVBuffers.of_indexer(empty, 128), one, one, 128) is None


def test_pages_whose_bytes_have_gaps():
    base = torch.arange(3 * 2 * 64 * 33, device=DEVICE).to(torch.uint8).reshape(3, 64 * 33, 2)
    expected, given = base.clone(), base[:, :, 1]
    target, source = torch.tensor([1, 130, 64], device=DEVICE), torch.tensor([130, 64, 2], device=DEVICE)
    for start, width in ((0, 32), (64 * 32, 1)):
        rows = expected[:, start : start + 64 * width, 1].reshape(3 * 64, width)
        rows[target] = rows[source]
        expected[:, start : start + 64 * width, 1] = rows.reshape(3, 64 * width)
    gpu.move_indexer_cache([given], target, source, 32)
    assert torch.equal(base, expected)


def test_a_table_of_other_keys_is_not_used():
    """Buffers of one width a page are taken for what the call says, whatever the table was made for."""
    pool = torch.arange(2 * 64 * 132, device=DEVICE).to(torch.uint8).reshape(2, -1)
    kept, expected = gpu.KVBuffers([pool]), pool.clone()
    target, source = torch.tensor([1], device=DEVICE), torch.tensor([66], device=DEVICE)
    expected[0, 128:256], expected[0, 8196:8200] = expected[1, 256:384], expected[1, 8200:8204]
    gpu.move_indexer_cache(kept, target, source, 128)
    assert torch.equal(pool, expected)


def test_bad_slots_of_pages_are_rejected(rejection):
    pool = layers(128, 2)
    asked = {"indexer_buffers": pool, "head_dim": 128}
    outside = rejection("move_indexer_cache", **asked, target_slots=slots(1), source_slots=slots(128))
    assert outside is Reason.SLOT_OUT_OF_RANGE
    twice = rejection("move_indexer_cache", **asked, target_slots=slots(2, 2), source_slots=slots(3, 4))
    assert twice is Reason.DUPLICATE_SLOT


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("num_pairs", [0, 1, 255, 257])
def test_pairs_of_the_window(agrees, dtype, num_pairs):
    source = np.random.default_rng(num_pairs)
    table = np.zeros(600, dtype)
    table[1:] = source.permutation(599) + 1
    agrees(
        "translate_move_slots",
        target_slots=source.permutation(599)[:num_pairs] + 1,
        source_slots=source.permutation(599)[:num_pairs] + 1,
        full_to_swa=table,
    )


def test_a_pair_with_one_side_in_the_window_is_rejected(rejection):
    table = slots(0, 4, 0)
    got = rejection("translate_move_slots", target_slots=slots(1), source_slots=slots(2), full_to_swa=table)
    assert got is Reason.UNMAPPED_SLOT


@NEEDS_GPU
def test_a_captured_move_of_pages_replays():
    pool = torch.randint(0, 256, (3, 64 * 132), device=DEVICE).to(torch.uint8)
    expected, kept = [buffer.cpu().numpy() for buffer in (pool.clone(),)], gpu.KVBuffers.of_indexer([pool], 128)
    target, source = torch.tensor([1, 2], device=DEVICE), torch.tensor([2, 64], device=DEVICE)
    gpu.move_indexer_cache(kept, target, source, 128)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu.move_indexer_cache(kept, target, source, 128)
    target.copy_(torch.tensor([100, 7]))
    source.copy_(torch.tensor([7, 100]))
    graph.replay()
    reference.move_indexer_cache(expected, slots(1, 2), slots(2, 64), 128)
    reference.move_indexer_cache(expected, slots(100, 7), slots(7, 100), 128)
    assert np.array_equal(pool.cpu().numpy(), expected[0])
