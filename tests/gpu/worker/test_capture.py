import gc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from specsim import gpu
from specsim.gpu.arrays import DEVICE, from_numpy
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


def test_no_one_collects_garbage_during_a_capture():
    was_enabled = []

    rows = torch.zeros(4, dtype=torch.int64, device=DEVICE)

    def noting():
        was_enabled.append(gc.isenabled())
        rows.mul_(2)

    capture(noting, None)
    assert was_enabled == [True] * NUM_WARM_UPS + [False]
    assert gc.isenabled()
