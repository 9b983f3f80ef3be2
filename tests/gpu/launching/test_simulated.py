"""A graph without a GPU holds what a CUDA graph holds: addresses and numbers, and no entry of the capture."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from specsim import gpu
from specsim.gpu.arrays import is_capturing
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.launcher import Launch, launch
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.simulated import POISON, CaptureError, SimulatedGraph

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="a GPU captures graphs")


@triton.jit
def _count_up_kernel(values_ptr, count, start):
    place = tl.program_id(0)
    tl.store(values_ptr + place, start + place, mask=place < count)


def count_up(values, count, start):
    """Write start, start + 1, … into the first entries; ``count`` may go past the end."""
    plan = Plan(_count_up_kernel, grid=(count,), sizes={"count": count, "start": start})
    launch(Launch(plan, {}, {"values": values}))


def captured(function, *arguments, pool=None):
    """Return a graph of a call, and what the call returned."""
    graph = SimulatedGraph()
    with graph.capture(pool):
        returned = function(*arguments)
    return graph, returned


def test_a_capture_runs_nothing_and_each_replay_reads_what_is_there():
    static, total = torch.arange(4), torch.zeros(1, dtype=torch.int64)

    def add_up():
        total.add_(static.sum())
        return static * 2, gpu.map_hot_tokens(static[None], static)

    graph, (doubled, mapped) = captured(add_up)
    assert (static.tolist(), total.tolist(), doubled.tolist()) == ([0, 1, 2, 3], [0], [POISON] * 4)
    for entries in ([3, 1, 0, 2], [0, 0, 1, 1]):
        static.copy_(torch.tensor(entries))
        graph.replay()
        assert doubled.tolist() == [2 * one for one in entries]
        assert mapped.tolist() == [[entries[one] for one in entries]]
    assert total.tolist() == [6 + 2]


def test_numbers_of_python_are_those_of_the_capture():
    held, values = {"by": 2, "start": 5}, torch.zeros(3, dtype=torch.int64)

    def both():
        count_up(values, 3, held["start"])
        return values + held["by"]

    graph, total = captured(both)
    held.update(by=7, start=9)
    graph.replay()
    assert (values.tolist(), total.tolist()) == ([5, 6, 7], [7, 8, 9])


def test_a_tensor_that_takes_the_place_of_another_one_is_not_read():
    held = {"values": torch.ones(2)}
    first = held["values"]
    graph, doubled = captured(lambda: held["values"] * 2)
    held["values"] = torch.full((2,), 5.0)
    graph.replay()
    assert doubled.tolist() == [2.0, 2.0]
    del first
    with pytest.raises(CaptureError, match="outside of a capture, and has been freed"):
        graph.replay()


@pytest.mark.parametrize(
    "wait",
    [
        lambda values: values[0].item(),
        lambda values: bool(values[0]),
        lambda values: values.tolist(),
        lambda values: values.cpu(),
        lambda values: values.numpy(),
        np.asarray,
        lambda values: values.nonzero(),
        lambda values: values[values > 1],
        lambda values: values.unique(),
        lambda values: torch.equal(values, values),
        lambda values: values.repeat_interleave(values),
        lambda values: values.index_put_((values > 0,), values[1:] + 1),
    ],
    ids=["item", "bool", "tolist", "cpu", "numpy", "asarray", "nonzero", "mask", "unique", "equal", "repeat", "put"],
)
def test_a_host_that_waits_for_the_device_is_refused(wait):
    values = torch.arange(3)
    with pytest.raises(CaptureError, match="the host waits for the device during a capture"):
        captured(wait, values)
    wait(values)
    assert not is_capturing()


def test_an_array_of_the_host_is_refused_and_a_number_is_not():
    values = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(CaptureError, match="an array of the host is brought to the device"):
        captured(lambda: values + torch.tensor([1, 2, 3]))

    def fill():
        values[0] = 7
        values[values == 0] = 5

    graph, _ = captured(fill)
    graph.replay()
    assert values.tolist() == [7, 5, 5]


def test_what_a_replay_does_not_write_is_poison():
    static = torch.ones(2)

    def sum_or_rest():
        fresh = torch.empty(4)
        fresh[:2].copy_(static)
        return fresh, torch.empty(2, dtype=torch.int32)

    graph, (fresh, numbers) = captured(sum_or_rest)
    for _ in range(2):
        graph.replay()
        assert fresh[:2].tolist() == [1.0, 1.0]
        assert fresh[2:].isnan().all()
        assert numbers.tolist() == [POISON] * 2
        fresh.zero_()
        numbers.zero_()


def test_a_write_past_the_end_is_seen():
    graph, values = captured(lambda: torch.zeros(3, dtype=torch.int64))
    graph.replay()
    assert values.tolist() == [0, 0, 0]

    def past_the_end():
        values = torch.zeros(3, dtype=torch.int64)
        count_up(values, 4, 1)
        return values

    graph, values = captured(past_the_end)
    with pytest.raises(CaptureError, match="wrote past a tensor"):
        graph.replay()
    assert values.tolist() == [1, 2, 3]


def test_graphs_of_one_memory_take_what_no_one_holds():
    static = torch.arange(3)
    first, (kept, dropped) = captured(lambda: (static + 1, static + 2))
    address = first._freeze(dropped)
    del dropped
    second, doubled = captured(torch.mul, kept, 2, pool=first.pool())
    first.replay()
    assert address.tolist() == [2, 3, 4]
    second.replay()
    assert (kept.tolist(), doubled.tolist()) == ([1, 2, 3], [2, 4, 6])
    assert address.tolist() == [POISON] * 3
    del kept
    second.replay()
    assert doubled.tolist() == [2, 4, 6], "what a graph reads stays, as long as its capture has held it"


def test_a_capture_that_fails_leaves_no_trace():
    with pytest.raises(ValueError, match="planted"), SimulatedGraph().capture():
        raise ValueError("planted")
    assert not is_capturing()
    assert torch.arange(2).tolist() == [0, 1]
