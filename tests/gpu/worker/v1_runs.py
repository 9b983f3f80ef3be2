"""Runs of the device's V1 worker beside a worker that is believed."""

from dataclasses import dataclass
from itertools import count

import numpy as np

from specsim.config import SpecConfig
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.simulation.comparing.history import first_divergence, first_divergence_of_v1
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN

CHAIN = SpecConfig(1, 3, 4)
MODEL, PERFECT = HashModel(32, 3, 0.8), HashModel(32, 3, 1.0)


@dataclass
class Pair:
    """Two engines on the same requests, of which the first is believed, step by step; ``seen`` is what both came to."""

    engines: list[Engine]
    compare: object
    seen: set[Tag]

    def play(self, asked, delays=None):
        """Run to the end; raise where phases, books, carried state or what requests come to differ."""
        delays = delays or [0] * len(asked)
        for number in count():
            for request, delay in zip(asked, delays, strict=True):
                if delay == number:
                    for engine in self.engines:
                        engine.submit(request.fresh())
            left, right = self.engines
            if not left.has_work and number > max(delays):
                break
            ran = [engine.step() is not None for engine in self.engines]
            assert ran[0] == ran[1]
            right.scheduler.check_ledger()
            if ran[0]:
                divergence = self.compare(number, left.worker.phases(), right.worker.phases())
                assert divergence is None, str(divergence)
            if left.is_v1:
                self.compare_states()
        assert left.counters == right.counters or not left.is_v1
        for one, other in zip(left.scheduler.finished, right.scheduler.finished, strict=True):
            assert (other.request_id, other.output, other.finish) == (one.request_id, one.output, one.finish)
            assert other.counters == one.counters

    def compare_states(self):
        """The map, every pool and what is carried are the same, but for what padding writes: row 0 and slot 0."""
        expected, got = (engine.worker.state() for engine in self.engines)
        assert got.keys() == expected.keys()
        for name, values in expected.items():
            pairs = zip(values, got[name], strict=True) if isinstance(values, list) else [(values, got[name])]
            for one, other in pairs:
                np.testing.assert_array_equal(other[1:], one[1:], err_msg=name)


def pair(config, asked, max_batch, model=MODEL, believed=ReferenceWorkerV1, sizes=None, schedule=IN_TURN, **options):
    adaptive = options.pop("adaptive", lambda: None)
    sizes = sizes or sizes_for(config, asked, max_batch)
    workers = [
        believed(config, load_model(model), sizes),
        GpuWorkerV1(config, load_on_device(model), sizes, **options),
    ]
    compare = first_divergence if believed is ReferenceWorkerV1 else first_divergence_of_v1
    seen = set()
    engines = [
        Engine(one, max_batch, shuffle_seed=5, adaptive=adaptive(), schedule=schedule, observer=seen.add)
        for one in workers
    ]
    return Pair(engines, compare, seen)


def requests(number, max_new_tokens=4):
    """Return requests of different lengths, some of which an EOS ends."""
    return [Request(one, [one % 30, 7, 3][: 1 + one % 3], max_new_tokens + one % 3, 11) for one in range(number)]


def mixed_requests(number, max_new_tokens):
    """Return requests with processor, grammar, both or neither, of which every other one is sampled."""
    kinds = [(None, Automaton(32, 3, 0.75, 12, 5)), (Shifted(2), None), (Shifted(1), Automaton(32, 2, 0.5, 99, 7))]
    return [
        Request(
            one,
            [one % 30, 2],
            max_new_tokens,
            processor=processor,
            grammar=grammar and grammar.start,
            sampling=SamplingParameters(1.2, seed=one) if one % 2 else None,
        )
        for one, (processor, grammar) in enumerate([*kinds, (None, None)][place % 4] for place in range(number))
    ]


def joining_and_leaving():
    """Return requests of a perfect chain that outputs 4 tokens a verify, and when they come.

    The first is cut and leaves the batch, which another joins; then the batch ends as a whole; the last is alone.
    """
    return [Request(0, [1], 4), Request(1, [2, 4], 9), Request(2, [3], 5), Request(3, [5], 4)], [0, 0, 1, 3]
