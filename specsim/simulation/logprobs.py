"""What is reported to users about output tokens: log-probabilities and hidden states, request by request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require_present
from specsim.host.choice import TokenChoice
from specsim.operations.outputs import GatherOutputLogprobsOutputs
from specsim.rejection import Reason, SpecRejection, check_range
from specsim.simulation.models.description import ModelDescription

MOST_TOP_LOGPROBS = 64
"""A user gets no more alternatives to a token."""

HiddenState = tuple[float, ...]
"""Numbers of a hidden state, integers where the model's are."""


@dataclass(frozen=True)
class ReportedToken:
    """What is reported of one output token.

    ``logprob`` is its log-probability, ``top`` has the most probable tokens in its place, best first, and ``listed``
    those that the request asked about, in that order, each with its own. ``hidden_state`` is the target's final one
    that the token was chosen from. What was not asked for is None or empty.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    listed: tuple[tuple[int, float], ...] = ()
    hidden_state: HiddenState | None = None


Reported = tuple[tuple[ReportedToken, ...], ...]
"""One entry an output token, request by request; nothing of a request that did not ask."""


def most_top(choices: Sequence[TokenChoice]) -> int | None:
    """Return the most alternatives that a request of a batch asks for, None if none asks for log-probabilities."""
    return max((one.top_logprobs for one in choices if one.top_logprobs is not None), default=None)


def hands_states(choices: Sequence[TokenChoice]) -> bool:
    """Return whether a request of a batch is handed hidden states."""
    return any(one.returns_hidden_states for one in choices)


def listed_tokens(choices: Sequence[TokenChoice]) -> NDArray[np.int64]:
    """Return int64 [request, listed], the tokens that the requests of a batch ask about, padded with -1."""
    most = max((len(one.token_ids_logprob) for one in choices), default=0)
    listed = np.full((len(choices), most), -1, dtype=np.int64)
    for request, choice in enumerate(choices):
        listed[request, : len(choice.token_ids_logprob)] = choice.token_ids_logprob
    return listed


def reported_of(
    choices: Sequence[TokenChoice],
    accept_index: NDArray[Any],
    predict: NDArray[Any],
    scored: GatherOutputLogprobsOutputs[NDArray[Any]] | None,
    states: NDArray[Any] | None,
) -> Reported:
    """Sort what was gathered by request; places without a token are left out.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Accepted paths.
    predict : int32 [request*node]
        Output token that follows each accepted node.
    scored : GatherOutputLogprobsOutputs or None
        Scores of entry ``request*(draft+1)+place``; None where no one asks for any.
    states : [request*(draft+1), hidden] or None
        Hidden states of the same entries.

    Notes
    -----
    Source: semantics C.8.
    """
    width, reported = accept_index.shape[1], []
    for request, choice in enumerate(choices):
        nodes = accept_index[request].tolist() if choice.wants_report else []
        own = []
        for place, node in enumerate(nodes):
            if node >= 0:
                entry = request * width + place
                one = _scored_token(int(predict[node]), choice, scored, entry)
                if choice.returns_hidden_states:
                    row = require_present("hidden states for users", states)[entry]
                    one = replace(one, hidden_state=tuple(row.tolist()))
                own.append(one)
        reported.append(tuple(own))
    return tuple(reported)


def _scored_token(
    token: int, choice: TokenChoice, scored: GatherOutputLogprobsOutputs[NDArray[Any]] | None, entry: int
) -> ReportedToken:
    """Return a token with the scores of its entry, as many as its request asks for."""
    if choice.top_logprobs is None:
        return ReportedToken(token)
    scores = require_present("scores for users", scored)
    ranked = zip(scores.top_tokens[entry].tolist(), scores.top_logprobs[entry].tolist(), strict=True)
    listed = zip(choice.token_ids_logprob, scores.listed_logprobs[entry].tolist(), strict=False)
    return ReportedToken(
        token, float(scores.output_logprobs[entry]), tuple(ranked)[: choice.top_logprobs], tuple(listed)
    )


def alone(count: int) -> NDArray[np.int32]:
    """Return accepted paths of so many requests with one node each: those after prompts."""
    return np.arange(count, dtype=np.int32)[:, None]


def check_reported(model: ModelDescription, wants_report: bool, choice: TokenChoice) -> None:
    """Check that what a request asks for can be reported.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: more alternatives than there may be; TOKEN_OUT_OF_RANGE: a listed token that the model does
        not have; BAD_CONFIGURATION: details of log-probabilities that are not asked for, a worker that tells nothing,
        or a model without logits that make a distribution.
    """
    if choice.top_logprobs is None:
        for what in ("token_ids_logprob", "has_original_logprobs"):
            got = vars(choice)[what]
            if got:
                because = "it says which log-probabilities are reported, and top_logprobs is None"
                raise SpecRejection(Reason.BAD_CONFIGURATION, what, got, "nothing", because)
        if choice.returns_hidden_states and not wants_report:
            because = "the worker tells nothing about tokens"
            raise SpecRejection(Reason.BAD_CONFIGURATION, "returns_hidden_states", True, "False", because)
        return
    most = min(model.vocab_size, MOST_TOP_LOGPROBS)
    because, last = "every alternative is another token", model.vocab_size - 1
    check_range(Reason.COUNT_OUT_OF_RANGE, "top_logprobs", choice.top_logprobs, because, 0, most)
    for token in choice.token_ids_logprob:
        check_range(Reason.TOKEN_OUT_OF_RANGE, "token_ids_logprob", token, "it is a token of the model", 0, last)
    for can, because in (
        (wants_report, "the worker tells nothing about tokens"),
        (model.has_sampling_logits, f"{model.name} has no logits that make a distribution"),
    ):
        if not can:
            raise SpecRejection(Reason.BAD_CONFIGURATION, "top_logprobs", choice.top_logprobs, "None", because)
