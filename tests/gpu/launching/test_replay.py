"""Replays as on a GPU, with kernels that write down how they are started."""

import pytest
import torch
from triton.runtime import driver

from specsim.gpu.launching import launcher, prepared, replay
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.recording import record
from specsim.gpu.launching.replay import Misplaced, Replay
from tests.gpu.launching.test_launcher import Kernel


class Driver:
    """What Triton knows of a GPU."""

    def __init__(self):
        self.stream = 7

    def get_current_stream(self, device):
        return self.stream


@pytest.fixture
def gpu_driver(monkeypatch):
    """Let launches take the way that they take on a GPU; tensors of this machine have device -1."""
    monkeypatch.setattr(launcher, "INTERPRETED", False)
    monkeypatch.setattr(replay, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)
    monkeypatch.setattr(prepared, "starts_early", lambda device: True)
    active = driver._active
    there = Driver()
    driver.set_active(there)
    yield there
    driver._active = active


FIRST = Kernel("values_ptr", "index_ptr", "kept_ptr", "size")
SECOND = Kernel("kept_ptr", "list_ptrs", "column_ptr", "sum_ptr")
PLANS = Plan(FIRST, grid=(2,), sizes={"size": 3}, constants={"index_ptr": None}), Plan(SECOND, grid=(1,), sizes={})


@pytest.fixture(autouse=True)
def nothing_is_started():
    for kernel in (FIRST, SECOND):
        kernel.compiled.clear()
        kernel.started.clear()
    prepared._COMPILED.clear()


def launch_two(call):
    """Fill scratch memory, then read it beside a list, and write an output and a column of it."""
    kept = call.scratch(4, dtype=torch.int32)
    call.scratch(1, dtype=torch.int64)
    scratch = {"kept": kept}
    return [
        Launch(PLANS[0], {"values": call.arguments["values"]}, {}, scratch),
        Launch(
            PLANS[1],
            inputs={"list": tuple(call.arguments["tensors"])},
            outputs={"column": call.outputs[:, 1], "sum": call.outputs},
            scratch=scratch,
        ),
    ]


def call_of(offset=0):
    arguments = {
        "values": torch.zeros(64)[offset:],
        "size": 3,
        "tensors": [torch.zeros(4), torch.zeros(8)[4:]],
    }
    return Call("move_kv_cache", arguments, {}, torch.empty((4, 2), dtype=torch.int64), torch.device("cpu"), [])


def addresses_of(call):
    values, tensors = call.arguments["values"], call.arguments["tensors"]
    return [values.data_ptr(), *(one.data_ptr() for one in tensors)]


NAMES = ("values", "tensors")


def replay_of(call):
    recording = record(launch_two, call, NAMES, addresses_of(call))
    return Replay(recording, call, NAMES)


def test_kernels_are_compiled_at_first_and_started_on_addresses_after_that(gpu_driver):
    replayed = replay_of(call_of())
    first, second = call_of(), call_of()
    replayed.carry_out(first.arguments, addresses_of(first))
    assert (len(FIRST.compiled), len(SECOND.compiled), FIRST.started, SECOND.started) == (1, 1, [], [])
    assert FIRST.compiled[0][1]["values_ptr"].data_ptr() == first.arguments["values"].data_ptr()
    returned = replayed.carry_out(second.arguments, addresses_of(second))
    ((grid, stream, (values, index, kept, size)),) = FIRST.started
    assert (grid, stream, values, index, size) == ((2, 1, 1), 7, addresses_of(second)[0], None, 3)
    ((_, _, arguments),) = SECOND.started
    assert arguments == (kept, tuple(addresses_of(second)[1:]), returned.data_ptr() + 8, returned.data_ptr())
    assert (returned.shape, returned.dtype) == ((4, 2), torch.int64)


def test_kernels_are_prepared_anew_for_another_stream(gpu_driver):
    replayed, call = replay_of(call_of()), call_of()
    for stream in (7, 8, 8, 7):
        gpu_driver.stream = stream
        replayed.carry_out(call.arguments, addresses_of(call))
    assert (len(FIRST.compiled), [stream for _, stream, _ in FIRST.started]) == (2, [8, 7])


def test_streams_that_are_kept_are_bounded(gpu_driver, monkeypatch):
    monkeypatch.setattr(replay, "MOST_STREAMS", 2)
    replayed, call = replay_of(call_of()), call_of()
    for stream in range(5):
        gpu_driver.stream = stream
        replayed.carry_out(call.arguments, addresses_of(call))
    assert len(replayed._started) <= 2


def test_a_tensor_that_starts_between_words_is_recorded_as_such():
    call = call_of(offset=1)
    recording = record(launch_two, call, NAMES, addresses_of(call))
    assert recording.launches[0][1]["values"].offset == 0
    assert recording.num_scratch_bytes == 256


def test_a_launch_that_writes_entries_itself_is_not_recorded():
    def launch_and_clear(call):
        call.outputs[:, 1].zero_()
        return launch_two(call)

    call = call_of()
    assert record(launch_and_clear, call, NAMES, addresses_of(call)) is None


def test_a_launch_on_a_copy_is_not_recorded():
    def launch_on_a_copy(call):
        return launch_two(call._replace(arguments={**call.arguments, "values": call.arguments["values"].clone()}))

    call = call_of()
    assert record(launch_on_a_copy, call, NAMES, addresses_of(call)) is None


def test_what_is_no_launch_is_not_recorded_but_refused():
    call = call_of()
    with pytest.raises(TypeError, match="an operation returns its launches, not Tensor"):
        record(lambda given: given.outputs, call, NAMES, addresses_of(call))


def test_a_view_between_entries_of_its_storage_is_no_view():
    bytes_ = torch.zeros(64, dtype=torch.uint8)
    part = replay.Part(root=0, offset=0, shape=(2,), strides=(1,), dtype=torch.int64)
    with pytest.raises(Misplaced):
        replay.view_of(bytes_[4:], part)
