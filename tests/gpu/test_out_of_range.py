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
from specsim.gpu.launching.blocks import INTERPRETED
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
