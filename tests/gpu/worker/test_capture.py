import gc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from specsim import gpu
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.gpu.launching.simulated import SimulatedGraph
from specsim.gpu.worker.graphs import NUM_WARM_UPS, capture
from specsim.operations import RECORDS
from specsim.properties import strategies

GROUPS = (
    "draft",
    "draft_cache",
    "tree",
    "verify",
    "probabilities",
    "acceptance",
    "grammar",
    "attention",
    "heads",
    "frozen_kv",
    "frozen_forwards",
)
OPERATIONS = [name for name, operation in RECORDS.items() if operation.group in GROUPS]

NUM_EXAMPLES = 10 if DEVICE.type == "cuda" else 4


def carry(value):
    if isinstance(value, list):
        return [carry(entry) for entry in value]
    return from_numpy(value) if isinstance(value, np.ndarray) else value


def capture_call(function):
    """Return a graph of a call, and what the call returned."""
    if DEVICE.type != "cuda":
        graph = SimulatedGraph()
        with graph.capture():
            return graph, function()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, function()


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def storages_of(value):
    """Return the storages of tensors, also of those in lists."""
    if isinstance(value, list):
        return [storage for entry in value for storage in storages_of(entry)]
    return [value.untyped_storage()] if isinstance(value, torch.Tensor) else []


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_captured_call_reads_what_is_there_when_it_is_replayed(name):
    """Arguments are zeros while it is captured, so that what it has kept of them shows."""
    function = vars(gpu)[name]

    @settings(max_examples=NUM_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.for_operation(name).map(lambda case: {key: carry(value) for key, value in case.items()}))
    def replays(arguments):
        storages = [storage for value in arguments.values() for storage in storages_of(value)]
        contents = [storage.clone() for storage in storages]
        expected = as_tuple(function(**arguments))
        for storage in storages:
            storage.fill_(0)
        graph, captured = capture_call(lambda: as_tuple(function(**arguments)))
        for storage, given_bytes in zip(storages, contents, strict=True):
            storage.copy_(given_bytes)
        graph.replay()
        for spec, output, other in zip(RECORDS[name].contract.outputs, captured, expected, strict=True):
            if output is not None and spec.defined.rule == "all":
                assert torch.equal(output.cpu().view(torch.uint8), other.cpu().view(torch.uint8))

    replays()


def test_no_one_collects_garbage_during_a_capture():
    was_enabled = []

    rows = torch.zeros(4, dtype=torch.int64, device=DEVICE)

    def noting():
        was_enabled.append(gc.isenabled())
        rows.mul_(2)

    capture(noting, None)
    assert was_enabled == [True] * NUM_WARM_UPS + [False]
    assert gc.isenabled()
