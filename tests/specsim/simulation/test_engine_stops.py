"""Runs with stops: the engine ends each request where plain decoding does, whatever cuts its tokens into runs."""

import pytest

from specsim.config import SpecConfig
from specsim.host.stopping import FinishReason
from specsim.properties.host.stops.strategy import KINDS
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.autoregressive import decode_alone
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import OWN_DECISIONS, Engine
from specsim.simulation.memory import release_finished
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request

CONFIG = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)
MODEL = HashModel(1024, seed=5, agreement=1.0)
PLAIN = greedy_decode(MODEL, [1, 2], 24)


def worker_for(requests):
    return ReferenceWorker(CONFIG, load_model(MODEL), sizes_for(CONFIG, requests, 2))


def at(place):
    """Return the rules that end the request of ``PLAIN`` at one place, by reason."""
    token = PLAIN[place]
    return {
        FinishReason.EOS: {"eos_token": token},
        FinishReason.STOP_TOKEN: {"stop_tokens": (token,)},
        FinishReason.STOP_STRING: {"stop_strings": (chr(PLAIN[place - 1]) + chr(token),)},
        FinishReason.LENGTH: {"max_new_tokens": place + 1},
        FinishReason.CONTEXT: {"context_limit": 2 + place + 1},
    }


def test_plain_output_repeats_no_token_too_early():
    assert len(set(PLAIN[:12])) == 12


@pytest.mark.parametrize("place", range(1, 11))
@pytest.mark.parametrize("reason", KINDS)
def test_each_stop_at_each_place(reason, place):
    request = Request(0, [1, 2], **{"max_new_tokens": 24, **at(place)[reason]})
    report = simulate(worker_for([request]), [request], max_batch=2)
    assert report.mismatches == ()
    assert (request.output, request.finish_reason) == (PLAIN[: place + 1], reason)
    assert report.meta_info[0]["completion_tokens"] == place + 1


def test_the_request_counts_drafts_after_its_stop():
    """A perfect draft is accepted whole; the stop at the fourth token cuts the run, not the counters."""
    request = Request(0, [1, 2], 24, stop_tokens=(PLAIN[2],))
    simulate(worker_for([request]), [request], max_batch=2)
    assert len(request.output) == 3
    assert (request.counters.num_verifies, request.counters.num_accepted_drafts) == (1, 3)


def test_positions_after_a_stop_are_committed_and_not_owned():
    released = []

    def recording(memory, holding, text, num_owned):
        released.append((holding.books.num_committed, num_owned))
        release_finished(memory, holding, text, num_owned)

    request = Request(0, [1, 2], 24, stop_tokens=(PLAIN[2],))
    engine = Engine(
        worker_for([request]), 2, operations=OWN_DECISIONS.with_function("release_finished", recording, "recording")
    )
    engine.submit(request)
    engine.run()
    assert released == [(2 + 4, 2 + 3)]


def test_a_wrong_end_is_a_mismatch():
    class Careless(Request):
        def append(self, tokens, *functions):
            self.stop_strings = ()
            super().append(tokens, *functions)
            self.stop_strings = (chr(PLAIN[3]),)

    request = Careless(0, [1, 2], 6, stop_strings=(chr(PLAIN[3]),))
    report = simulate(worker_for([request]), [request], max_batch=2)
    assert not report.lossless
    assert report.mismatches[0].startswith("request 0, output[-1]: ")


def test_a_wrong_reason_is_a_mismatch():
    class Renamed(Request):
        def append(self, tokens, *functions):
            self.eos_token, self.stop_tokens = None, (PLAIN[3],)
            super().append(tokens, *functions)
            self.eos_token, self.stop_tokens = PLAIN[3], ()

    request = Renamed(0, [1, 2], 6, eos_token=PLAIN[3])
    report = simulate(worker_for([request]), [request], max_batch=2)
    assert report.mismatches[0].startswith("request 0, finish: ")


def test_lockstep_hands_the_rules_on():
    requests = [Request(0, [1, 2], 24, stop_tokens=(PLAIN[5],)), Request(1, [1, 2], 24, min_new_tokens=3)]
    steps = []
    workers = worker_for(requests), worker_for(requests)
    assert find_divergence(*workers, requests, max_batch=2, on_step=lambda done, total: steps.append(done)) is None
    assert 1 in steps
    assert all(request.output == [] for request in requests)


def test_plain_decoding_alone():
    output, finish = decode_alone(Prefix(MODEL), [1, 2], Request(0, [1, 2], 24, stop_tokens=(PLAIN[4],)).rules)
    assert (output, finish.reason, finish.num_tokens) == (PLAIN[:5], FinishReason.STOP_TOKEN, 5)


def test_a_prompt_that_fills_its_context_is_refused():
    request = Request(0, [1, 2], 4, context_limit=2)
    with pytest.raises(SpecRejection) as caught:
        Engine(worker_for([request]), 2).submit(request)
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE
