"""What a rank plays in a process of its own: an engine on some requests, or none, and faults on the way."""

import os
import time
from dataclasses import dataclass

from specsim.config import SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.padded import PaddedModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.ranks import Meeting, run_rank
from specsim.simulation.requests import Request

MODEL = HashModel(32, 3, 0.8)


@dataclass(frozen=True)
class Play:
    """What all ranks play: how many requests each has, on which worker; one may go away or fall silent in a verify."""

    config: SpecConfig
    requests: tuple[int, ...]
    is_v1: bool = False
    is_on_device: bool = False
    gone: int | None = None
    silent: int | None = None
    silent_s: float = 0.0
    fault_at: int = 2

    def asked(self, rank):
        return [Request(one, [rank, 7, 3 + one][: 2 + one % 2], 6 + 3 * one) for one in range(self.requests[rank])]

    def worker(self, model):
        sizes = sizes_for(self.config, [Request(0, [1] * 3, 20)] * 4, 4)
        if self.is_on_device:
            from specsim.gpu.worker.v1 import GpuWorkerV1
            from specsim.gpu.worker.v2 import GpuWorker

            if self.is_v1:
                return GpuWorkerV1(self.config, model, sizes, use_graphs=False, has_dp_attention=True)
            return GpuWorker(self.config, model, sizes, use_graphs=False)
        if self.is_v1:
            return ReferenceWorkerV1(self.config, model, sizes, has_dp_attention=True)
        return ReferenceWorker(self.config, model, sizes)

    def model(self):
        if self.is_on_device:
            from specsim.gpu.models import load_model as load_on_device

            return load_on_device(MODEL)
        return load_model(MODEL)

    def alone(self, rank):
        """Return what the requests of a rank come to without any other."""
        engine = Engine(self.worker(self.model()), 4)
        for request in self.asked(rank):
            engine.submit(request)
        return told(engine.run())

    def __call__(self, group):
        """Play one rank; return what its requests came to, its forwards by kind, and whom it lost."""
        padded = self.padded()
        meeting = Meeting(group, padded.run_padding)
        padded.agree, padded.look = meeting, self.looking(group, meeting)
        engine = Engine(self.worker(padded), 4)
        for request in self.asked(group.rank):
            engine.submit(request)
        run_rank(engine, meeting)
        forwards = {kind.name: count for kind, count in padded.forwards.items()}
        return told(engine.scheduler.finished), forwards, [str(one) for one in group.lost]

    def padded(self):
        width = self.config.num_steps + 1 if self.is_v1 else self.config.num_draft_tokens
        if not self.is_on_device:
            return PaddedModel(self.model(), width)
        from specsim.gpu.worker.carried import device_zeros
        from specsim.gpu.worker.ranks import torch_pad

        return PaddedModel(self.model(), width, pad=torch_pad, zeros=device_zeros)

    def looking(self, group, meeting):
        """Gather the rows of every forward; the rank that has a fault goes away or is silent before one of them."""
        seen = []

        def look(input_ids):
            seen.append(len(input_ids))
            if len(seen) == 3 + self.fault_at:
                if group.rank == self.gone:
                    os._exit(1)
                if group.rank == self.silent:
                    time.sleep(self.silent_s)
            meeting.gather(input_ids.cpu().numpy() if self.is_on_device else input_ids)

        return look


def told(requests):
    return sorted((one.request_id, tuple(one.output), one.finish_reason, one.counters) for one in requests)
