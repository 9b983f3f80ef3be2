"""Sampled verify in whole runs: what the target draws alone, token by token."""

from collections.abc import Sequence
from math import log2

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.host.sampling import SamplingParameters
from specsim.properties.laws.checks import require
from specsim.properties.runs.play import parts_of, require_decoded_alone
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares

DRAW, WALK = "sample_target_predict", "verify_tree_greedy"


def drawn_alone(
    operations: CallsByName,
    model: HashModel,
    prompt: Sequence[int],
    sampling: SamplingParameters,
    num_tokens: int,
) -> list[int]:
    """Return what a request outputs whose target draws one token after another."""
    text = list(prompt)
    for _ in range(num_tokens):
        # NOTE: the model's logits are whole numbers, the largest 0, and its shares powers of 2 of them.
        row = [log2(share) + 1 for share in next_shares(model, text)]
        drawn = operations.call(
            DRAW,
            logits=np.array([row], dtype=np.float32),
            temperature=np.array([sampling.temperature], dtype=np.float32),
            top_k=np.array([sampling.top_k], dtype=np.int32),
            top_p=np.array([sampling.top_p], dtype=np.float32),
            min_p=np.array([sampling.min_p], dtype=np.float32),
            seeds=np.array([sampling.seed], dtype=np.int64),
            positions=np.array([[len(text) - 1]], dtype=np.int64),
        )
        text.append(int(drawn[0, 0]))
    return text[len(prompt) :]


def require_drawn_alone(backend: Backend, model: HashModel, request: Request, form: str) -> None:
    """Raise AssertionError unless a request of a run of some form output what its target draws alone."""
    if request.sampling is None:
        require_decoded_alone(model, request)
        return
    expected = drawn_alone(parts_of(backend), model, request.prompt, request.sampling, request.max_new_tokens)
    require(request.output == expected, f"output of request {request.request_id}, {form}", request.output, expected)
