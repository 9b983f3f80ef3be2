"""Without the check of entries, no entry that it would refuse leads a kernel out of its memory, or into no end."""

import signal

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import HealthCheck, Phase, given, seed, settings

from specsim.conformance.backend import load
from specsim.contracts.contract import ArraySpec
from specsim.gpu import chains, from_logits
from specsim.gpu.launching.blocks import INTERPRETED, power_of_two
from specsim.gpu.switches import debugging
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.strategies.malformed.arguments import array_at, num_arrays, with_array
from specsim.rejection import SpecRejection
from tests.gpu.watched_memory import watched_memory

GPU = load("specsim.gpu")
FAR = {"int32": 2**31 - 1, "int64": 2**40}
LONGEST = 60
"""Seconds of the processor of one call; a kernel that takes longer runs on without end."""

READ_UNWRITTEN = {"generate_token_bitmask": {"_fill_bitmask_kernel"}}
"""What reads fresh memory on purpose: a leader of no state, which is believed only where its row has that state."""

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="only the interpreter says which memory a kernel touches")


@triton.jit
def _read_past_the_end_kernel(source_ptr, target_ptr, length):
    tl.store(target_ptr, tl.load(source_ptr + length))


@pytest.fixture
def limited():
    """Return a function that calls another one, and raises TimeoutError where that takes too long."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)

    def call(function, arguments):
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        try:
            function(**arguments)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    yield call
    signal.signal(signal.SIGPROF, before)


def drawn(operation, num_cases):
    """Return some calls of an operation, always the same."""
    cases = []

    @seed(3)
    @settings(max_examples=num_cases, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(strategies.for_operation(operation))
    def collect(case):
        cases.append(case)

    collect()
    return cases


def sizes_of(case):
    """Return how many entries each array of a call has; an empty list has one of none."""
    return [
        np.size(entry) for value in case.values() for entry in ((value or [()]) if isinstance(value, list) else [value])
    ]


def malformed_calls(operation):
    """Yield calls with entries outside: one below, one far above, and all of them far above."""
    case = min(drawn(operation, 8), key=lambda case: (sizes_of(case).count(0), sum(sizes_of(case))))
    for spec in RECORDS[operation].contract.arrays:
        for index in range(num_arrays(spec, case)):
            values = array_at(case, spec, index)
            if values.dtype.name not in FAR or not values.size:
                continue
            for number in (-2, FAR[values.dtype.name]):
                once = np.array(values)
                once.reshape(-1)[values.size // 2] = number
                yield spec.name, with_array(case, spec, index, once)
            yield spec.name, with_array(case, spec, index, np.full_like(values, number))


def test_the_watch_sees_a_read_past_the_end(monkeypatch):
    source, target = torch.zeros(4, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    with watched_memory(monkeypatch) as memory:
        _read_past_the_end_kernel[(1,)](source, target, 1 << 40)
    assert memory.outside == {("_read_past_the_end_kernel", "load")}
    assert target.item() == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_operation_leaves_its_memory_whatever_its_entries(monkeypatch, limited):
    found, num_calls = set(), 0
    for name in RECORDS:
        for argument, call in malformed_calls(name):
            carried = GPU.carry(name, call)
            with watched_memory(monkeypatch) as memory, debugging(False):
                memory.allow(carried.values())
                try:
                    limited(GPU.functions[name], carried)
                except SpecRejection:
                    pass
                except Exception as error:
                    found.add(f"{name}: {argument} raises {type(error).__name__}: {error}")
            found |= {f"{name}: {argument} leads {place} to a {what} outside" for place, what in memory.outside}
            num_calls += 1
    assert not found, "\n".join(sorted(found))
    assert num_calls > 5 * len(RECORDS)


@triton.jit
def _read_what_comes_later_kernel(source_ptr, target_ptr, length):
    place = tl.arange(0, 4)
    tl.store(target_ptr + place, tl.load(source_ptr + place), mask=place < length)
    tl.store(source_ptr + place, tl.load(target_ptr + place))


@pytest.mark.parametrize("length", [3, 4])
def test_the_watch_sees_what_is_read_before_it_is_written(monkeypatch, length):
    source, target = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.int64)
    with watched_memory(monkeypatch) as memory:
        memory.begin([target])
        _read_what_comes_later_kernel[(1,)](source, target, length)
    assert memory.unwritten == ({"_read_what_comes_later_kernel"} if length == 3 else set())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("name", RECORDS)
def test_no_operation_reads_fresh_memory_before_it_is_written(monkeypatch, cut, name, is_cut):
    found = set()
    if is_cut:
        monkeypatch.setattr(from_logits, "LARGEST_PRECISE", 0)
        monkeypatch.setattr(chains, "BYTES_AHEAD", 1)
        cut(
            block=lambda size, most, interpreted: min(power_of_two(size), most, 256),
            chunks=lambda items, most, programs: max(1, most),
        )
    for case in drawn(name, 2 if is_cut else 3):
        carried = GPU.carry(name, case)
        with watched_memory(monkeypatch) as memory:
            memory.allow(carried.values())
            GPU.functions[name](**carried)
        found |= memory.unwritten
    assert found == READ_UNWRITTEN.get(name, set())


def test_the_check_refuses_them_by_name():
    """At least one call of every operation that has integers with bounds."""
    accepted = []
    for name, operation in RECORDS.items():
        bounded = {
            spec.name for spec in operation.contract.arrays if isinstance(spec, ArraySpec) and spec.low is not None
        }
        calls = [call for argument, call in malformed_calls(name) if argument in bounded]
        refused = 0
        for call in calls[:2]:
            with debugging():
                try:
                    GPU.run(name, call)
                except SpecRejection:
                    refused += 1
        if calls and not refused:
            accepted.append(name)
    assert not accepted
