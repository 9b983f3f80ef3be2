"""Recurrent state is committed after the last accepted node, for chains and trees, by every worker."""

import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from tests.specsim.simulation.models.foreign_runs import CPU, EAGER, WORKERS, on_device, on_numpy, requests
from tests.specsim.simulation.models.linear_attention import LinearAttention, greedy_output

CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(3, 3, 9)
CONFIGS = pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
PROMPTS = [[3], [5, 1, 4, 1, 5, 9, 2], [2, 7, 1], [8, 2, 8, 1, 8, 2]]
needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")


def decodes_without_loss(start, device, config, asked, max_batch, **options):
    run = start(LinearAttention(5, device), config, asked, max_batch, **options)
    outputs, believed = run.outputs(), LinearAttention(5, CPU)
    for request in asked:
        assert outputs[request.request_id] == greedy_output(believed, request.prompt, request.max_new_tokens)
    assert 0 < run.accept_rate < 1


@CONFIGS
@pytest.mark.parametrize("worker", WORKERS)
def test_numpy_workers_lose_nothing(worker, config):
    decodes_without_loss(WORKERS[worker], CPU, config, requests(PROMPTS, 12), 2)


@CONFIGS
@pytest.mark.parametrize("worker", EAGER)
def test_the_device_worker_loses_nothing(worker, config):
    decodes_without_loss(EAGER[worker], DEVICE, config, requests(PROMPTS[:3], 6), 2)


@needs_gpu
@CONFIGS
def test_graphs_lose_nothing(config):
    decodes_without_loss(on_device, DEVICE, config, requests(PROMPTS * 2, 30), 5, use_graphs=True)


@CONFIGS
@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("prefill_chunk", [None, 2])
def test_the_committed_state_is_that_of_a_fresh_prefill(worker, config, prefill_chunk):
    run = WORKERS[worker](LinearAttention(5, CPU), config, requests(PROMPTS, 8), 2, prefill_chunk=prefill_chunk)
    for _ in run.steps():
        assert run.differences_from_a_fresh_prefill() == set()


class StateOfTheNodeBefore:
    """A model in whose scratch the state after node i lies where that after node i+1 belongs: another step is kept."""

    def __init__(self, model):
        self.model, self.description = model, model.description
        self.prefill, self.draft_step, self.draft_extend = model.prefill, model.draft_step, model.draft_extend

    def verify(self, batch, kv, states, scratch):
        output = self.model.verify(batch, kv, states, scratch)
        for layers in scratch.values():
            for layer in layers:
                layer.copy_(layer.roll(1, dims=1))
        return output


@CONFIGS
def test_a_commit_of_the_wrong_step_is_seen(config):
    asked = requests(PROMPTS, 12)
    run = on_numpy(StateOfTheNodeBefore(LinearAttention(5, CPU)), config, asked, 2)
    found = set()
    for _ in run.steps():
        found |= run.differences_from_a_fresh_prefill()
    assert "states" in found
    outputs = {request.request_id: request.output for request in run.engine.scheduler.finished}
    believed = LinearAttention(5, CPU)
    assert any(outputs[one.request_id] != greedy_output(believed, one.prompt, one.max_new_tokens) for one in asked)
