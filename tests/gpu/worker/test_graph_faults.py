"""Faults of graphs are seen in replays beside the reference; eager runs of most show nothing."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.launching.simulated import CaptureError
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker import stages, v2
from specsim.gpu.worker.carried import WaitingRows
from specsim.gpu.worker.stages import Batches, Stages, padding_of
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.steps.numbered_runs import PatternNumbers
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import SpecRejection
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule

CHAIN, MODEL = SpecConfig(1, 2, 3), HashModel(32, 3, 0.8)
MIXED = Schedule(num_drafts=PatternNumbers((0, 1, 2)))


def greedy(lengths):
    """Return requests that output so many tokens."""
    return [Request(number, [number % 30, 7, 3][: 1 + number % 3], length) for number, length in enumerate(lengths)]


@dataclass(frozen=True)
class Run:
    """What a fault is looked for in: requests, of which the last ends first, and how they are run."""

    is_v1: bool = False
    schedule: Schedule = IN_TURN
    sampling: SamplingParameters | None = None

    def play(self, use_graphs):
        """Run to the end beside the reference; raise where phases, what was returned, or rows differ."""
        asked = [replace(one, sampling=self.sampling) for one in greedy((6, 7, 5, 3))]
        sizes = sizes_for(CHAIN, asked, 4, schedule=self.schedule)
        own = GpuWorkerV1 if self.is_v1 else GpuWorker
        workers = [
            (ReferenceWorkerV1 if self.is_v1 else ReferenceWorker)(CHAIN, load_model(MODEL), sizes),
            own(CHAIN, load_on_device(MODEL), sizes, use_graphs=use_graphs, pads=True),
        ]
        engines = [Engine(one, 4, schedule=self.schedule) for one in workers]
        for engine in engines:
            for request in asked:
                engine.submit(request.fresh())
        returned = []
        while engines[0].has_work:
            iterations = [engine.step() for engine in engines]
            for iteration, tokens in returned:
                assert np.array_equal(iteration.tokens, tokens), "what was returned is another since"
            if iterations[1] is not None:
                returned.append((iterations[1], iterations[1].tokens.copy()))
                divergence = first_divergence(len(returned), *(one.phases() for one in workers))
                assert divergence is None, str(divergence)
        expected, got = (one.state()["seq_lens"] for one in workers)
        assert np.array_equal(got[1:], expected[1:]), f"lengths by row = {got[1:]}, but should be {expected[1:]}"


RUNS = {
    "v2": Run(),
    "v1": Run(is_v1=True),
    "mixed": Run(schedule=MIXED),
    "narrower": Run(schedule=Schedule(num_drafts=PatternNumbers((1,)))),
    "sampled": Run(sampling=SamplingParameters(1.2, seed=3)),
}
INIT, LOAD, ACCEPT, CAPTURE = Stages.__init__, Stages.load, Stages._accept, Batches._capture
TAKE, READ, BUCKET = WaitingRows.take, WaitingRows.read, stages.bucket_for


def noting_the_longest(self, rows):
    """Take a batch, and note the length of its longest request on the host."""
    self.longest = int(self.carried["seq_lens"][list(rows)].max()) if rows else 1
    return TAKE(self, rows)


def up_to_the_longest(self, batch):
    """Read a batch, whose lengths are at most the one that was noted."""
    start = READ(self, batch)
    return replace(start, seq_lens=start.seq_lens.clamp(max=self.longest))


def load_into_other_memory(self, batch, window=None, own_steps=None):
    """Load into tensors that are made for it."""
    self._batch = padding_of(self._batch, len(self._batch.req_pool_indices))
    LOAD(self, batch, window, own_steps)


def load_live_rows_alone(self, batch, window=None, own_steps=None):
    """Load and leave the rows after the live ones as they are."""
    rows = self._batch.req_pool_indices
    old = rows[len(batch.req_pool_indices) :].clone()
    LOAD(self, batch, window, own_steps)
    rows[len(batch.req_pool_indices) :] = old


def load_once(self, batch, window=None, own_steps=None):
    """Load the slots of the first batch alone."""
    LOAD(self, batch, None if hasattr(self, "has_slots") else window, own_steps)
    self.has_slots = window is not None


def count_once(self):
    """Accept, with the number of tokens that was counted first."""
    ACCEPT(self)
    if not hasattr(self, "first_count"):
        self.first_count = self.verify_output.num_accepted_tokens
    self.verify_output = replace(self.verify_output, num_accepted_tokens=self.first_count)


def count_in_place(self):
    """Accept, and count tokens where drafts are counted, so that both counts are one buffer."""
    ACCEPT(self)
    drafts = self.verify_output.num_accepted_drafts
    self.verify_output = replace(self.verify_output, num_accepted_tokens=drafts.add_(1))


def pad_past_the_end(self):
    """Accept, and clear a row more than the batch has."""
    ACCEPT(self)
    rows = self._batch.req_pool_indices
    rows.as_strided((len(rows) + 1,), (1,))[-1:].zero_()


def sized_by_the_targets_formula(self, shared, kind, *arguments):
    """Size the stages of fewer steps as if a draft's one token a request grew with them, as the target's tree does."""
    INIT(self, shared, kind, *arguments)
    if kind.num_steps < shared.config.num_steps:
        num_tokens = kind.num_steps + 1 - shared.config.num_steps
        self._config = replace(self._config, num_draft_tokens=num_tokens)


def look_at_a_count(self):
    """Accept, and let the host see how many tokens that brought."""
    ACCEPT(self)
    self.most = self.verify_output.num_accepted_tokens.max().item()


def in_the_bucket_below(num_requests, buckets):
    """Return a bucket that is too small."""
    return buckets[max(buckets.index(BUCKET(num_requests, buckets)) - 1, 0)]


def capture_without(**given):
    """Return ``_capture`` that takes a graph of another kind for the batch."""

    def capture(self, size, kind, parts, like):
        return CAPTURE(self, size, replace(kind, **given), parts, like)

    return capture


@dataclass(frozen=True)
class Fault:
    """What is planted where, how it shows, and whether padded eager runs show it too."""

    planted: tuple
    error: type
    message: str
    run: Run = RUNS["v2"]
    shows_eagerly: bool = False


FAULTS = {
    "a length of the capture": Fault(
        ((WaitingRows, "take", noting_the_longest), (WaitingRows, "read", up_to_the_longest)),
        AssertionError,
        "seq_lens",
    ),
    "a tensor took the place of the captured one": Fault(
        ((Stages, "load", load_into_other_memory),), AssertionError, "req_pool_indices"
    ),
    "rows of an earlier batch": Fault(((Stages, "load", load_live_rows_alone),), AssertionError, "lengths by row"),
    "slots of an earlier batch": Fault(((Stages, "load", load_once),), AssertionError, "out_cache_loc", RUNS["v1"]),
    "one of the counts is left from before": Fault(
        ((Stages, "_accept", count_once),), AssertionError, "num_accepted_tokens"
    ),
    "both counts are one buffer": Fault(
        ((Stages, "_accept", count_in_place),), AssertionError, "num_accepted_drafts", shows_eagerly=True
    ),
    "a write past what is loaded": Fault(
        ((Stages, "_accept", pad_past_the_end),), CaptureError, "wrote past req_pool_indices"
    ),
    "a width of drafts by the target's formula": Fault(
        ((Stages, "__init__", sized_by_the_targets_formula),),
        SpecRejection,
        "num_draft_tokens",
        RUNS["narrower"],
        shows_eagerly=True,
    ),
    "the host waits": Fault(((Stages, "_accept", look_at_a_count),), CaptureError, "the host waits for the device"),
    "a bucket that is too small": Fault(
        ((stages, "bucket_for", in_the_bucket_below),), RuntimeError, "size", shows_eagerly=True
    ),
    "a graph of greedy requests": Fault(
        ((Batches, "_capture", capture_without(is_sampled=False)),),
        AssertionError,
        "predict",
        RUNS["sampled"],
    ),
    "a graph of other widths": Fault(
        ((Batches, "_capture", capture_without(is_cut=False)),),
        SpecRejection,
        "num_accepted_drafts is 1, but should be 0",
        RUNS["mixed"],
    ),
    "outputs that are not copied": Fault(
        ((v2, "download", lambda tensors: [to_numpy(one) for one in tensors]),),
        AssertionError,
        "what was returned is another since",
    ),
}

SIMULATED = pytest.mark.skipif(DEVICE.type == "cuda", reason="no GPU may run a graph whose memory is gone")


@SIMULATED
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_graphs_is_seen_in_graphs(name, monkeypatch):
    fault = FAULTS[name]
    for place in fault.planted:
        monkeypatch.setattr(*place)
    with pytest.raises(fault.error, match=fault.message):
        fault.run.play(use_graphs=True)
    if not fault.shows_eagerly:
        fault.run.play(use_graphs=False)


@SIMULATED
@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_seen_without_a_fault(name):
    RUNS[name].play(use_graphs=True)
