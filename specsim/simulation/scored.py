"""Comparison of what a run tells of its tokens with what plain decoding tells of them."""

import numpy as np

from specsim.contracts.rounding import is_rounded_logprob
from specsim.host.choice import TokenChoice
from specsim.simulation.autoregressive import ROW
from specsim.simulation.logprobs import TokenLogprob
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
    tokens = [one.token for one in request.logprobs]
    if tokens != request.output:
        return [f"request {request.request_id}, tokens that are told of: {tokens} is not {request.output}"]
    expected = told_alone(worker, request)
    for place, (got, wanted) in enumerate(zip(request.logprobs, expected, strict=True)):
        if not is_same_score(wanted, got, worker.model.description.vocab_size):
            return [f"request {request.request_id}, logprobs[{place}]: {got} is not {wanted}"]
    return []


def is_same_score(expected: TokenLogprob, got: TokenLogprob, vocab_size: int) -> bool:
    """Return whether a token and its alternatives are the same, and their scores alike but for their rounding."""
    if expected.token != got.token or [token for token, _ in expected.top] != [token for token, _ in got.top]:
        return False
    scores = [np.array([one.logprob, *(score for _, score in one.top)]) for one in (expected, got)]
    return bool(is_rounded_logprob(scores[0], scores[1], vocab_size).all())


def told_alone(worker: TellingWorker, request: Request) -> list[TokenLogprob]:
    """Return what prefills of one token after another tell of a greedy output, in row 1, position p in slot p+1."""
    text, first = (*request.prompt, *request.output), len(request.prompt)
    worker.assign_choices([ROW], [TokenChoice(None, request.processor, None, request.top_logprobs)])
    worker.assign_slots([SlotRange(ROW, 0, len(text), tuple(range(1, len(text) + 1)))])
    told = []
    for end in range(first, len(text)):
        worker.prefill([ROW], [PromptChunk(text[:end], 0 if end == first else end - 1, end)])
        ((one,),) = worker.told()
        told.append(one)
    return told
