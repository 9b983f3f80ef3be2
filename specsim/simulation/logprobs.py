"""What users are told about output tokens: log-probabilities, request by request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.host.choice import TokenChoice
from specsim.operations.outputs import GatherOutputLogprobsOutputs
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.description import ModelDescription

MOST_TOP_LOGPROBS = 64
"""A user is told of no more alternatives to a token."""


@dataclass(frozen=True)
class TokenLogprob:
    """What is told of one output token: its log-probability, and the most probable tokens in its place, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


Told = tuple[tuple[TokenLogprob, ...], ...]
"""One entry an output token, request by request; nothing of a request that did not ask."""


def most_top(choices: Sequence[TokenChoice]) -> int | None:
    """Return the most alternatives that a request of a batch asks for, None if none asks for log-probabilities."""
    return max((one.top_logprobs for one in choices if one.top_logprobs is not None), default=None)


def told_of(
    choices: Sequence[TokenChoice],
    accept_index: NDArray[Any],
    predict: NDArray[Any],
    scored: GatherOutputLogprobsOutputs[NDArray[Any]],
) -> Told:
    """Sort what was gathered by request; places without a token are left out.

    Notes
    -----
    Source: semantics C.8.
    """
    width, told = accept_index.shape[1], []
    for request, choice in enumerate(choices):
        own = []
        for place, node in enumerate(accept_index[request].tolist()):
            if choice.top_logprobs is not None and node >= 0:
                entry, count = request * width + place, choice.top_logprobs
                ranked = zip(scored.top_tokens[entry].tolist(), scored.top_logprobs[entry].tolist(), strict=True)
                own.append(
                    TokenLogprob(int(predict[node]), float(scored.output_logprobs[entry]), tuple(ranked)[:count])
                )
        told.append(tuple(own))
    return tuple(told)


def alone(count: int) -> NDArray[np.int32]:
    """Return accepted paths of so many requests with one node each: those behind prompts."""
    return np.arange(count, dtype=np.int32)[:, None]


def check_logprobs(model: ModelDescription, is_told: bool, top_logprobs: int | None) -> None:
    """Check that a request can be told what it asks for.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: more alternatives than there may be; BAD_CONFIGURATION: a worker that tells nothing, or a
        model without logits that make a distribution.
    """
    if top_logprobs is None:
        return
    most = min(model.vocab_size, MOST_TOP_LOGPROBS)
    if not 0 <= top_logprobs <= most:
        because = "every alternative is another token"
        raise SpecRejection(
            Reason.COUNT_OUT_OF_RANGE, what="top_logprobs", got=top_logprobs, expected=f"0 to {most}", because=because
        )
    for can, because in (
        (is_told, "the worker tells nothing about tokens"),
        (model.has_sampling_logits, f"{model.name} has no logits that make a distribution"),
    ):
        if not can:
            raise SpecRejection(
                Reason.BAD_CONFIGURATION, what="top_logprobs", got=top_logprobs, expected="None", because=because
            )
