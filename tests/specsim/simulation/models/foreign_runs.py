"""Runs of a model from outside through every worker, and what is checked of them."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from specsim.checkpoints.in_numpy import InNumpy
from specsim.conformance.backend import load
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.memory import SlotRange
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import Schedule

ORACLE = load("specsim.reference")
CPU = torch.device("cpu")


def requests(prompts, max_new_tokens):
    return [Request(number, list(prompt), max_new_tokens) for number, prompt in enumerate(prompts)]


@dataclass
class Run:
    """An engine whose worker runs a model, step by step."""

    engine: Engine
    fresh_worker: object

    def steps(self):
        """Step to the end; yield after every iteration."""
        while self.engine.has_work:
            self.engine.step()
            yield self.engine.worker

    def outputs(self):
        """Run to the end and return the outputs in order of submission."""
        for _ in self.steps():
            pass
        return {request.request_id: request.output for request in self.engine.scheduler.finished}

    @property
    def accept_rate(self):
        counts = [request.counters for request in self.engine.scheduler.finished]
        drafts = sum(one.num_accepted_drafts for one in counts)
        return drafts / (self.engine.num_drafts_per_round * sum(one.num_verifies for one in counts))

    def differences_from_a_fresh_prefill(self):
        """Return what a request carries that a prefill of its text would not have left, by name."""
        found = set()
        state = self.engine.worker.state()
        for request in self.engine.scheduler.running:
            committed = [*request.prompt, *request.output][:-1]
            fresh = self.fresh_worker()
            fresh.assign_slots([SlotRange(1, 0, len(committed), tuple(range(1, len(committed) + 1)))])
            bonus = fresh.prefill([1], [PromptChunk.whole(committed)])
            expected = fresh.state()
            if bonus != request.output[-1:]:
                found.add("bonus_tokens")
            for name in ("target_kv", "draft_kv"):
                for got, wanted in zip(state[name], expected[name], strict=True):
                    one, other = got[request.slots[: len(committed)]], wanted[1 : len(committed) + 1]
                    found |= set() if np.allclose(one, other, atol=1e-9) else {name}
            for got, wanted in zip(state["states"], expected["states"], strict=True):
                found |= set() if np.allclose(got[request.row], wanted[1], atol=1e-9) else {"states"}
            for name in ("seq_lens", "topk_index", "topk_p", "hidden_states"):
                if name in expected and not np.allclose(state[name][request.row], expected[name][1], atol=1e-6):
                    found.add(name)
        return found


def on_numpy(model, config, asked, max_batch, *, loop=ReferenceWorker, operations=ORACLE, prefill_chunk=None):
    """Return a run on a NumPy worker."""
    adapted, sizes = InNumpy(model), sizes_for(config, asked, max_batch)
    worker = loop(config, adapted, sizes, operations=operations)
    return _run(worker, lambda: ReferenceWorker(config, adapted, sizes), asked, max_batch, prefill_chunk)


def on_device(model, config, asked, max_batch, *, loop=GpuWorker, use_graphs=False, pads=False, prefill_chunk=None):
    """Return a run on a worker of the device."""
    sizes = sizes_for(config, asked, max_batch)
    worker = loop(config, model, sizes, use_graphs=use_graphs, pads=pads)
    return _run(worker, lambda: GpuWorker(config, model, sizes, use_graphs=False), asked, max_batch, prefill_chunk)


def _run(worker, fresh_worker, asked, max_batch, prefill_chunk):
    engine = Engine(worker, max_batch, shuffle_seed=3, schedule=Schedule(prefill_chunk=prefill_chunk))
    for request in asked:
        engine.submit(request.fresh())
    return Run(engine, fresh_worker)


WORKERS = {"numpy": on_numpy, "numpy-v1": partial(on_numpy, loop=ReferenceWorkerV1)}
EAGER = {
    "eager": on_device,
    "eager-padded": partial(on_device, pads=True),
    "eager-v1": partial(on_device, loop=GpuWorkerV1, pads=True),
}
