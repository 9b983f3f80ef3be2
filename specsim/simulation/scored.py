"""Comparison of what a run tells of its tokens with what plain decoding tells of them."""

from dataclasses import replace

import numpy as np

from specsim.assertion import require_present
from specsim.contracts.rounding import is_rounded_logprob, is_rounded_state
from specsim.simulation.autoregressive import ROW
from specsim.simulation.logprobs import HiddenState, ToldToken
from specsim.simulation.memory import SlotRange
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.worker import TellingWorker


def untold(worker: TellingWorker, request: Request) -> list[str]:
    """Return at most one line: where a greedy request is told something else than its text, token by token, tells.

    Parameters
    ----------
    worker : TellingWorker
        It is idle: none of its slots and rows has an owner.
    """
    who, told = f"request {request.request_id}", request.logprobs
    if request.top_logprobs is not None and [one.token for one in told] != request.output:
        return [f"{who}, tokens that are told of: {[one.token for one in told]} is not {request.output}"]
    if request.returns_hidden_states and len(request.hidden_states) != len(request.output):
        return [f"{who}, hidden states: {len(request.hidden_states)} is not {len(request.output)}"]
    expected, description = told_alone(worker, request), worker.model.description
    for place, wanted in enumerate(expected):
        if request.top_logprobs is not None and not is_same_score(wanted, told[place], description.vocab_size):
            return [f"{who}, logprobs[{place}]: {told[place]} is not {wanted}"]
        if request.returns_hidden_states:
            states = require_present("a hidden state", wanted.hidden_state), request.hidden_states[place]
            if not is_same_state(*states, description.hidden_dtype):
                return [f"{who}, hidden_states[{place}]: {states[1]} is not {states[0]}"]
    return []


def is_same_score(expected: ToldToken, got: ToldToken, vocab_size: int) -> bool:
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


def told_alone(worker: TellingWorker, request: Request) -> list[ToldToken]:
    """Return what prefills of one token after another tell of a greedy output, in row 1, position p in slot p+1."""
    text, first = (*request.prompt, *request.output), len(request.prompt)
    choice = request.choice_alone()
    worker.assign_slots([SlotRange(ROW, 0, len(text), tuple(range(1, len(text) + 1)))])
    told = []
    for end in range(first, len(text)):
        output = () if choice.rules is None else text[first:end]
        worker.assign_choices([ROW], [replace(choice, output=output)])
        worker.prefill([ROW], [PromptChunk(text[:end], 0 if end == first else end - 1, end)])
        ((one,),) = worker.told()
        told.append(one)
    return told
