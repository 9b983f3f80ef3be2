"""Verifies by chance whose coins can be chosen: what can be output from the drafts of one request of a batch."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.properties.distribution import Cell, Coins, Outcome, Row, cut
from specsim.properties.laws.sampling_cells import (
    AS_A_BLOCK,
    BLOCK_SAMPLER,
    chain_axes,
    chain_case,
    emitted_along_paths,
    emitted_in_rows,
    tree_axes,
)
from specsim.properties.strategies.logit_scenes import Filters, exact_row
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene
from specsim.topology import Topology

TREES = "verify_tree_sampled_from_logits"
BLOCKS = BLOCK_SAMPLER
OF_REQUESTS = (
    *("candidates", "retrieve_next_token", "retrieve_next_sibling"),
    *("temperature", "top_k", "top_p", "min_p", "threshold_single", "threshold_acc"),
)


@dataclass(frozen=True)
class SteeredTree:
    """A verify of trees from logits, of which the coins of one request of the batch are chosen."""

    arguments: Mapping[str, Any]
    request: int

    @property
    def key(self) -> TreeScene:
        """The tree of the request, with the exact rows of its whole-number logits: equal ones can output the same."""
        return scene_of(self.arguments, self.request)

    @property
    def num_coins(self) -> int:
        """A coin of each node, and the final one."""
        return int(self.arguments["candidates"].shape[1]) + 1

    def axes(self) -> list[tuple[Cell, ...]]:
        """Return the cells of each coin."""
        return tree_axes(self.key)

    def outcomes(self, operations: CallsByName, coins: Coins) -> list[Outcome]:
        """Verify the request by itself, once a row of coins."""
        arguments, request, count = self.arguments, self.request, len(coins)
        num_nodes = arguments["candidates"].shape[1]
        case = {**arguments, **{name: np.repeat(arguments[name][[request]], count, axis=0) for name in OF_REQUESTS}}
        case["retrieve_index"] = np.arange(count * num_nodes, dtype=np.int64).reshape(count, num_nodes)
        case["logits"] = np.tile(arguments["logits"][request * num_nodes : (request + 1) * num_nodes], (count, 1))
        case["uniform_samples"] = np.ascontiguousarray(coins[:, :-1])
        case["uniform_samples_for_final_sampling"] = np.ascontiguousarray(coins[:, -1])
        outputs: dict[str, Any] = operations.call(TREES, **case)._asdict()
        return emitted_along_paths(outputs)

    def with_coins(self, coins: Coins) -> dict[str, Any]:
        """Return the arguments of the batch with these coins of the request."""
        return _with_coins(self.arguments, self.request, self.request, coins)


@dataclass(frozen=True)
class SteeredBlock:
    """The same of chains as blocks; ``rows`` are the arguments of the call that made the target's rows of logits."""

    arguments: Mapping[str, Any]
    rows: Mapping[str, Any]
    request: int

    @property
    def key(self) -> Hashable:
        """The drafts of the chain and its rows: verifies of equal ones can output the same."""
        scene = self.scene
        return scene.certain, tuple(scene.target.values()), scene.num_padding

    @property
    def scene(self) -> ChainScene:
        """The chain of the request up to a -1, whose drafts are certain, with the exact rows of whole-number logits."""
        first, last = self._bounds
        tokens = self.arguments["draft_tokens"][first:last].tolist()
        draft = tuple(tokens[: tokens.index(-1)] if -1 in tokens else tokens)
        logits = self.rows["logits"][first + self.request :]
        target = {draft[:place]: exact_row_of(logits[place]) for place in range(len(draft) + 1)}
        return ChainScene(len(draft), target, {}, draft, len(tokens) - len(draft))

    @property
    def num_coins(self) -> int:
        """A coin of each draft, and the final one."""
        first, last = self._bounds
        return last - first + 1

    def axes(self) -> list[tuple[Cell, ...]]:
        """Return the cells of each coin; those of padding decide nothing."""
        scene = self.scene
        *of_drafts, final = chain_axes(scene, scene.drafts()[0][0], AS_A_BLOCK)
        return [*of_drafts, *[cut([])] * scene.num_padding, final]

    def outcomes(self, operations: CallsByName, coins: Coins) -> list[Outcome]:
        """Verify the request by itself, once a row of coins."""
        first, last = self._bounds
        rows = self.arguments["target_probs"][first + self.request : last + self.request + 1]
        case = {
            **chain_case([self.scene], [self.scene.drafts()[0][0]], [len(coins)]),
            "target_probs": np.tile(rows, (len(coins), 1)),
            "uniform_samples": np.ascontiguousarray(coins[:, :-1]).reshape(-1),
            "uniform_samples_for_final_sampling": np.ascontiguousarray(coins[:, -1]),
        }
        outputs: dict[str, Any] = operations.call(BLOCKS, **case)._asdict()
        return emitted_in_rows(outputs)

    def with_coins(self, coins: Coins) -> dict[str, Any]:
        """Return the arguments of the batch with these coins of the request."""
        return _with_coins(self.arguments, slice(*self._bounds), self.request, coins)

    @property
    def _bounds(self) -> tuple[int, int]:
        first, last = self.arguments["cu_num_drafts"][self.request : self.request + 2].tolist()
        return first, last


Steered = SteeredTree | SteeredBlock


def _with_coins(arguments: Mapping[str, Any], place: int | slice, request: int, coins: Coins) -> dict[str, Any]:
    steered = dict(arguments)
    for name in ("uniform_samples", "uniform_samples_for_final_sampling"):
        steered[name] = arguments[name].copy()
    steered["uniform_samples"][place] = coins[:-1]
    steered["uniform_samples_for_final_sampling"][request] = coins[-1]
    return steered


def exact_row_of(logits: Array) -> Row:
    """Return the exact row of whole-number logits; -inf forbids a token."""
    row = exact_row(tuple(None if isinf(logit) else int(logit) for logit in logits.tolist()), Filters())
    return require_present("row of the target", row)


def scene_of(arguments: Mapping[str, Any], request: int) -> TreeScene:
    """Read the tree of one request, with the exact rows of its whole-number logits; -inf forbids a token."""
    num_nodes = arguments["candidates"].shape[1]
    links = (arguments[name][request] for name in ("retrieve_next_token", "retrieve_next_sibling"))
    logits = arguments["logits"][request * num_nodes : (request + 1) * num_nodes]
    tokens, rows = tuple(arguments["candidates"][request].tolist()), tuple(map(exact_row_of, logits))
    return TreeScene(Topology.from_links(*links), tokens, rows, int(arguments["num_steps"]))
