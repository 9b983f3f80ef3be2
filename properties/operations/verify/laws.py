"""Laws of verification: the accepted path is the longest that the target agrees with."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Case, local_path, outputs_of, require, require_equal, states
from specsim.properties.laws.links import children_of, links_of_chains, parents_of, require_walked_one_by_one, walked
from specsim.properties.strategies.numbers import generators

_PER_REQUEST = ("candidates", "retrieve_next_token", "retrieve_next_sibling", "target_predict")


def agreed_path(case: Case, request: int) -> list[int]:
    """Find for every node the child that the target chooses after it, and follow them from the root.

    Of siblings with equal tokens only the one that is linked first counts.
    """
    tokens, chosen = case["candidates"][request].tolist(), case["target_predict"][request].tolist()
    children = children_of(case, request)
    accepted = [[c for c in below if tokens[c] == chosen[node]][:1] for node, below in enumerate(children)]
    path = [0]
    while accepted[path[-1]]:
        path += accepted[path[-1]]
    return path[: case["num_steps"] + 1]


def accepted_nodes_are_a_path(backend: Backend, case: Case) -> None:
    """A row starts at the root, each node is a child of the one before, and sentinels fill the rest."""
    accept_index = outputs_of(backend, "verify_tree_greedy", case)["accept_index"]
    num_nodes = case["candidates"].shape[1]
    for request, row in enumerate(accept_index.tolist()):
        valid = [node for node in row if node != -1]
        require(row == valid + [-1] * (len(row) - len(valid)), f"row {request}", row, "a path, then -1")
        parents = [-1, *(parent + request * num_nodes for parent in parents_of(case, request)[1:])]
        require_equal(f"the first node of request {request}", valid[:1], [request * num_nodes])
        for before, node in pairwise(valid):
            require(request * num_nodes <= node < (request + 1) * num_nodes, "a node", node, f"in request {request}")
            require_equal(f"the parent of accepted node {node}", parents[node - request * num_nodes], before)


def accepted_nodes_are_the_longest_match(backend: Backend, case: Case) -> None:
    """The path goes on as long as the target's choice is among the children, and no further."""
    accept_index = outputs_of(backend, "verify_tree_greedy", case)["accept_index"]
    for request in range(len(accept_index)):
        path = local_path(accept_index, request, case["candidates"].shape[1])
        require_equal(f"the path of request {request}", path, agreed_path(case, request))


def count_excludes_the_root(backend: Backend, case: Case) -> None:
    """The count of accepted drafts is one less than the entries of the path."""
    verified = outputs_of(backend, "verify_tree_greedy", case)
    entries = (verified["accept_index"] >= 0).sum(axis=1)
    require_equal("num_accepted_drafts", verified["num_accepted_drafts"], entries - 1)


def output_is_the_drafts_and_the_bonus(backend: Backend, case: Case) -> None:
    """Read along the path, the output is the accepted drafts and then the target's choice after the last one."""
    verified = outputs_of(backend, "verify_tree_greedy", case)
    for request in range(len(case["candidates"])):
        path, tokens = walked(case, verified, request)
        bonus = case["target_predict"][request, path[-1]]
        require_equal(f"the output of request {request}", tokens, [*case["candidates"][request][path[1:]], bonus])


def perfect_targets_accept_a_whole_branch(backend: Backend, case: Case) -> None:
    """If the target always chooses the first child, the first branch is accepted down to its leaf."""
    tokens, next_token = case["candidates"], case["retrieve_next_token"]
    beyond = _unused_token(case)
    chosen = np.where(next_token >= 0, np.take_along_axis(tokens, np.maximum(next_token, 0), axis=1), beyond)
    verified = outputs_of(backend, "verify_tree_greedy", {**case, "target_predict": chosen})
    for request in range(len(tokens)):
        branch = [0]
        while next_token[request, branch[-1]] != -1:
            branch.append(int(next_token[request, branch[-1]]))
        branch = branch[: case["num_steps"] + 1]
        path = local_path(verified["accept_index"], request, tokens.shape[1])
        require_equal(f"the path of request {request}", path, branch)
        require_equal(f"the drafts of request {request}", verified["num_accepted_drafts"][request], len(branch) - 1)


def hostile_targets_accept_nothing(backend: Backend, case: Case) -> None:
    """If no draft is what the target chooses, only the bonus token comes out."""
    chosen = np.full_like(case["target_predict"], _unused_token(case))
    verified = outputs_of(backend, "verify_tree_greedy", {**case, "target_predict": chosen})
    num_requests, num_nodes = case["candidates"].shape
    roots = np.arange(num_requests) * num_nodes
    require_equal("num_accepted_drafts", verified["num_accepted_drafts"], np.zeros(num_requests))
    require_equal("the first accepted nodes", verified["accept_index"][:, 0], roots)
    require_equal("the bonus tokens", verified["predict"][roots], chosen[:, 0])


def chain_counts_the_matching_prefix(backend: Backend, case: Case) -> None:
    """On a chain the accepted drafts are those before the first mismatch."""
    verified = outputs_of(backend, "verify_tree_greedy", case)
    matches = case["candidates"][:, 1:] == case["target_predict"][:, :-1]
    expected = np.cumprod(matches, axis=1).sum(axis=1)
    require_equal("num_accepted_drafts", verified["num_accepted_drafts"], expected)
    for request, drafts in enumerate(expected.tolist()):
        path = local_path(verified["accept_index"], request, case["candidates"].shape[1])
        require_equal(f"the path of request {request}", path, np.arange(drafts + 1))
        bonus = verified["predict"].reshape(matches.shape[0], -1)[request, drafts]
        require_equal("the bonus token", bonus, case["target_predict"][request, drafts])


def larger_trees_accept_no_less(backend: Backend, case: Case) -> None:
    """Leaving out the last nodes of a tree, in an order in which children follow, never lengthens the path."""
    num_nodes = case["candidates"].shape[1]
    case = renumbered(case, [parents_first(children_of(case, request)) for request in range(len(case["candidates"]))])
    before = np.zeros(len(case["candidates"]), dtype=np.int64)
    for kept in sorted({1, (num_nodes + 1) // 2, max(num_nodes - 1, 1), num_nodes}):
        part = {name: case[name][:, :kept] for name in _PER_REQUEST}
        for name in ("retrieve_next_token", "retrieve_next_sibling"):
            part[name] = np.where(part[name] < kept, part[name], -1)
        part["retrieve_index"] = np.arange(part["candidates"].size, dtype=np.int64).reshape(-1, kept)
        part["num_steps"] = case["num_steps"]
        drafts = outputs_of(backend, "verify_tree_greedy", part)["num_accepted_drafts"]
        fewer = drafts < before
        require(not fewer.any(), f"accepted drafts with {kept} nodes", drafts.tolist(), f"at least {before.tolist()}")
        before = drafts


def numbers_of_nodes_do_not_matter(backend: Backend, case: Case) -> None:
    """Nodes that are numbered otherwise, the root still first, give the same output and the same nodes in the path."""
    num_requests, num_nodes = case["candidates"].shape
    order = [0, *range(num_nodes - 1, 0, -1)]
    before = outputs_of(backend, "verify_tree_greedy", case)
    after = outputs_of(backend, "verify_tree_greedy", renumbered(case, [order] * num_requests))
    for request in range(num_requests):
        (path, output), (moved, moved_output) = (walked(case, outputs, request) for outputs in (before, after))
        require_equal(f"the path of request {request}", [order[node] for node in moved], path)
        require_equal(f"the output of request {request}", moved_output, output)


def parents_first(children: list[list[int]]) -> list[int]:
    """Return all nodes, a level at a time, siblings in their order."""
    order = [0]
    for node in order:
        order += children[node]
    return order


def renumbered(case: Case, orders: list[list[int]]) -> Case:
    """Return the same trees with other numbers: node ``i`` of a request is the one that its order names at ``i``."""
    changed = {name: case[name].copy() for name in _PER_REQUEST}
    for request, order in enumerate(orders):
        number = np.append(np.argsort(order), -1)
        for name in _PER_REQUEST:
            values = case[name][request, order]
            changed[name][request] = number[values] if name.startswith("retrieve") else values
    return {**case, **changed}


def row_width_cuts_the_path(backend: Backend, case: Case) -> None:
    """With fewer steps the path is the front of the longer one, and its output goes with it."""
    num_nodes = case["candidates"].shape[1]
    whole = outputs_of(backend, "verify_tree_greedy", {**case, "num_steps": num_nodes - 1})["accept_index"]
    for num_steps in range(num_nodes - 1):
        cut = outputs_of(backend, "verify_tree_greedy", {**case, "num_steps": num_steps})["accept_index"]
        require_equal(f"the paths of at most {num_steps} drafts", cut, whole[:, : num_steps + 1])
        if (whole[:, num_steps + 1 :] < 0).all():
            break


def requests_are_verified_one_by_one(backend: Backend, case: Case) -> None:
    """A request's path, count and output are the same alone, and in any order of the batch."""
    require_walked_one_by_one(backend, "verify_tree_greedy", case)


def lone_roots_output_the_bonus(backend: Backend, case: Case) -> None:
    """A tree of one node accepts no draft and outputs the target's choice."""
    one = {name: case[name][:, :1] for name in (*_PER_REQUEST, "retrieve_index")}
    one["retrieve_index"] = np.arange(len(case["candidates"]), dtype=np.int64)[:, None]
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        one[name] = np.full_like(one[name], -1)
    verified = outputs_of(backend, "verify_tree_greedy", {**one, "num_steps": case["num_steps"]})
    require_equal("num_accepted_drafts", verified["num_accepted_drafts"], np.zeros(len(case["candidates"])))
    require_equal("predict", verified["predict"], one["target_predict"][:, 0])


@composite
def chains(draw: st.DrawFn) -> Case:
    """Draw chains over three tokens with targets that mostly agree."""
    num_requests, num_nodes = draw(st.integers(0, 3)), draw(st.integers(1, 9))
    random = draw(generators())
    candidates = random.integers(0, 3, (num_requests, num_nodes))
    target = np.concatenate([candidates[:, 1:], random.integers(0, 3, (num_requests, 1))], axis=1)
    is_wrong = random.random((num_requests, num_nodes)) < draw(st.sampled_from((0.0, 0.2, 0.5)))
    target_predict = np.where(is_wrong, (target + 1) % 3, target)
    return {**links_of_chains(candidates), "target_predict": target_predict, "num_steps": num_nodes - 1}


def _unused_token(case: Case) -> int:
    return int(case["candidates"].max(initial=0)) + 1


PROPERTIES = states(
    "verify",
    (accepted_nodes_are_a_path, "verify_tree_greedy", "P22"),
    (accepted_nodes_are_the_longest_match, "verify_tree_greedy", "P22"),
    (count_excludes_the_root, "verify_tree_greedy", "P25"),
    (output_is_the_drafts_and_the_bonus, "verify_tree_greedy", "P22"),
    (perfect_targets_accept_a_whole_branch, "verify_tree_greedy", "P06"),
    (hostile_targets_accept_nothing, "verify_tree_greedy", "P07"),
    (chain_counts_the_matching_prefix, chains, "verify_tree_greedy", "P21"),
    (larger_trees_accept_no_less, "verify_tree_greedy", "P23"),
    (numbers_of_nodes_do_not_matter, "verify_tree_greedy", "P18"),
    (row_width_cuts_the_path, "verify_tree_greedy", "P22"),
    (requests_are_verified_one_by_one, "verify_tree_greedy", "P31"),
    (lone_roots_output_the_bonus, "verify_tree_greedy", "P24"),
)
