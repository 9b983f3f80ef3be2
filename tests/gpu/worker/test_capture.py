import gc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from specsim import gpu
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.gpu.worker.graphs import capture
from specsim.operations import RECORDS
from specsim.properties import strategies

GROUPS = ("draft", "draft_cache", "tree", "verify", "probabilities", "acceptance", "grammar", "attention", "heads")
OPERATIONS = [name for name, operation in RECORDS.items() if operation.group in GROUPS]

pytestmark = pytest.mark.skipif(DEVICE.type != "cuda", reason="only a GPU captures graphs")


def carry(value):
    if isinstance(value, list):
        return [carry(entry) for entry in value]
    return from_numpy(value) if isinstance(value, np.ndarray) else value


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_captured_call_replays(name):
    function = vars(gpu)[name]

    @settings(max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.for_operation(name).map(lambda case: {key: carry(value) for key, value in case.items()}))
    def replays(arguments):
        expected = as_tuple(function(**arguments))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = as_tuple(function(**arguments))
        for output in captured:
            if output is not None and output.numel():
                output.view(torch.uint8).zero_()
        graph.replay()
        for spec, output, other in zip(RECORDS[name].contract.outputs, captured, expected, strict=True):
            if output is not None and spec.defined.rule == "all":
                assert torch.equal(output.cpu().view(torch.uint8), other.cpu().view(torch.uint8))

    replays()


@pytest.fixture
def eager_collection():
    """Let Python collect garbage at every chance."""
    usual = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*usual)


def test_a_graph_that_nobody_holds_does_not_end_a_capture(eager_collection):
    rows = torch.zeros(4, dtype=torch.int64, device=DEVICE)

    def scale(values):
        return values * len([[] for _ in range(100)])

    held = [capture(scale, rows, DEVICE, None)]

    def forget_and_scale(values):
        if torch.cuda.is_current_stream_capturing():
            cycle = [held.pop()]
            cycle.append(cycle)
        return scale(values)

    captured = capture(forget_and_scale, rows, DEVICE, None)
    captured.rows.fill_(3)
    captured.graph.replay()
    assert captured.outputs.tolist() == [300] * 4
