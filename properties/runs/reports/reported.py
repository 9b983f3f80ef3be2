"""What has to be reported of output tokens: how probable each was, and from which state it was chosen."""

import numpy as np

from specsim.assertion import require
from specsim.conformance.arrays import Array
from specsim.contracts.rounding import is_rounded_logprob
from specsim.reference.models.heads import hash_sampling_logits
from specsim.simulation.models.ground_truth import LanguageModel, Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request


def check_reported(model: HashModel, request: Request) -> None:
    """Raise AssertionError unless a request gets one score and one state a token, those of the text before it.

    Of a request whose logits are changed only tokens and hidden states are looked at.
    """
    _check_states(model, request)
    what = f"logprobs of request {request.request_id}"
    if request.top_logprobs is None:
        require(request.logprobs == [], what, request.logprobs, [])
        return
    tokens = [one.token for one in request.logprobs]
    require(tokens == request.output, f"tokens in {what}", tokens, request.output)
    if not tokens or any((request.processor, request.grammar, request.logit_rules)):
        return
    rows = _scores(model, request)
    listed = list(request.token_ids_logprob)
    for place, (one, row) in enumerate(zip(request.logprobs, rows, strict=True)):
        ranked = np.argsort(-row, kind="stable")[: request.top_logprobs]
        require([token for token, _ in one.top] == ranked.tolist(), f"best of {what} at {place}", one.top, ranked)
        require([token for token, _ in one.listed] == listed, f"listed tokens of {what} at {place}", one.listed, listed)
        reported = np.array([one.logprob, *(score for _, score in (*one.top, *one.listed))], dtype=np.float64)
        expected = row[[one.token, *ranked, *listed]]
        is_close = is_rounded_logprob(expected, reported, len(row)).all()
        require(bool(is_close), f"{what} at {place}", reported.tolist(), expected.tolist())


def _scores(model: HashModel, request: Request) -> Array:
    """Return float64 [token, vocab]: log-probabilities of everything in the place of each output token."""
    logits = hash_sampling_logits(_states(model, request), model.vocab_size, model.seed).astype(np.float64)
    temperature = 1.0
    if request.sampling is not None and not request.has_original_logprobs:
        temperature = float(np.float32(request.sampling.temperature)) or 1.0
    scaled = logits / temperature
    scores: Array = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return scores


def _check_states(model: LanguageModel, request: Request) -> None:
    what, reported = f"hidden_states of request {request.request_id}", request.hidden_states
    if not request.returns_hidden_states:
        require(reported == [], what, reported, [])
        return
    expected = [tuple(row) for row in _states(model, request).tolist()] if request.output else []
    require(len(reported) == len(expected), f"number of {what}", len(reported), len(expected))
    for place, (got, wanted) in enumerate(zip(reported, expected, strict=True)):
        require(got == wanted, f"{what} at {place}", got, wanted)


def _states(model: LanguageModel, request: Request) -> Array:
    """Return int64 [token, hidden]: the final hidden state that each output token is chosen from."""
    prefix, states = Prefix(model), []
    for token in request.fill[:-1]:
        prefix.append(token)
        states.append([*prefix.folds, prefix.context_word])
    return np.array(states[len(request.prompt) - 1 :], dtype=np.int64)
