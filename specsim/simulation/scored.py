"""Comparison of what a run tells of its tokens with what plain decoding tells of them."""

import numpy as np

from specsim.assertion import require_present
from specsim.contracts.rounding import is_rounded_logprob, is_rounded_state
from specsim.simulation.autoregressive import PrefillDecoder
from specsim.simulation.logprobs import HiddenState, ReportedToken
from specsim.simulation.requests import Request
from specsim.simulation.worker import TellingWorker


def unreported(worker: TellingWorker, request: Request) -> list[str]:
    """Return the first score of a greedy request that is not that of its text, token by token, as at most one line.

    Parameters
    ----------
    worker : TellingWorker
        It is idle: none of its slots and rows has an owner.
    """
    who, reported = f"request {request.request_id}", request.logprobs
    if request.top_logprobs is not None and [one.token for one in reported] != request.output:
        return [f"{who}, tokens that are reported: {[one.token for one in reported]} is not {request.output}"]
    if request.returns_hidden_states and len(request.hidden_states) != len(request.output):
        return [f"{who}, hidden states: {len(request.hidden_states)} is not {len(request.output)}"]
    expected, description = reported_alone(worker, request), worker.model.description
    for place, wanted in enumerate(expected):
        if request.top_logprobs is not None and not is_same_score(wanted, reported[place], description.vocab_size):
            return [f"{who}, logprobs[{place}]: {reported[place]} is not {wanted}"]
        if request.returns_hidden_states:
            states = require_present("a hidden state", wanted.hidden_state), request.hidden_states[place]
            if not is_same_state(*states, description.hidden_dtype):
                return [f"{who}, hidden_states[{place}]: {states[1]} is not {states[0]}"]
    return []


def is_same_score(expected: ReportedToken, got: ReportedToken, vocab_size: int) -> bool:
    """Return whether a token and its alternatives are the same, and their scores alike but for their rounding."""
    tokens = [(one.token, *(token for token, _ in (*one.top, *one.listed))) for one in (expected, got)]
    if tokens[0] != tokens[1] or len(expected.top) != len(got.top):
        return False
    scores = [
        np.array([one.logprob, *(score for _, score in (*one.top, *one.listed))], dtype=np.float64)
        for one in (expected, got)
    ]
    return bool(is_rounded_logprob(scores[0], scores[1], vocab_size).all())


def is_same_state(expected: HiddenState, got: HiddenState, dtype: str) -> bool:
    """Return whether two hidden states are as wide, and alike but for the rounding of two correct forwards."""
    if len(expected) != len(got):
        return False
    if dtype.startswith("int"):
        return expected == got
    return bool(is_rounded_state(np.array(expected), np.array(got), dtype))


def reported_alone(worker: TellingWorker, request: Request) -> list[ReportedToken]:
    """Return what prefills of one token after another tell of a greedy output."""
    decoder = PrefillDecoder(worker, request.choice_alone())
    for token in request.prompt:
        decoder.append(token)
    reported = []
    for token in request.output:
        decoder.next_token()
        ((one,),) = worker.told()
        reported.append(one)
        decoder.append(token)
    return reported
