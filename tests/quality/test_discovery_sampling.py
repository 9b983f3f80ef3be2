"""What the strategies of sampling must find, but for those of the tree sampler."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specsim.contracts.chains import draft_logits_read, target_logits_read, target_rows_read
from specsim.properties.laws.links import parents_of
from specsim.properties.operations.acceptance.decided import chain_of, decide_chain
from specsim.properties.operations.acceptance.strategy_chains import chances_of_fronts, shares_of_fronts
from specsim.properties.operations.grammar.laws import path_to, state_after
from specsim.reference import (
    chain_block_verification,
    chain_speculative_sampling_from_logits,
    target_probabilities,
    verify_tree_sampled_from_logits,
)
from tests.quality.pool import calls_of

Case = dict[str, Any]

CHAIN = "chain_speculative_sampling"
SAMPLED = "verify_tree_sampled_from_logits"
CHAIN_LOGITS = "chain_speculative_sampling_from_logits"
FILTERS = {"top_k": 2**30, "top_p": 1.0, "min_p": 0.0}
TARGET = "target_probabilities"


def chains(case: Case) -> list[tuple[int, int, Any]]:
    counts = np.diff(case["cu_num_drafts"]).tolist()
    return [(request, count, decide_chain(case, request)) for request, count in enumerate(counts)]


def support(case: Case, *names: str) -> Any:
    """Return which tokens are kept by some of the filters alone."""
    off = {"top_k": 2**30, "top_p": 1, "min_p": 0}
    changed = {name: np.full_like(case[name], value) for name, value in off.items() if name not in names}
    return target_probabilities(**{**case, **changed}) > 0


def does_one_filter_decide(case: Case) -> bool:
    """Return whether another token comes out without top-k, without top-p and without min-p, each of a request."""
    (tokens, path, _), found = verify_tree_sampled_from_logits(**case), set[str]()
    for name in FILTERS:
        others, other_path, _ = verify_tree_sampled_from_logits(**{**case, name: None})
        nodes = path[path >= 0]
        if (path != other_path).any() or (tokens[nodes] != others[nodes]).any():
            found.add(name)
    return len(found) == 3


def ends(case: Case) -> list[tuple[int, int, int]]:
    """Return of every chain from logits its drafts, those that are accepted, and the draft after them, -1 for none."""
    counts = chain_speculative_sampling_from_logits(**case)[1].tolist()
    bounds = pairwise(case["cu_num_drafts"].tolist())
    return [
        (last - first, count, int(case["draft_tokens"][first + count]) if first + count < last else -1)
        for (first, last), count in zip(bounds, counts, strict=True)
    ]


def is_filtered(case: Case) -> Any:
    """Return which requests have a filter that may drop tokens."""
    given = {name: open_at for name, open_at in FILTERS.items() if case[name] is not None}
    return sum((case[name] != open_at for name, open_at in given.items()), np.zeros(len(case["temperature"]))) > 0


CHAINS_FROM_LOGITS: dict[str, Callable[[Case], Any]] = {
    "chains with drafts and without": lambda case: len({count for count, _, _ in ends(case)} | {0}) > 3,
    "a rejection after accepted drafts": lambda case: any(count and token >= 0 for _, count, token in ends(case)),
    "a chain accepted whole": lambda case: any(drafts == count > 2 for drafts, count, _ in ends(case)),
    "a sentinel before another draft": lambda case: any(
        (np.diff(case["draft_tokens"][first:last] >= 0) > 0).any() and case["draft_tokens"][first] >= 0
        for first, last in pairwise(case["cu_num_drafts"].tolist())
    ),
    "a greedy request beside a sampled one": lambda case: (
        (case["temperature"] == 0).any() and (case["temperature"] > 0).any()
    ),
    "certain drafts beside drawn ones": lambda case: (
        case["draft_logits"] is not None
        and ((case["draft_temperature"] == 0) & (case["temperature"] > 0)).any()
        and ((case["draft_temperature"] > 0) & (case["temperature"] > 0)).any()
    ),
    "two temperatures of one request": lambda case: (
        (case["draft_temperature"] != case["temperature"]) & (case["draft_temperature"] > 0) & (case["temperature"] > 0)
    ).any(),
    "no draft rows": lambda case: case["draft_logits"] is None and len(case["draft_tokens"]) > 3,
    "a smaller vocabulary of the draft": lambda case: (
        case["draft_logits"] is not None and 1 < case["draft_logits"].shape[1] < case["target_logits"].shape[1]
    ),
    "a larger vocabulary of the draft": lambda case: (
        case["draft_logits"] is not None and case["draft_logits"].shape[1] > case["target_logits"].shape[1] > 1
    ),
    "a draft that its row lacks": lambda case: (
        case["draft_logits"] is not None and (case["draft_tokens"] >= case["draft_logits"].shape[1]).any()
    ),
    "filters on and off": lambda case: is_filtered(case).any() and not is_filtered(case).all(),
    "one filter left out": lambda case: sum(case[name] is None for name in FILTERS) == 1,
    "two types of logits": lambda case: (
        case["draft_logits"] is not None and case["draft_logits"].dtype != case["target_logits"].dtype
    ),
    "forbidden tokens on both sides": lambda case: (
        case["draft_logits"] is not None
        and all(np.isneginf(case[name][rows_read(case)].astype(np.float32)).any() for name, rows_read in READ.items())
    ),
    "equal rows": lambda case: (
        case["draft_logits"] is not None
        and case["draft_logits"].shape[1] == case["target_logits"].shape[1] > 2
        and any(
            (case["draft_logits"][first] == case["target_logits"][first + request]).all()
            for request, (first, last) in enumerate(pairwise(case["cu_num_drafts"].tolist()))
            if last > first
        )
    ),
    "rows of NaN that are not read": lambda case: np.isnan(case["target_logits"].astype(np.float32)).any(),
}
READ = {"target_logits": target_logits_read, "draft_logits": draft_logits_read}


def fronts(case: Case) -> list[tuple[int, Any, Any, Any]]:
    """Return of every block its kept drafts, its coins, and the shares and the chances of its fronts, none left out."""
    counts, found = chain_block_verification(**case)[1].tolist(), []
    for request, kept in enumerate(counts):
        tokens, target, proposal = chain_of(case, request)
        first = int(case["cu_num_drafts"][request])
        coins = case["uniform_samples"][first : first + len(tokens)]
        shares, chances = (of(tokens, target, proposal) for of in (shares_of_fronts, chances_of_fronts))
        found.append((kept, coins, shares[1:], chances))
    return found


BLOCKS: dict[str, Callable[[Case], Any]] = {
    "a coin that fails before a front that is kept": lambda case: any(
        (coins[: max(kept - 1, 0)] >= chances[: max(kept - 1, 0)]).any() for kept, coins, _, chances in fronts(case)
    ),
    "an inner front that is kept with a share between 0 and 1": lambda case: any(
        0 < kept < len(shares) and 0 < shares[kept - 1] < 1 for kept, _, shares, _ in fronts(case)
    ),
    "a share that grows again, and one that was cut": lambda case: any(
        (np.diff(shares) > 0).any() and (shares[:-1] == 1).any() and (shares < 1).any()
        for _, _, shares, _ in fronts(case)
    ),
    "a coin just below its chance and later ones just above": lambda case: any(
        0 < kept < len(coins)
        and 0.875 * chances[kept - 1] < coins[kept - 1] < chances[kept - 1]
        and (coins[kept:] < chances[kept:] + 0.125).all()
        for kept, coins, _, chances in fronts(case)
    ),
    "a coin of 0 at a share of 0": lambda case: any(
        ((coins == 0) & (shares == 0)).any() for _, coins, shares, _ in fronts(case)
    ),
    "a draft that its law cannot draw after others": lambda case: any(
        (np.diff(shares == 0) > 0).any() for _, _, shares, _ in fronts(case)
    ),
    "a row of NaN after drafts that are not all kept": lambda case: any(
        np.isnan(case["target_probs"][last + request]).any() and case["draft_tokens"][last - 1] >= 0
        for request, (first, last) in enumerate(pairwise(case["cu_num_drafts"].tolist()))
        if last > first
    ),
}
GREEDY_CHAINS: dict[str, Callable[[Case], Any]] = {
    "chains of three lengths": lambda case: len(set(np.diff(case["cu_num_drafts"]).tolist())) > 2,
    "a match after a mismatch": lambda case: any(
        (np.diff(agreements(case, request).astype(int)) > 0).any() for request in range(len(case["cu_num_drafts"]) - 1)
    ),
    "a chain accepted whole beside one of which nothing is": lambda case: (
        {True, False}
        <= {
            bool(agrees.all()) if agrees.all() or not agrees[0] else None
            for request in range(len(case["cu_num_drafts"]) - 1)
            for agrees in [agreements(case, request)]
            if len(agrees)
        }
    ),
    "a sentinel before another draft": lambda case: (np.diff((case["draft_tokens"] >= 0).astype(int)) > 0).any(),
}


def agreements(case: Case, request: int) -> Any:
    """Return which drafts of a greedy chain are the target's choices."""
    first, last = case["cu_num_drafts"][request : request + 2].tolist()
    return case["draft_tokens"][first:last] == case["target_predict"][first + request : last + request]


OTHERS: dict[str, tuple[str, Callable[[Case], Any]]] = {
    "ragged chains, one without drafts": (
        CHAIN,
        lambda case: len({count for _, count, _ in chains(case)} | {0}) > 3 and 0 in np.diff(case["cu_num_drafts"]),
    ),
    "a sentinel after accepted drafts": (
        CHAIN,
        lambda case: any(
            1 < len(walk.tokens) <= count and case["draft_tokens"][case["cu_num_drafts"][r] + len(walk.tokens) - 1] < 0
            for r, count, walk in chains(case)
        ),
    ),
    "an impossible draft": (
        CHAIN,
        lambda case: (
            case["draft_probs"] is not None
            and any(
                (case["draft_probs"][place, token] == 0)
                for place, token in enumerate(case["draft_tokens"])
                if token >= 0
            )
        ),
    ),
    "no laws of drafts": (CHAIN, lambda case: case["draft_probs"] is None and len(case["draft_tokens"]) > 3),
    "a long chain accepted whole": (
        CHAIN,
        lambda case: any(len(walk.tokens) == count + 1 > 4 for _, count, walk in chains(case)),
    ),
    "a coin on the ratio": (
        CHAIN,
        lambda case: (
            case["draft_probs"] is not None
            and any(
                0
                < case["uniform_samples"][place] * case["draft_probs"][place, token]
                == case["target_probs"][place + r, token]
                for r, (first, last) in enumerate(
                    zip(case["cu_num_drafts"][:-1], case["cu_num_drafts"][1:], strict=True)
                )
                for place, token in zip(range(first, last), case["draft_tokens"][first:last], strict=True)
            )
        ),
    ),
    "ties at the count": (
        "top_k_renorm",
        lambda case: any(
            k < len(row) and np.sort(row)[::-1][k - 1] == np.sort(row)[::-1][k] > 0
            for row, k in zip(case["probabilities"], case["top_k"].tolist(), strict=True)
        ),
    ),
    "a mass equal to the share": (
        "top_p_renorm",
        lambda case: any(
            share < 1 and (np.cumsum(np.sort(row)[::-1]) == share * row.sum()).any()
            for row, share in zip(case["probabilities"], case["top_p"], strict=True)
        ),
    ),
    "an entry equal to its share of the largest": (
        "min_p_renorm",
        lambda case: any(
            0 < share < 1 and (row == share * row.max()).any()
            for row, share in zip(case["probabilities"], case["min_p"], strict=True)
        ),
    ),
    "a greedy request among others": (
        TARGET,
        lambda case: (case["temperature"] == 0).any() and (case["temperature"] > 0).any(),
    ),
    "all filters at once": (
        TARGET,
        lambda case: ((case["top_k"] < case["logits"].shape[1]) & (case["top_p"] < 1) & (case["min_p"] > 0)).any(),
    ),
    "filters whose order decides": (
        TARGET,
        lambda case: (
            support(case, "top_k", "top_p", "min_p")
            != (support(case, "top_k") & support(case, "top_p") & support(case, "min_p"))
        ).any(),
    ),
    "several largest logits at temperature 0": (
        TARGET,
        lambda case: any(
            (row == row.max()).sum() > 1
            for row, cold in zip(
                case["logits"].astype(np.float32),
                np.repeat(case["temperature"] == 0, case["num_draft_tokens"]),
                strict=True,
            )
            if cold
        ),
    ),
    "filters each of which decides": (SAMPLED, does_one_filter_decide),
    "no filter at all, and drafts accepted by chance": (
        SAMPLED,
        lambda case: (
            all(case[name] is None for name in FILTERS)
            and any((verify_tree_sampled_from_logits(**case)[2] > 0) & (case["temperature"] > 0))
        ),
    ),
    "a count right beyond the vocabulary": (
        "top_k_renorm",
        lambda case: any(
            count == len(row) + 1 and (row > 0).sum() > 2
            for row, count in zip(case["probabilities"], case["top_k"], strict=True)
        ),
    ),
    "several words and no mask": (
        "prepare_logits",
        lambda case: case["vocab_mask"] is None and case["logits"].shape[1] > 64 and len(case["logits"]) > 2,
    ),
    "logits in bfloat16": (TARGET, lambda case: case["logits"].dtype.name == "bfloat16" and len(case["logits"]) > 2),
    "forbidden tokens": (SAMPLED, lambda case: np.isneginf(case["logits"].astype(np.float32)).any()),
    "a sampled path of several nodes": (
        SAMPLED,
        lambda case: any((verify_tree_sampled_from_logits(**case)[2] > 2) & (case["temperature"] > 0)),
    ),
    "equal largest logits": (
        "verify_tree_greedy_from_logits",
        lambda case: any((row == row.max()).sum() > 1 for row in case["logits"].astype(np.float32)),
    ),
    "penalties with and without": (
        "prepare_logits",
        lambda case: (
            case["additive_penalty"] is not None
            and len({bool(row.any()) for row in case["additive_penalty"]}) > 1
            and case["logit_bias"] is None
        ),
    ),
    "equal seeds and different lengths": (
        "generate_coins",
        lambda case: len(case["seeds"]) > 1 and len(set(case["seeds"])) < len(set(case["seq_lens"])),
    ),
    "rows of NaN after the last one that is read": (
        "chain_speculative_sampling",
        lambda case: np.isnan(case["target_probs"]).any() and (~np.isnan(case["target_probs"]).all(axis=1)).any(),
    ),
    "rows without mass that are not read": (
        "chain_speculative_sampling",
        lambda case: (~target_rows_read(case) & (case["target_probs"].sum(axis=1) == 0)).any(),
    ),
    "a draft's law that is none where it is not read": (
        "chain_speculative_sampling",
        lambda case: case["draft_probs"] is not None and (case["draft_probs"] < 0).any(),
    ),
    "a mask that lacks the end": (
        "verify_custom_mask_metadata",
        lambda case: 0 < len(case["tree_mask"]) < case["num_draft_tokens"] * case["seq_lens"].sum(),
    ),
    "a length of 0 beside others": (
        "verify_cascade_metadata",
        lambda case: 0 in case["seq_lens"][1:] and any(case["seq_lens"]),
    ),
}


def states(case: Case) -> list[tuple[int, int, int, int]]:
    """Return (request, node, depth, state after the path) of the requests with a grammar."""
    found = []
    for request, first in enumerate(case["grammar_state"].tolist()):
        if first >= 0:
            parents, tokens = parents_of(case, request), case["candidates"][request].tolist()
            for node in range(len(parents)):
                path = path_to(parents, node)
                found.append((request, node, len(path), state_after(case, first, path, tokens)))
    return found


GRAMMARS: dict[str, Callable[[Case], Any]] = {
    "a text that is complete below the root": lambda case: any(
        length > 1 and state >= 0 and case["is_terminated"][state] for _, _, length, state in states(case)
    ),
    "a deep node that is reached": lambda case: any(length > 20 and state >= 0 for _, _, length, state in states(case)),
    "a sibling after a rejected one that is reached": lambda case: any(
        state >= 0
        and any(
            r == request and n < node and s < 0 and parents_of(case, r)[n] == parents_of(case, r)[node]
            for r, n, _, s in states(case)
        )
        for request, node, length, state in states(case)
        if length == 1
    ),
    "a token beyond the vocabulary": lambda case: (
        (case["candidates"] >= case["transitions"].shape[1]).any() and (case["grammar_state"] >= 0).any()
    ),
    "requests with and without a grammar": lambda case: (
        (case["grammar_state"] < 0).any() and (case["grammar_state"] >= 0).any()
    ),
    "a second word": lambda case: case["transitions"].shape[1] > 32 and (case["grammar_state"] >= 0).any(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_calls_contain(name: str) -> None:
    operation, predicate = OTHERS[name]
    assert calls_of(operation).first(predicate)


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_contain(name: str) -> None:
    assert calls_of("generate_token_bitmask").first(GRAMMARS[name])


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_contain(name: str) -> None:
    assert calls_of("chain_block_verification").first(BLOCKS[name])


@pytest.mark.parametrize("name", GREEDY_CHAINS)
def test_greedy_chains_contain(name: str) -> None:
    assert calls_of("verify_chain_greedy").first(GREEDY_CHAINS[name])


@pytest.mark.parametrize("name", CHAINS_FROM_LOGITS)
def test_chains_from_logits_contain(name: str) -> None:
    assert calls_of(CHAIN_LOGITS).first(CHAINS_FROM_LOGITS[name])
