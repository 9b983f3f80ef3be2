"""Reports on output tokens say what a prefill of the text before each of them does, on every worker."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import SpecConfig
from specsim.contracts.rounding import is_rounded_logprob
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.choice import TokenChoice
from specsim.host.sampling import SamplingParameters
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import Schedule

MODEL = HashModel(32)
CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(3, 3, 7)
SAMPLED = SamplingParameters(temperature=0.7, seed=3)
WORKERS = {
    "v1": (ReferenceWorkerV1, load_model),
    "v2": (ReferenceWorker, load_model),
    "gpu v1": (GpuWorkerV1, load_on_device),
    "gpu v2": (GpuWorker, load_on_device),
}
ON_REFERENCE = ("v1", "v2")


def asked():
    """Return requests that ask for different things, and one that asks for nothing."""
    return [
        Request(0, [1, 2, 3], 7, top_logprobs=2),
        Request(1, [4, 5], 6, sampling=SAMPLED, top_logprobs=0),
        Request(2, [6], 5),
        Request(3, [7, 8, 9, 1], 8, stop_tokens=range(0, 32, 3), top_logprobs=32),
    ]


def engine_of(name, config, requests, max_batch=3, **schedule):
    make, load = WORKERS[name]
    sizes = sizes_for(config, requests, max_batch)
    return Engine(make(config, load(MODEL), sizes), max_batch, schedule=Schedule(**schedule))


def ran(engine, requests):
    for request in requests:
        engine.submit(request.fresh())
    return engine.run()


def scored_alone(request):
    """Return what a prefill of one token after another says of every output token: token, score, alternatives."""
    text = [*request.prompt, *request.output]
    worker = ReferenceWorker(CHAIN, load_model(MODEL), sizes_for(CHAIN, [request], 1))
    worker.assign_choices([1], [TokenChoice(request.sampling, top_logprobs=32)])
    worker.assign_slots([SlotRange(1, 0, len(text), tuple(range(1, len(text) + 1)))])
    scored, start = [], 0
    for place, token in enumerate(request.output):
        end = len(request.prompt) + place
        worker.prefill([1], [PromptChunk(tuple(text[:end]), start, end)])
        ((reported,),) = worker.told()
        scored.append((token, dict(reported.top)[token], reported.top[: request.top_logprobs]))
        start = end
    return scored


def require_reported(request):
    if request.top_logprobs is None:
        assert request.logprobs == []
        return
    assert [one.token for one in request.logprobs] == request.output
    for one, (_, logprob, top) in zip(request.logprobs, scored_alone(request), strict=True):
        assert [token for token, _ in one.top] == [token for token, _ in top]
        got = np.array([one.logprob, *(score for _, score in one.top)], np.float32)
        assert is_rounded_logprob(np.array([logprob, *(score for _, score in top)], np.float32), got, 32).all()
        assert one.logprob < 0


@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("name", ON_REFERENCE)
def test_tokens_are_scored_as_plain_decoding_scores_them(name, config):
    requests = asked()
    for request in ran(engine_of(name, config, requests), requests):
        require_reported(request)


@pytest.mark.parametrize("name", ["gpu v1", "gpu v2"])
def test_the_device_scores_them_alike(name):
    requests = [replace(request, max_new_tokens=3) for request in asked()[:2]]
    for request in ran(engine_of(name, TREE, requests), requests):
        require_reported(request)


@pytest.mark.parametrize("name", ON_REFERENCE)
def test_asking_changes_no_token(name):
    requests = asked()
    reported = ran(engine_of(name, TREE, requests), requests)
    for request in requests:
        request.top_logprobs = None
    silent = ran(engine_of(name, TREE, requests), requests)
    assert [one.output for one in reported] == [one.output for one in silent]


def test_what_comes_late_or_after_an_end_is_not_reported():
    """Overlapped, in chunks, and with a pool that runs out: results come one turn late, some for no one."""
    requests = [Request(number, [number + 1] * 4, 20, top_logprobs=1) for number in range(6)]
    requests[2].stop_tokens = range(0, 32, 2)
    sizes = replace(sizes_for(CHAIN, requests, 4), num_slots=64)
    schedule = Schedule(is_overlapped=True, stream_seed=2, prefill_chunk=3, promised=Fraction(0))
    reach = Reach()
    engine = Engine(ReferenceWorker(CHAIN, load_model(MODEL), sizes), 4, schedule=schedule, observer=reach)
    for request in ran(engine, requests):
        require_reported(request)
    assert reach.counts[Tag.RETRACT] and reach.counts[Tag.LATE] and reach.counts[Tag.SIDE]


def test_a_grammar_and_a_processor_are_seen():
    """Scores are of the logits that the token was chosen from."""

    def only_even(logits):
        changed = logits.copy()
        changed[:, 1::2] = np.iinfo(changed.dtype).min if changed.dtype.kind == "i" else -np.inf
        return changed

    requests = [Request(0, [1, 2, 3], 5, processor=only_even, top_logprobs=16)]
    (request,) = ran(engine_of("v2", CHAIN, requests), requests)
    assert {token % 2 for one in request.logprobs for token, _ in one.top} == {0}


class Silent:
    """A worker of somebody who tells nothing."""

    def __init__(self, worker):
        self.config, self.model, self.sizes = worker.config, worker.model, worker.sizes


@pytest.mark.parametrize(
    ("number", "reason"),
    [(-1, Reason.COUNT_OUT_OF_RANGE), (33, Reason.COUNT_OUT_OF_RANGE), (2, Reason.BAD_CONFIGURATION)],
)
def test_more_alternatives_than_tokens_and_silent_workers_are_refused(number, reason):
    request = Request(0, [1], 2, top_logprobs=number)
    engine = engine_of("v2", CHAIN, [request])
    if reason is Reason.BAD_CONFIGURATION:
        engine.worker = Silent(engine.worker)
    with pytest.raises(SpecRejection) as caught:
        engine.submit(request)
    assert caught.value.reason is reason
