"""Copies of tensors for a recording: queued and never waited for, and none while a graph is captured."""

import ml_dtypes
import pytest
import torch

from specsim import gpu
from specsim.cli.replay import Said, judge
from specsim.config import SpecConfig
from specsim.conformance.cases import read_case
from specsim.conformance.recording.session import record
from specsim.gpu.arrays import DEVICE, fetch, is_capturing, keep
from specsim.gpu.models import load_model
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="streams and CUDA graphs exist on a GPU only")
CONFIG = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)


def outputs_of_a_run(use_graphs):
    """Return the output tokens of three requests."""
    requests = [Request(number, [number, 7, 3], 20) for number in range(3)]
    sizes = sizes_for(CONFIG, requests, 4)
    engine = Engine(GpuWorker(CONFIG, load_model(HashModel(64, 1, 0.7)), sizes, use_graphs=use_graphs), 4)
    for request in requests:
        engine.submit(request)
    return [request.output for request in engine.run()]


def outcomes(folder):
    return {judge(path, read_case(path)).said for path in folder.glob("*.json")}


def test_a_copy_is_what_was_there_and_keeps_its_element_type():
    value = torch.arange(12, dtype=torch.float32, device=DEVICE).bfloat16().view(3, 4).t().requires_grad_()
    kept = keep(value)
    with torch.no_grad():
        value.zero_()
    got = fetch(kept)
    assert (got.dtype, got.tolist()) == (ml_dtypes.bfloat16, [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]])
    assert kept.is_contiguous()
    assert not is_capturing()
    with pytest.raises(TypeError):
        keep([value])


@needs_gpu
@pytest.mark.parametrize("use_graphs", [False, True], ids=["eager", "graphs"])
def test_a_worker_is_recorded_and_does_what_it_does_unrecorded(tmp_path, use_graphs):
    expected = outputs_of_a_run(use_graphs)
    with record(tmp_path, "specsim.gpu", limit=6) as recording:
        assert outputs_of_a_run(use_graphs) == expected
    tally = recording.tallies["verify_tree_greedy"]
    assert (tally.in_captures > 0) == use_graphs
    assert tally.calls > tally.in_captures
    assert outcomes(tmp_path) == {Said.AGREES}
    if use_graphs:
        assert any("made while a graph was captured" in line for line in recording.in_words())


@needs_gpu
def test_no_one_waits_for_the_device_in_a_call_that_is_kept(tmp_path):
    tokens = torch.randint(0, 9, (64, 4), dtype=torch.int32, device=DEVICE)
    counts = torch.randint(1, 5, (64,), dtype=torch.int32, device=DEVICE)
    stream = torch.cuda.Stream()
    for _ in range(3):
        gpu.fill_bonus_tokens(tokens, counts)
    torch.cuda.synchronize()
    with record(tmp_path, "specsim.gpu", limit=20):
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(5):
                gpu.fill_bonus_tokens(tokens, counts)
                tokens += 1
            with torch.cuda.stream(stream):
                stream.wait_stream(torch.cuda.default_stream())
                for _ in range(5):
                    gpu.fill_bonus_tokens(tokens, counts)
                    tokens += 1
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert outcomes(tmp_path) == {Said.AGREES}
    assert len({read_case(path).id for path in tmp_path.glob("*.json")}) == 10


@needs_gpu
def test_a_capture_holds_the_kernels_of_the_engine_alone(tmp_path):
    tokens = torch.randint(0, 9, (4, 4), dtype=torch.int32, device=DEVICE)
    counts = torch.ones(4, dtype=torch.int32, device=DEVICE)
    gpu.fill_bonus_tokens(tokens, counts)
    graph = torch.cuda.CUDAGraph()
    with record(tmp_path, "specsim.gpu") as recording:
        with torch.cuda.graph(graph):
            bonus = gpu.fill_bonus_tokens(tokens, counts)
            recording.flush()
        tokens += 1
        graph.replay()
    assert bonus.tolist() == tokens[:, 0].tolist()
    assert vars(recording.tallies["fill_bonus_tokens"])["in_captures"] == 1
    assert list(tmp_path.glob("*.json")) == []
