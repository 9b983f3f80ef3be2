"""Sampled verify in whole runs: operations on which loops verify along the target's draws, and what it draws alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.sampling import SamplingParameters
from specsim.operations import RECORDS
from specsim.operations.signature import name_arguments
from specsim.properties.laws.support.sampled_runs import COINS, WATCHED
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.sampled import next_shares
from specsim.topology import Topology

DRAW, WALK = "sample_target_predict", "verify_tree_greedy"
LINKS = ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling")
FILTERS = ("temperature", "top_k", "top_p", "min_p")


@dataclass
class Drawing(CallsByName):
    """Operations with which a loop that accepts by chance verifies along the target's draws, on its requests' seeds."""

    operations: Backend | Completed
    _asked: dict[str, Any] = field(default_factory=dict)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; a verify by chance draws every row instead."""
        if name == COINS:
            self._asked = name_arguments(RECORDS[COINS], positional, named)
        if name == WATCHED:
            return self._verified(name_arguments(RECORDS[WATCHED], positional, named))
        return self.operations.call(name, *positional, **named)

    def host(self, name: str) -> Any:
        """Return a function of the host."""
        return self.operations.host(name)

    def _verified(self, arguments: dict[str, Any]) -> Any:
        links = zip(arguments["retrieve_next_token"], arguments["retrieve_next_sibling"], strict=True)
        depths = np.array([Topology.from_links(*one).depths for one in links], dtype=np.int64)
        drawn = self.operations.call(
            DRAW,
            **{name: arguments[name] for name in ("logits", *FILTERS)},
            seeds=self._asked["seeds"],
            positions=self._asked["seq_lens"].astype(np.int64)[:, None] + depths.reshape(arguments["candidates"].shape),
        )
        return self.operations.call(
            WALK,
            **{name: arguments[name] for name in LINKS},
            target_predict=drawn,
            num_steps=arguments["num_steps"],
        )


def drawn_alone(
    operations: Backend | Completed,
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
