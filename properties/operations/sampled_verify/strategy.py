"""Strategies of sampled verify: rows of logits with seeds and positions."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.probabilities.strategy import target_probabilities
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, bulk, mostly, overridden
from specsim.properties.strategies.filters import Filters, filters, filters_of
from specsim.properties.strategies.sampling_scenes import all_shapes, draft_tokens
from specsim.topology import Topology

LARGEST_SEED = 2**63 - 1
LARGEST_POSITION = 2**32 - 2
SEEDS = (0, 1, 2**32 - 1, 2**32, LARGEST_SEED)
"""Seeds whose words are empty or full: half of a key, and the counter of another one."""


@composite
def sample_target_predict(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits of several nodes a request, and seeds and positions of which some are the largest there are.

    Every third call has one node a request, as one after a prompt has, and every third rows of tokens that are nearly
    as likely as each other, so that the noise decides. Every sixth has a greedy request in any case.
    """
    case = draw(target_probabilities(max_requests))
    num_nodes, num_requests = case.pop("num_draft_tokens"), len(case["temperature"])
    if draw(mostly(st.just(False), st.just(True), one_in=3)):
        case["logits"], num_nodes = case["logits"][::num_nodes].copy(), 1
    source = draw(bulk())
    if draw(mostly(st.just(False), st.just(True), one_in=3)):
        case |= filters_of([Filters(1.0, 2**30, 1.0, 0.0)] * num_requests)
        case["logits"] = source.eighths(case["logits"].shape, -8, 8).astype(case["logits"].dtype)
    if num_requests and draw(mostly(st.just(False), st.just(True), one_in=6)):
        case["temperature"][source.integer(0, num_requests - 1)] = 0
    seeds = source.integers(num_requests, 0, LARGEST_SEED)
    start = source.integers((num_requests, 1), 0, draw(st.sampled_from((8, 2**20, LARGEST_POSITION - num_nodes))))
    positions = start + source.integers((num_requests, num_nodes), 0, num_nodes)
    return {
        **case,
        "seeds": draw(overridden(seeds, SEEDS)),
        "positions": draw(overridden(positions, (0, LARGEST_POSITION))),
    }


SIDE = 16
"""Requests of neighbouring seeds, and nodes of neighbouring positions, that draw from equal rows."""


@composite
def far_apart(draw: st.DrawFn) -> Arguments:
    """Draw seeds and positions side by side, each pair once, over rows of a thousand equal logits."""
    seed, position = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**20))
    return {
        "logits": np.zeros((SIDE * SIDE, 1000), dtype=np.float32),
        **filters_of([Filters(1.0, 2**30, 1.0, 0.0)] * SIDE),
        "seeds": seed + np.arange(SIDE, dtype=np.int64),
        "positions": np.tile(position + np.arange(SIDE, dtype=np.int64), (SIDE, 1)),
    }


@dataclass(frozen=True)
class ToyRun:
    """One verify of a tree by a target whose logits follow from the tokens after the root.

    ``position`` is that of the root, ``salt`` chooses the target.
    """

    topology: Topology
    tokens: tuple[int, ...]
    vocab_size: int
    filters: Filters
    seed: int
    position: int
    salt: int

    @property
    def num_steps(self) -> int:
        """The longest path, root excluded."""
        return max(self.topology.depths)

    def parameters(self) -> Arguments:
        """Return sampling parameters and seed of the request."""
        return {**filters_of([self.filters]), "seeds": np.array([self.seed], dtype=np.int64)}

    def logits_after(self, path: tuple[int, ...]) -> Array:
        """Return the row of logits after some tokens, float32 [1, vocab]."""
        random = np.random.default_rng([self.salt, *path])
        return (random.integers(-16, 17, size=(1, self.vocab_size)) / 8).astype(np.float32)

    def path_to(self, node: int) -> tuple[int, ...]:
        """Return the tokens from the root's first child to a node."""
        return tuple(self.tokens[one] for one in self.topology.path_to(node)[1:])


@composite
def toy_runs(draw: st.DrawFn) -> ToyRun:
    """Draw trees and chains of up to five nodes; the vocabulary is small, so that drafts are often drawn."""
    topology, vocab_size = draw(st.sampled_from(list(all_shapes()))), draw(st.sampled_from((2, 2, 3, 5)))
    return ToyRun(
        topology,
        draft_tokens(draw(bulk()), topology, vocab_size),
        vocab_size,
        draw(mostly(st.just(Filters(1.0, 2**30, 1.0, 0.0)), filters(), one_in=3)),
        draw(st.integers(0, LARGEST_SEED)),
        draw(st.integers(0, 2**20)),
        draw(st.integers(0, 2**32)),
    )
