"""Faults in the tree sampler, in coins, and in simulated acceptance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.hashing import digest
from specsim.host.sampling import LEAST_THRESHOLD
from specsim.properties.mutants.record import Mutant, Named, given, instead, of_the_first, returning, with_arguments
from specsim.topology import Topology

Array = Any
SIBLINGS = 32


@dataclass(frozen=True)
class Faults:
    """A tree sampler by the book, but for the faults that are switched on."""

    final_coin_of_the_node: bool = False
    coin_of_the_child: bool = False
    coin_by_depth: bool = False
    row_of_the_child: bool = False
    equality_accepts: bool = False
    fixed_array: bool = False
    mass_carried: bool = False
    mass_of_the_last: bool = False
    rejected_kept: bool = False
    coarse_sums: bool = False
    total_taken_for_one: bool = False
    prefix_reached: bool = False
    single_above: bool = False
    nothing_remembered: bool = False
    accepted_remembered: bool = False
    one_level_more: bool = False
    siblings_backwards: bool = False
    siblings_ascend: bool = False
    last_row_of_the_root: bool = False
    final_coin_tests: bool = False


def _sampled(faults: Faults) -> Callable[..., tuple[Array, Array, Array]]:
    def call(**arguments: Any) -> tuple[Array, Array, Array]:
        candidates, num_steps = arguments["candidates"], arguments["num_steps"]
        predict = np.zeros(candidates.size, dtype=np.int32)
        accept_index = np.full((len(candidates), num_steps + 1), -1, dtype=np.int32)
        for request in range(len(candidates)):
            path, tokens = _walk(arguments, request, faults)
            for place, node in enumerate(path):
                accept_index[request, place] = request * candidates.shape[1] + node
                predict[request * candidates.shape[1] + node] = tokens[place]
        return predict, accept_index, (accept_index >= 0).sum(axis=1).astype(np.int32) - np.int32(1)

    return call


def _walk(arguments: Named, request: int, faults: Faults) -> tuple[list[int], list[int]]:
    tokens, rows = arguments["candidates"][request].tolist(), arguments["target_probs"][request]
    remembered, coins = arguments["draft_probs"][request], arguments["uniform_samples"][request].tolist()
    share = max(float(arguments["threshold_acc"][request]), LEAST_THRESHOLD)
    single = float(arguments["threshold_single"][request])
    tree = Topology.from_links(*(arguments[f"retrieve_next_{name}"][request] for name in ("token", "sibling")))
    path, output, mass, removed = [0], list[int](), 0.0, list[int]()
    while len(path) <= arguments["num_steps"] + faults.one_level_more:
        node = path[-1]
        if not faults.mass_carried:
            mass = 0.0
        removed, accepted, tried = [], -1, list[int]()
        siblings = tree.children[node][:: -1 if faults.siblings_backwards else 1]
        for child in sorted(siblings) if faults.siblings_ascend else siblings:
            token = tokens[child]
            if token in tried and arguments["skip_duplicates"]:
                continue
            chance = float(rows[child if faults.row_of_the_child else node, token])
            mass = chance if faults.mass_of_the_last else mass + chance
            coin = coins[child if faults.coin_of_the_child else len(path) - 1 if faults.coin_by_depth else node]
            coin = _final(arguments, request) if faults.final_coin_tests else coin
            is_lenient = faults.equality_accepts or not arguments["strict"]
            is_below = coin <= mass / share if is_lenient else coin < mass / share
            is_large = chance > single if faults.single_above else chance >= single
            if (chance > 0 or is_lenient) and (is_below or is_large):
                accepted = child
                break
            tried.append(token)
            if not (faults.fixed_array and len(tried) > SIBLINGS):
                removed.append(token)
        if not faults.nothing_remembered and len(path) <= arguments["num_steps"]:
            names = [*removed, *([tokens[accepted]] if accepted > 0 and faults.accepted_remembered else [])]
            remembered[node, names] = rows[node, names]
        if accepted < 0 or len(path) > arguments["num_steps"]:
            break
        path.append(accepted)
        output.append(tokens[accepted])
        removed = []
    rest = rows[0 if faults.last_row_of_the_root else path[-1]].astype(np.float64)
    if not faults.rejected_kept:
        rest[removed] = 0.0
    coin = coins[path[-1]] if faults.final_coin_of_the_node else _final(arguments, request)
    return path, [*output, _drawn(rest, coin, faults)]


def _final(arguments: Named, request: int) -> float:
    return float(arguments["uniform_samples_for_final_sampling"][request])


def _drawn(rest: Array, coin: float, faults: Faults) -> int:
    prefix = np.cumsum(rest)
    if faults.coarse_sums:
        prefix = np.floor(prefix * 16) / 16
    aim = coin if faults.total_taken_for_one else coin * rest.sum()
    beyond = np.flatnonzero(prefix >= aim if faults.prefix_reached else prefix > aim)
    return int(beyond[0]) if len(beyond) else len(rest) - 1


def _relaxed_for_all(arguments: Named) -> None:
    for name in ("threshold_single", "threshold_acc"):
        arguments[name] = np.full_like(arguments[name], arguments[name].min(initial=1.0))


def _thresholds_swapped(arguments: Named) -> None:
    single, accumulated = arguments["threshold_single"], arguments["threshold_acc"]
    arguments["threshold_single"], arguments["threshold_acc"] = accumulated, single


def _bonus_counted(outputs: Named, arguments: Named) -> None:
    outputs["num_accepted_drafts"] = outputs["num_accepted_drafts"] + np.int32(1)


def _one_stream_for_all(arguments: Named) -> None:
    seeds = arguments["seeds"]
    arguments["seeds"] = (seeds[:1].sum() + np.arange(len(seeds))) % 2**32


def _low_bits_lost(outputs: Named, arguments: Named) -> None:
    for name, coins in outputs.items():
        outputs[name] = (np.floor(coins * 2**12) / 2**12).astype(np.float32)


def _final_coin_in_the_next_column(outputs: Named, arguments: Named) -> None:
    words = zip(arguments["seeds"].tolist(), arguments["seq_lens"].tolist(), strict=True)
    coins = [(digest([*pair, arguments["num_draft_tokens"]]) >> 8) / 2**24 for pair in words]
    outputs["uniform_samples_for_final_sampling"] = np.array(coins, dtype=np.float32)


def _tokens_for_drafts(outputs: Named, arguments: Named) -> None:
    outputs["num_accepted_drafts"] = outputs["num_accepted_drafts"] + np.int32(1)


def _nodes_of_the_real_path(outputs: Named, arguments: Named) -> None:
    real, count = arguments["accept_index"], arguments["simulated_num_tokens"]
    outputs["simulated_accept_index"] = np.where(np.arange(real.shape[1]) < count, real, -1).astype(np.int32)


def _own_lengths(outputs: Named, arguments: Named) -> None:
    real = (arguments["accept_index"] >= 0).sum(axis=1)
    outputs["num_accepted_drafts"] = np.minimum(real - 1, outputs["num_accepted_drafts"]).astype(np.int32)


_TREE = "tree_speculative_sampling_target_only"
_COINS = "generate_coins"
_SIMULATED = "generate_simulated_accept_index"


def _fault(number: str, summary: str, **switched_on: bool) -> Mutant:
    return Mutant(number, _TREE, summary, instead(_sampled(Faults(**switched_on))))


MUTANTS = (
    _fault("V01", "The coin that rejected the last draft draws the last token.", final_coin_of_the_node=True),
    _fault("V02", "A coin at the boundary accepts, also at probability 0.", equality_accepts=True),
    _fault("V04", "The array of tried siblings holds 32.", fixed_array=True),
    Mutant("V28", _TREE, "Every coin of a node is 0.", with_arguments(uniform_samples=np.zeros_like)),
    Mutant("R17", _TREE, "One relaxed request relaxes all.", given(_relaxed_for_all)),
    _fault("SYN5", "The mass is not reset on the next level.", mass_carried=True),
    _fault("SYN6", "Rejected siblings stay in the last token's distribution.", rejected_kept=True),
    Mutant("SYN7", _TREE, "The two thresholds are swapped.", given(_thresholds_swapped)),
    _fault("SYN8", "The prefix sums lose their last digits, and a large coin falls off.", coarse_sums=True),
    Mutant(
        "SYN12",
        _TREE,
        "Every request has the thresholds of the first.",
        of_the_first("threshold_single", "threshold_acc"),
    ),
    _fault("OWN-250", "Every child has a coin of its own.", coin_of_the_child=True),
    _fault("OWN-251", "The coin is that of the depth.", coin_by_depth=True),
    _fault("OWN-252", "A child is tested against its own row.", row_of_the_child=True),
    _fault("OWN-253", "Siblings before a child do not add to its mass.", mass_of_the_last=True),
    _fault("OWN-254", "The last coin is not scaled by the mass that is left.", total_taken_for_one=True),
    _fault("OWN-255", "A prefix sum that the last coin only reaches is taken.", prefix_reached=True),
    _fault("OWN-256", "A probability at the single threshold is not accepted.", single_above=True),
    _fault("OWN-257", "Rejected children are not written down.", nothing_remembered=True),
    _fault("OWN-258", "Accepted children are written down too.", accepted_remembered=True),
    _fault("OWN-259", "Children beyond the longest path leave its last row.", one_level_more=True),
    _fault("OWN-393", "Siblings are tried by ascending number.", siblings_ascend=True),
    _fault("OWN-260", "Siblings are tried from the last.", siblings_backwards=True),
    _fault("OWN-261", "The last token comes from the root's row.", last_row_of_the_root=True),
    _fault("OWN-275", "The final coin tests the drafts too.", final_coin_tests=True),
    Mutant("OWN-262", _TREE, "The lenient rule is not there.", with_arguments(strict=True)),
    Mutant("OWN-263", _TREE, "The bonus counts as a draft.", returning(_bonus_counted)),
    Mutant("V18", _COINS, "All requests draw from one stream.", given(_one_stream_for_all)),
    Mutant("OWN-264", _COINS, "The length is left out.", with_arguments(seq_lens=np.zeros_like)),
    Mutant("OWN-265", _COINS, "Coins have 12 bits.", returning(_low_bits_lost)),
    Mutant("OWN-266", _COINS, "The last coin stands in the next column.", returning(_final_coin_in_the_next_column)),
    Mutant("OWN-267", _SIMULATED, "Tokens are counted as drafts.", returning(_tokens_for_drafts)),
    Mutant("OWN-268", _SIMULATED, "The nodes are those of the real path.", returning(_nodes_of_the_real_path)),
    Mutant("OWN-269", _SIMULATED, "Every request keeps its own length.", returning(_own_lengths)),
)
