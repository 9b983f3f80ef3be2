"""Random sequences of batch sizes: padded replay = exact replay = eager = reference, whatever was replayed before.

``python -m tests.gpu.worker.replays --sequences 10000 --jobs 12 --seed 1`` runs them in so many processes, each with
workers of its own that live through all its sequences, and prints how many replays there were of which kind. What
batches are loaded into is guarded and poisoned; without a GPU, where it needs ``TRITON_INTERPRET=1``, all memory of
the graphs is.
"""

import argparse
import gc
import multiprocessing
import random
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import torch

from specsim.checkpoints.in_numpy import mapped
from specsim.config import SpecConfig
from specsim.gpu.arrays import keep, to_numpy
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import guarding_buffers, simulating_graphs
from specsim.gpu.worker import carried, pools, stages, transfer
from specsim.gpu.worker.graphs import bucket_for
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.steps.numbered_runs import PatternNumbers
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import IN_TURN, Schedule

CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
KINDS = ((False, TREE), (False, CHAIN), (True, CHAIN), (True, TREE))
"""Whether the loop is V1, and its sizes; sequences take turns."""

RULED = ((False, CHAIN, "block"), (False, TREE, "target-draw"), (True, CHAIN, "block"), (True, TREE, "target-draw"))
"""The same by other rules of acceptance."""

PROMPT, VOCABULARY = 5, 32


def exact_sizes(most):
    """Return a bucket for every batch size."""
    return tuple(range(1, most + 1))


def padded_sizes(most):
    """Return two buckets, which pad most batch sizes."""
    return most // 2, most


@dataclass
class Lanes:
    """Workers of one loop and configuration that all run the same; the first is the reference.

    ``seen`` counts what their replays came to, ``live`` has how many requests each bucket was last replayed with,
    ``owned`` the rows that have had one, ``noted`` what the phases of each worker handed over since a sequence began.
    """

    is_v1: bool
    config: SpecConfig
    most: int
    turns: int
    acceptance: str = "token"
    seen: Counter = field(default_factory=Counter)
    live: dict = field(default_factory=dict)
    owned: set = field(default_factory=set)
    noted: dict = field(default_factory=dict)

    def __post_init__(self):
        longest = Request(0, [0] * PROMPT, self.turns * self.config.num_draft_tokens)
        self.sizes = sizes_for(self.config, [longest], self.most, schedule=Schedule(num_drafts=PatternNumbers((0,))))
        believed, own = (ReferenceWorkerV1, GpuWorkerV1) if self.is_v1 else (ReferenceWorker, GpuWorker)
        model = HashModel(VOCABULARY, 3, 0.8)

        def own_worker(use_graphs, buckets=exact_sizes):
            with patch.object(stages, "bucket_sizes", buckets):
                options = {"use_graphs": use_graphs, "acceptance": self.acceptance}
                return own(self.config, load_on_device(model), self.sizes, **options)

        self.workers = {
            "reference": believed(self.config, load_model(model), self.sizes, acceptance=self.acceptance),
            "eager": own_worker(False),
            "exact": own_worker(True),
            "padded": own_worker(True, padded_sizes),
        }

    def play(self, drawn):
        """Run one sequence that is drawn, and raise AssertionError where a worker is not as the reference is."""
        self.noted = {name: [] for name in self.workers}
        (self._play_engines if self.is_v1 else self._play_rows)(drawn)
        self.seen["sequences"] += 1
        self._compare()

    def _play_rows(self, drawn):
        """Decode any of the rows in any order, each batch anew: V2 carries what starts drafts by row."""
        rows = drawn.sample(range(1, self.most + 1), drawn.randint(1, self.most))
        requests = [request_of(drawn, number, 1) for number in range(len(rows))]
        width, slots = self.sizes.row_width, list(range(1, self.sizes.num_slots))
        drawn.shuffle(slots)
        ranges = [
            SlotRange(row, 0, width, tuple(slots[place * width : (place + 1) * width]))
            for place, row in enumerate(rows)
        ]
        self.owned |= set(rows)
        first = {}
        for name, worker in self.workers.items():
            worker.assign_slots(ranges)
            worker.assign_choices(rows, [request.choice for request in requests])
            first[name] = worker.prefill(rows, [PromptChunk.whole(request.prompt) for request in requests])
            assert first[name] == first["reference"], f"{name}: first tokens"
        for _ in range(drawn.randint(1, self.turns)):
            batch = drawn.sample(rows, drawn.randint(1, len(rows)))
            most = self.config.num_steps
            mixed = [drawn.randint(0, most) for _ in batch[1:]]
            steps = drawn.choice([None, None, most - 1, [most, *mixed]])
            self._note({name: worker.decode(batch, steps) for name, worker in self.workers.items()})

    def _play_engines(self, drawn):
        """Let requests join and leave as engines schedule them: V1 carries what starts drafts as a batch."""
        requests = [request_of(drawn, number, drawn.randint(1, self.turns)) for number in range(self.most + 1)]
        requests, max_batch = requests[: drawn.randint(1, len(requests))], drawn.randint(1, self.most)
        pattern = (self.config.num_steps, *(drawn.randint(0, self.config.num_steps) for _ in range(2)))
        schedule = drawn.choice([IN_TURN, IN_TURN, Schedule(num_drafts=PatternNumbers(pattern))])
        engines = {name: Engine(worker, max_batch, schedule=schedule) for name, worker in self.workers.items()}
        for engine in engines.values():
            for request in requests:
                engine.submit(request.fresh())
        believed = engines["reference"]
        while believed.has_work:
            iterations = {name: engine.step() for name, engine in engines.items()}
            if iterations["reference"] is not None:
                self._note(iterations)

    def _note(self, iterations):
        """Keep what the phases of an iteration handed over; nothing is brought to the host but its counts."""
        with patch.object(transfer, "to_numpy", keep):
            for name, worker in self.workers.items():
                self.noted[name].append(mapped(worker.phases(), _copied))
        for name, iteration in iterations.items():
            for what in ("num_accepted_drafts", "num_accepted_tokens"):
                expected = vars(iterations["reference"])[what]
                np.testing.assert_array_equal(vars(iteration)[what], expected, err_msg=f"{name}: {what}")
        self._count(len(expected))

    def _compare(self):
        """Compare every phase, then maps, pools and what is carried, but for padding and rows that had no owner."""
        believed, expected = self.noted["reference"], self.workers["reference"].state()
        for name, worker in self.workers.items():
            with ExitStack() as stack:
                for place in (pools,) if self.is_v1 else (pools, carried):
                    stack.enter_context(patch.object(place, "to_numpy", keep))
                phases, state = on_the_host((self.noted[name], worker.state()))
            for number, pair in enumerate(zip(believed, phases, strict=True)):
                divergence = first_divergence(number, *pair)
                assert divergence is None, f"{name}: {divergence}"
            for what, values in state.items():
                lists = (values, expected[what]) if isinstance(values, list) else ([values], [expected[what]])
                is_by_row = len(lists[0][0]) == self.sizes.num_rows if lists[0] else False
                kept = sorted(self.owned) if is_by_row and not self.is_v1 else slice(1, None)
                for got, wanted in zip(*lists, strict=True):
                    np.testing.assert_array_equal(got[kept], wanted[kept], err_msg=f"{name}: {what}")

    def _count(self, live):
        bucket = bucket_for(live, padded_sizes(self.most))
        self.seen["iterations"] += 1
        self.seen["padded"] += live < bucket
        self.seen["of fewer requests than the bucket had before"] += live < self.live.get(bucket, 0)
        self.live[bucket] = live


def _copied(values):
    """Copy an array of the reference; what lies on the device has been."""
    return values.copy() if isinstance(values, np.ndarray) else values


def on_the_host(value):
    """Bring the tensors of nested containers and phases to the host, in one copy that is waited for once."""
    tensors = []

    def noted(one):
        tensors.extend([one] if isinstance(one, torch.Tensor) else [])
        return one

    mapped(value, noted)
    if not tensors:
        return value
    packed = to_numpy(torch.cat([one.contiguous().reshape(-1).view(torch.uint8) for one in tensors]))
    ends = np.cumsum([one.nbytes for one in tensors])
    arrays = iter(
        [
            part.view(to_numpy(one[:0].cpu()).dtype).reshape(one.shape)
            for part, one in zip(np.split(packed, ends[:-1]), tensors, strict=True)
        ]
    )
    return mapped(value, lambda one: next(arrays) if isinstance(one, torch.Tensor) else one)


def request_of(drawn, number, max_new_tokens):
    """Draw a request; every fourth is sampled."""
    prompt = [drawn.randrange(VOCABULARY) for _ in range(drawn.randint(1, PROMPT))]
    sampling = SamplingParameters(1.2, seed=drawn.randrange(1000)) if drawn.random() < 0.25 else None
    return Request(number, prompt, max_new_tokens, sampling=sampling)


def run_sequences(numbers, most=4, turns=3, max_seconds=None, kinds=KINDS):
    """Run the sequences of these numbers on workers of every kind, and return what was counted."""
    begun, lanes = time.monotonic(), {}
    with simulating_graphs(), guarding_buffers():
        for number in numbers:
            if max_seconds is not None and time.monotonic() - begun > max_seconds:
                break
            kind = is_v1, config, *rule = kinds[number % len(kinds)]
            if kind not in lanes:
                lanes[kind] = Lanes(is_v1, config, most, turns, *rule)
            try:
                lanes[kind].play(random.Random(number))
            except AssertionError as error:
                raise AssertionError(f"sequence {number}: {error}") from error
    return sum((one.seen for one in lanes.values()), Counter())


def _job(given):
    # NOTE: a capture collects garbage, and the heap of what is imported is long to walk.
    gc.freeze()
    try:
        return run_sequences(*given), None
    except Exception:
        return Counter(), traceback.format_exc()


def main():
    """Run sequences in processes; exit with 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=20, help="sequences in all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0, help="which sequences: the same number draws the same ones")
    parser.add_argument("--most", type=int, default=8, help="requests of the largest batch")
    parser.add_argument("--turns", type=int, default=6, help="iterations of the longest sequence of V2")
    parser.add_argument("--max-seconds", type=float, help="when a process stops, in seconds; what it ran is printed")
    given = parser.parse_args()
    first = given.seed * 1_000_000
    numbers = [range(first + job, first + given.sequences, given.jobs) for job in range(given.jobs)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        done = pool.map(_job, [(one, given.most, given.turns, given.max_seconds) for one in numbers], chunksize=1)
    for _, error in done:
        if error is not None:
            print(error)
    print("sequences of each process:", *(seen["sequences"] for seen, _ in done))
    print(dict(sum((seen for seen, _ in done), Counter())))
    raise SystemExit(any(error is not None for _, error in done))


if __name__ == "__main__":
    main()
