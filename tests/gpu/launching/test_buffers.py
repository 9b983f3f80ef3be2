import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

from specsim import Reason, SpecRejection, gpu
from specsim.environment import DEBUG
from specsim.gpu.arrays import from_numpy, to_numpy
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.switches import checks_values, debugging, poisoned


def test_arrays_of_one_call_share_a_device():
    with pytest.raises(SpecRejection) as caught:
        gpu.map_hot_tokens(from_numpy(np.zeros((1, 1), np.int64)), torch.zeros(4, dtype=torch.int64, device="meta"))
    assert caught.value.reason is Reason.WRONG_DEVICE
    assert "hot_token_id.device is meta" in str(caught.value)


def test_fresh_memory_holds_the_pattern():
    arguments = {
        "topk_index": from_numpy(np.zeros((2, 3), np.int64)),
        "hot_token_id": from_numpy(np.zeros(4, np.int64)),
    }
    with poisoned(0xA5):
        call = prepare("map_hot_tokens", arguments)
        fresh = (call.outputs, call.scratch(3, 2, dtype=torch.int64))
    for tensor in fresh:
        assert to_numpy(tensor).view(np.uint8).reshape(-1).tolist() == [0xA5] * 48


def test_entries_are_checked_only_while_debugging():
    index, table = from_numpy(np.array([[-7]])), from_numpy(np.arange(4))
    with debugging():
        with pytest.raises(SpecRejection) as caught:
            gpu.map_hot_tokens(index, table)
        assert caught.value.reason is Reason.TOKEN_OUT_OF_RANGE
        with debugging(False):
            assert gpu.map_hot_tokens(index, table).shape == (1, 1)


def test_entries_are_not_checked_while_a_graph_is_captured(monkeypatch):
    """The check waits for the device, which a capture forbids."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for is_capturing in (False, True):
        monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: is_capturing)  # noqa: B023
        with debugging():
            assert checks_values() is not is_capturing


def test_a_variable_has_entries_checked_from_the_start():
    code = "from specsim.gpu.switches import checks_values; print(checks_values())"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, DEBUG: "True"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout == "True\n", ran.stderr


def test_a_rejected_call_writes_nothing():
    buffers = [from_numpy(np.arange(8).reshape(4, 2))]
    before = to_numpy(buffers[0]).copy()
    target, source = from_numpy(np.array([1, 2])), from_numpy(np.array([2, 9]))
    with debugging(), pytest.raises(SpecRejection) as caught:
        gpu.move_kv_cache(buffers, target, source)
    assert caught.value.reason is Reason.SLOT_OUT_OF_RANGE
    assert to_numpy(buffers[0]).tolist() == before.tolist()


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
def test_arrays_come_back_as_they_were(dtype):
    values = np.arange(24).reshape(4, 6).astype(dtype) / 8
    for given in (values, values[1:, ::2], values.T, values[::-1]):
        carried = from_numpy(given)
        fetched = to_numpy(carried)
        assert carried.dtype is (torch.float32 if dtype is np.float32 else torch.bfloat16)
        assert (fetched.dtype, fetched.tolist()) == (given.dtype, given.tolist())
    assert from_numpy(values[1:, ::2]).stride() == (6, 2)


def test_entries_of_bfloat16_are_checked():
    ones = from_numpy(np.ones(1, np.float32))
    logits = np.zeros((1, 3), bfloat16)
    logits[0, 1] = np.nan
    with debugging(), pytest.raises(SpecRejection) as caught:
        gpu.target_probabilities(from_numpy(logits), ones, from_numpy(np.ones(1, np.int32)), ones, ones, 1)
    assert caught.value.reason is Reason.NAN_SCORE
