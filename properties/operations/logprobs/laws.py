"""Laws of log-probabilities: every output token is scored by the row that it was chosen from."""

import math

import numpy as np

from specsim.conformance.backend import Backend
from specsim.contracts.rounding import is_rounded_logprob
from specsim.properties.laws.checks import (
    Array,
    Case,
    arrangements,
    batch_of,
    outputs_of,
    require,
    require_equal,
    states,
)

_LEAST = -float(np.finfo(np.float32).max)


def tokens_are_scored_by_the_row_they_came_from(backend: Backend, case: Case) -> None:
    """Output j of a request is scored by the row of its j-th accepted node, at the temperature of the request."""
    got = outputs_of(backend, "gather_output_logprobs", case)["output_logprobs"]
    for entry, request, node in _accepted(case):
        token = int(case["predict"][node])
        _require_close(f"output_logprobs[{entry}]", got[entry], _scores(case, request, node)[token], case)


def listed_tokens_are_scored_like_any_other(backend: Backend, case: Case) -> None:
    """Every entry scores the tokens that its own request asks about; padding is 0."""
    got = outputs_of(backend, "gather_output_logprobs", case)["listed_logprobs"]
    for entry, request, node in _accepted(case):
        scores = _scores(case, request, node)
        for place, token in enumerate(case["token_ids"][request].tolist()):
            what = f"listed_logprobs[{entry}, {place}]"
            _require_close(what, got[entry, place], scores[token] if token >= 0 else 0.0, case)


def the_most_probable_come_first(backend: Backend, case: Case) -> None:
    """The largest logits are reported in order, the lower of equal tokens first, each with its own score."""
    outputs = outputs_of(backend, "gather_output_logprobs", case)
    for entry, request, node in _accepted(case):
        row = case["logits"][node].astype(np.float64).tolist()
        ranked = [token for _, token in sorted((-logit, token) for token, logit in enumerate(row))][: case["num_top"]]
        require_equal(f"top_tokens[{entry}]", outputs["top_tokens"][entry], ranked)
        scores = _scores(case, request, node)
        for place, token in enumerate(ranked):
            _require_close(
                f"top_logprobs[{entry}, {place}]", outputs["top_logprobs"][entry, place], scores[token], case
            )


def requests_are_scored_one_by_one(backend: Backend, case: Case) -> None:
    """What is reported of a request is the same alone, and in any order of the batch."""
    width = case["accept_index"].shape[1]
    whole = outputs_of(backend, "gather_output_logprobs", case)
    for requests in arrangements(len(case["accept_index"])):
        part = batch_of("gather_output_logprobs", case, requests)
        got = outputs_of(backend, "gather_output_logprobs", part)
        for name in ("output_logprobs", "top_tokens"):
            for new, old in enumerate(requests):
                count = int((part["accept_index"][new] >= 0).sum())
                mine, expected = (
                    values[place * width : place * width + count]
                    for values, place in ((got[name], new), (whole[name], old))
                )
                require_equal(f"{name} of request {old} in {requests}", mine, expected)


def _accepted(case: Case) -> list[tuple[int, int, int]]:
    """Return (entry, request, node) of every output token."""
    width = case["accept_index"].shape[1]
    return [
        (request * width + place, request, node)
        for request, row in enumerate(case["accept_index"].tolist())
        for place, node in enumerate(row)
        if node >= 0
    ]


def _scores(case: Case, request: int, node: int) -> list[float]:
    """Return the logarithm of every token's share of the weight, number by number."""
    temperature = 1.0 if case["temperature"] is None else float(case["temperature"][request]) or 1.0
    row = [float(logit) for logit in case["logits"][node]]
    exponents = [(logit - max(row)) / temperature for logit in row]
    total = math.fsum(math.exp(exponent) for exponent in exponents)
    return [exponent - math.log(total) for exponent in exponents]


def _require_close(what: str, got: float, score: float, case: Case) -> None:
    expected = max(score, _LEAST) if case["is_clamped"] else score
    with np.errstate(over="ignore"):
        wanted = np.asarray([expected]).astype(np.float32)
    found: Array = np.asarray([got], dtype=np.float32)
    require(bool(is_rounded_logprob(wanted, found, case["logits"].shape[1])[0]), what, got, str(expected))


PROPERTIES = states(
    "logprobs",
    (tokens_are_scored_by_the_row_they_came_from, "gather_output_logprobs", "P28"),
    (listed_tokens_are_scored_like_any_other, "gather_output_logprobs", "P28"),
    (the_most_probable_come_first, "gather_output_logprobs", "P28"),
    (requests_are_scored_one_by_one, "gather_output_logprobs", "P31"),
)
