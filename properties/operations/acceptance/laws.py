"""Laws of acceptance by chance along trees, of coins, and of simulated acceptance."""

from functools import partial

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import (
    Array,
    Case,
    block,
    outputs_of,
    require,
    require_equal,
    require_one_by_one,
    states,
)
from specsim.properties.laws.links import children_of, parents_of, require_walked_one_by_one, walked
from specsim.properties.operations.acceptance import strategy as acceptance_strategies
from specsim.properties.operations.acceptance.decided import COIN_STEP, decide_tree, drawn
from specsim.properties.strategies.arrays import one_of_evenly
from specsim.properties.strategies.limits import limits

_SAMPLER = "tree_speculative_sampling_target_only"
_COINS = ("uniform_samples", "uniform_samples_for_final_sampling")
_LINKS = ("candidates", "retrieve_next_token", "retrieve_next_sibling")
_POOLED = 512


def boundaries_fall_as_stated(backend: Backend, case: Case) -> None:
    """On exact rows every decision is the stated one, also where a coin lies on a boundary or right beside it.

    It is so under the rules that were drawn, and under both others.
    """
    for rules in ({}, {name: not case[name] for name in ("strict", "skip_duplicates")}):
        ruled = {**case, **rules}
        sampled = outputs_of(backend, _SAMPLER, ruled)
        for request in range(len(case["candidates"])):
            decided = decide_tree(ruled, request)
            if decided.is_exact:
                path, tokens = walked(case, sampled, request)
                require_equal(f"the path of request {request}", path, decided.path)
                require_equal(f"the output of request {request}", tokens, decided.tokens)
                require_equal("its drafts", sampled["num_accepted_drafts"][request], len(decided.path) - 1)


def rejected_children_are_remembered(backend: Backend, case: Case) -> None:
    """Afterwards ``draft_probs`` holds the target's probability of every child that was rejected, and 0 elsewhere."""
    sampled = outputs_of(backend, _SAMPLER, case)
    expected = np.zeros_like(case["target_probs"])
    for request in range(len(case["candidates"])):
        path, _ = walked(case, sampled, request)
        children = children_of(case, request)
        for node, accepted in zip(path[: case["num_steps"]], [*path[1:], None], strict=False):
            below = children[node]
            tried = below if accepted is None else below[: below.index(accepted)]
            tokens = case["candidates"][request, tried]
            expected[request, node, tokens] = case["target_probs"][request, node, tokens]
    require_equal("draft_probs", sampled["draft_probs"], expected)


def many_siblings_are_all_tried(backend: Backend, case: Case) -> None:
    """Where a node has more children than a warp has lanes, each is tried in turn and remembered."""
    if limits().writes_scratch:
        rejected_children_are_remembered(backend, case)
    else:
        impossible_tokens_are_never_output(backend, _aimed_at_the_last_child(backend, case))
    sampled_nodes_are_a_path(backend, case)


def _aimed_at_the_last_child(backend: Backend, case: Case) -> Case:
    """Return the call with final coins that draw the last child of each walk's end, if it is left to be drawn."""
    sampled = outputs_of(backend, _SAMPLER, case)
    coins = case["uniform_samples_for_final_sampling"].copy()
    for request, rows in enumerate(case["target_probs"]):
        path, _ = walked(case, sampled, request)
        below = children_of(case, request)[path[-1]]
        if below and len(path) <= case["num_steps"]:
            token, row = case["candidates"][request, below[-1]], rows[path[-1]].astype(np.float64)
            rest = row - _rejected_mass(case, sampled, request, path)
            rest[token] = row[token]
            coins[request] = min((rest[:token].sum() + rest[token] / 2) / max(rest.sum(), COIN_STEP), 1 - COIN_STEP)
    return {**case, "uniform_samples_for_final_sampling": coins}


def sampled_nodes_are_a_path(backend: Backend, case: Case) -> None:
    """A row starts at the root, each node is a child of the one before, and its tokens are those of the nodes."""
    sampled = outputs_of(backend, _SAMPLER, case)
    num_nodes = case["candidates"].shape[1]
    for request, row in enumerate(sampled["accept_index"].tolist()):
        path, tokens = walked(case, sampled, request)
        require(row == [request * num_nodes + n for n in path] + [-1] * (len(row) - len(path)), "a row", row, "a path")
        parents = parents_of(case, request)
        require_equal(f"the parents on path {path}", [parents[node] for node in path], [-1, *path[:-1]])
        require_equal("the drafts among the output", tokens[:-1], case["candidates"][request, path[1:]])
        require_equal("num_accepted_drafts", sampled["num_accepted_drafts"][request], len(path) - 1)


def impossible_tokens_are_never_output(backend: Backend, case: Case) -> None:
    """Under the strict rule an accepted draft has mass, and so has the last token, unless all mass was rejected."""
    case = {**case, "strict": True}
    sampled = outputs_of(backend, _SAMPLER, case)
    for request, rows in enumerate(case["target_probs"]):
        path, tokens = walked(case, sampled, request)
        for node, token in zip(path, tokens[:-1], strict=False):
            require(rows[node, token] > 0, f"the chance of draft {token}", rows[node, token], "above 0")
        rest = rows[path[-1]] - _rejected_mass(case, sampled, request, path)
        if (rest > 0).any():
            require(rest[tokens[-1]] > 0, f"the rest of token {tokens[-1]}", rest[tokens[-1]], "above 0")


def _rejected_mass(case: Case, sampled: Case, request: int, path: list[int]) -> Array:
    """Return the mass of each token that was rejected at the end of a path: as remembered, or that of the children."""
    if limits().writes_scratch:
        remembered: Array = sampled["draft_probs"][request, path[-1]]
        return remembered
    row = case["target_probs"][request, path[-1]]
    rejected: Array = np.zeros_like(row)
    if len(path) <= case["num_steps"]:
        tokens = case["candidates"][request, list(children_of(case, request)[path[-1]])]
        rejected[tokens] = row[tokens]
    return rejected


def one_hot_rows_decide_like_greedy(backend: Backend, case: Case) -> None:
    """Where the target is sure of one token, any coins give the greedy path and output."""
    target = case["target_probs"].argmax(axis=2)
    rows = (np.arange(case["target_probs"].shape[2]) == target[:, :, None]).astype(np.float32)
    sampled = outputs_of(backend, _SAMPLER, {**case, "target_probs": rows, "strict": True})
    asked = {name: case[name] for name in (*_LINKS, "retrieve_index", "num_steps")}
    greedy = outputs_of(backend, "verify_tree_greedy", {**asked, "target_predict": target.astype(np.int64)})
    require_equal("accept_index", sampled["accept_index"], greedy["accept_index"])
    for request in range(len(target)):
        path, tokens = walked(case, sampled, request)
        require_equal("the output", tokens, block(greedy["predict"], len(target), request)[path])


def full_paths_draw_from_the_whole_row(backend: Backend, case: Case) -> None:
    """At the end of the longest path no child is tried: without steps the last token comes from the root's row."""
    sampled = outputs_of(backend, _SAMPLER, {**case, "num_steps": 0})
    for request, rows in enumerate(case["target_probs"]):
        token, is_sure = drawn(rows[0].astype(np.float64), float(case["uniform_samples_for_final_sampling"][request]))
        if is_sure:
            require_equal(f"the output of request {request}", walked(case, sampled, request)[1], [token])
    if limits().writes_scratch:
        require_equal("draft_probs", sampled["draft_probs"], np.zeros_like(case["target_probs"]))


def coins_off_the_path_do_not_matter(backend: Backend, case: Case) -> None:
    """Only the coins of accepted nodes and the final coin are used, each by its own request."""
    before = outputs_of(backend, _SAMPLER, case)
    coins = 1 - COIN_STEP - case["uniform_samples"]
    for request in range(len(coins)):
        path, _ = walked(case, before, request)
        coins[request, path] = case["uniform_samples"][request, path]
    after = outputs_of(backend, _SAMPLER, {**case, "uniform_samples": coins.astype(np.float32)})
    for request in range(len(coins)):
        same = f"the walk of request {request} under other unused coins"
        require_equal(same, walked(case, after, request)[1], walked(case, before, request)[1])


def final_coin_draws_the_last_token_only(backend: Backend, case: Case) -> None:
    """Another final coin changes neither the path nor any token but the last."""
    before = outputs_of(backend, _SAMPLER, case)
    flipped = (1 - COIN_STEP - case["uniform_samples_for_final_sampling"]).astype(np.float32)
    after = outputs_of(backend, _SAMPLER, {**case, "uniform_samples_for_final_sampling": flipped})
    require_equal("accept_index", after["accept_index"], before["accept_index"])
    for request in range(len(flipped)):
        require_equal("the drafts", walked(case, after, request)[1][:-1], walked(case, before, request)[1][:-1])


def trees_are_sampled_one_by_one(backend: Backend, case: Case) -> None:
    """A request's path and output are the same alone, and in any order of the batch."""
    require_walked_one_by_one(backend, _SAMPLER, case)


def coins_are_uniform_multiples(backend: Backend, case: Case) -> None:
    """Coins are multiples of 2**-24 in [0, 1), spread evenly, and hardly any two of them are equal."""
    coins = np.concatenate([values.reshape(-1) for values in outputs_of(backend, "generate_coins", case).values()])
    numerators = coins.astype(np.float64) / COIN_STEP
    require_equal("the numerators of the coins", numerators, np.floor(numerators))
    require(((coins >= 0) & (coins < 1)).all(), "a coin", [coins.min(initial=0), coins.max(initial=0)], "in [0, 1)")
    if len(coins) >= _POOLED and len(set(case["seeds"].tolist())) == len(case["seeds"]):
        off = abs(coins.mean(dtype=np.float64) - 0.5) * np.sqrt(12 * len(coins))
        require(off < 6, "the mean of the coins", f"{off:.1f} deviations off", "within 6")
        repeated = len(coins) - len(np.unique(coins))
        require(repeated <= 8, "the number of equal coins", repeated, "hardly any")
        low_bits = (numerators % 256).astype(np.int64)
        require(len(np.unique(low_bits)) > 128, "the low bits of the coins", len(np.unique(low_bits)), "most of 256")


def coins_depend_on_seed_and_length_only(backend: Backend, case: Case) -> None:
    """A request's coins are the same alone, beside other requests, and for a wider tree; another length has others."""
    whole = outputs_of(backend, "generate_coins", case)
    width = case["num_draft_tokens"]
    wider = outputs_of(backend, "generate_coins", {**case, "num_draft_tokens": min(width + 3, 1024)})
    require_equal("the coins of a wider tree", wider[_COINS[0]][:, :width], whole[_COINS[0]])
    require_equal("the final coins of a wider tree", wider[_COINS[1]], whole[_COINS[1]])
    require_one_by_one(backend, "generate_coins", case, _COINS)
    for name, other in (("seeds", case["seeds"] ^ 1), ("seq_lens", case["seq_lens"] ^ 1)):
        changed = outputs_of(backend, "generate_coins", {**case, name: other})
        same = sum(int((changed[part] == whole[part]).sum()) for part in _COINS)
        require(same <= 2, f"coins that other {name} leave alone", same, "hardly any")


def everybody_pretends_the_same_length(backend: Backend, case: Case) -> None:
    """Every request accepts its first nodes, as many as were asked for, and predicts one token everywhere."""
    got = outputs_of(backend, "generate_simulated_accept_index", case)
    count, shape = case["simulated_num_tokens"], case["accept_index"].shape
    roots = np.arange(shape[0])[:, None] * case["num_draft_tokens"]
    expected = np.where(np.arange(shape[1]) < count, roots + np.arange(shape[1]), -1)
    require_equal("simulated_accept_index", got["simulated_accept_index"], expected)
    require_equal("num_accepted_drafts", got["num_accepted_drafts"], np.full(shape[0], count - 1))
    require_equal("predict", got["predict"], np.full(shape[0] * case["num_draft_tokens"], 100))


def _wide_coins() -> SearchStrategy[Case]:
    usual = acceptance_strategies.generate_coins()
    return one_of_evenly(usual, usual.map(lambda case: {**case, "num_draft_tokens": _POOLED}))


_trees = acceptance_strategies.tree_speculative_sampling_target_only
_exact_trees = partial(_trees, is_table=True)
_wide_stars = partial(_trees, is_wide=True)

PROPERTIES = states(
    "acceptance",
    (boundaries_fall_as_stated, _exact_trees, _SAMPLER, "P08"),
    (rejected_children_are_remembered, _SAMPLER, "P09"),
    (many_siblings_are_all_tried, _wide_stars, _SAMPLER, "P24"),
    (sampled_nodes_are_a_path, _SAMPLER, "P22"),
    (impossible_tokens_are_never_output, _SAMPLER, "P07"),
    (one_hot_rows_decide_like_greedy, (_SAMPLER, "verify_tree_greedy"), "P12"),
    (full_paths_draw_from_the_whole_row, _exact_trees, _SAMPLER, "P22"),
    (coins_off_the_path_do_not_matter, _SAMPLER, "P09"),
    (final_coin_draws_the_last_token_only, _SAMPLER, "P09"),
    (trees_are_sampled_one_by_one, _SAMPLER, "P31"),
    (coins_are_uniform_multiples, _wide_coins, "generate_coins", "P10"),
    (coins_depend_on_seed_and_length_only, "generate_coins", "P10"),
    (everybody_pretends_the_same_length, "generate_simulated_accept_index", "P25"),
)
