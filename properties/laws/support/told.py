"""What a request has to be told of its output tokens: how probable each was, in exact ranks of the hash model."""

import numpy as np

from specsim.assertion import require
from specsim.conformance.arrays import Array
from specsim.contracts.rounding import is_rounded_logprob
from specsim.reference.models.heads import hash_sampling_logits
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request


def check_told(model: HashModel, request: Request) -> None:
    """Raise AssertionError unless a request is told one score a token, that of the text before it.

    Of a request whose logits are changed only the tokens are looked at.
    """
    what = f"logprobs of request {request.request_id}"
    if request.top_logprobs is None:
        require(request.logprobs == [], what, request.logprobs, [])
        return
    tokens = [one.token for one in request.logprobs]
    require(tokens == request.output, f"tokens in {what}", tokens, request.output)
    if not tokens or request.processor is not None or request.grammar is not None:
        return
    rows = _scores(model, request)
    for place, (one, row) in enumerate(zip(request.logprobs, rows, strict=True)):
        ranked = np.argsort(-row, kind="stable")[: request.top_logprobs]
        require([token for token, _ in one.top] == ranked.tolist(), f"best of {what} at {place}", one.top, ranked)
        told = np.array([one.logprob, *(score for _, score in one.top)])
        expected = row[[one.token, *ranked]]
        is_close = is_rounded_logprob(expected, told, len(row)).all()
        require(bool(is_close), f"{what} at {place}", told.tolist(), expected.tolist())


def _scores(model: HashModel, request: Request) -> Array:
    """Return float64 [token, vocab]: log-probabilities of everything in the place of each output token."""
    prefix, states = Prefix(model), []
    for token in request.fill[:-1]:
        prefix.append(token)
        states.append([*prefix.folds, prefix.context_word])
    behind = np.array(states[len(request.prompt) - 1 :], dtype=np.int64)
    logits = hash_sampling_logits(behind, model.vocab_size, model.seed).astype(np.float64)
    temperature = 1.0 if request.sampling is None else float(np.float32(request.sampling.temperature)) or 1.0
    scaled = logits / temperature
    scores: Array = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return scores
