from fractions import Fraction

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.host.sampling import GREEDY, SamplingParameters
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.sampled import check_sampling, next_shares

TEXT = TextModel.from_text(b"a text of a few bytes", 64)
CHAIN = SpecConfig(1, 2, 3)


def test_shares_are_powers_of_two_that_add_up_to_one():
    assert sorted(next_shares(HashModel(4, 9), [1, 2])) == [
        Fraction(1, 8),
        Fraction(1, 8),
        Fraction(1, 4),
        Fraction(1, 2),
    ]
    assert sum(next_shares(HashModel(21, 9), [3])) == 1


def test_the_likeliest_token_is_the_greedy_choice():
    model = HashModel(5, 3)
    for token in range(5):
        prefix = Prefix(model)
        prefix.append(token)
        shares = next_shares(model, [token])
        assert shares.index(max(shares)) == prefix.next_token()


def test_shares_are_those_of_the_logits_for_sampling():
    model = HashModel(4, 9)
    prefix = Prefix(model)
    for token in (1, 3, 2):
        prefix.append(token)
    hidden = np.array([[*prefix.folds, prefix.context_word]], dtype=np.int64)
    logits = load("specsim.reference").call("hash_sampling_logits", hidden_states=hidden, vocab_size=4, seed=9)
    assert [Fraction(2) ** int(logit) for logit in logits[0]] == list(next_shares(model, [1, 3, 2]))


def test_a_vocabulary_whose_powers_do_not_add_up_is_refused():
    with pytest.raises(SpecRejection) as caught:
        next_shares(HashModel(22), [])
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_the_text_model_cannot_be_sampled():
    request = Request(0, [1], 2, sampling=SamplingParameters(0.5))
    engine = Engine(ReferenceWorker(CHAIN, load_model(TEXT), sizes_for(CHAIN, [request], 1)), 1)
    with pytest.raises(SpecRejection) as caught:
        engine.submit(request)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    assert str(caught.value) == (
        "BAD_CONFIGURATION: sampling.temperature is 0.5, but should be 0, "
        "because TextModel has no logits that can be sampled from"
    )


def test_greedy_requests_and_the_hash_model_pass():
    check_sampling(load_model(TEXT).description, None)
    check_sampling(load_model(TEXT).description, GREEDY)
    check_sampling(load_model(HashModel()).description, SamplingParameters())


def decode(requests, max_batch):
    model = HashModel(8, 2, 0.8)
    engine = Engine(ReferenceWorker(CHAIN, load_model(model), sizes_for(CHAIN, requests, max_batch)), max_batch, 0)
    for request in requests:
        engine.submit(request.fresh())
    return [request.output for request in engine.run()]


def test_a_greedy_request_that_takes_over_a_sampled_row_is_greedy():
    requests = [
        Request(0, [1, 2], 4, sampling=SamplingParameters(4.0, seed=3)),
        Request(1, [3], 4),
        Request(2, [3], 4, sampling=GREEDY),
    ]
    outputs = decode(requests, 1)
    assert outputs[1] == outputs[2] == greedy_decode(HashModel(8, 2, 0.8), [3], 4)


def test_a_sampled_request_differs_from_the_greedy_one():
    outputs = decode([Request(n, [3], 8, sampling=SamplingParameters(8.0, seed=n)) for n in range(4)], 4)
    assert len({tuple(one) for one in outputs}) == 4


def test_top_k_of_one_is_greedy():
    (output,) = decode([Request(0, [3], 8, sampling=SamplingParameters(8.0, top_k=1))], 1)
    assert output == greedy_decode(HashModel(8, 2, 0.8), [3], 8)
