"""Laws of the tree: its links, its positions and its mask describe one and the same tree."""

import numpy as np
from hypothesis import strategies as st

from specsim.config import TreeMaskMode
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import (
    Array,
    Case,
    arrangements,
    batch_of,
    block,
    outputs_of,
    require,
    require_equal,
    states,
    take_blocks,
)
from specsim.properties.laws.links import closure_of, depths_of, parents_by_links
from specsim.properties.strategies.limits import limits, sized, taken


def parents_by_flat_ids(case: Case, request: int) -> list[int]:
    """Look up each node's parent by its flat candidate id, -1 for the root."""
    kept = case["top_scores_index"][request].tolist()
    node_of = {candidate: place + 1 for place, candidate in enumerate(kept)}
    groups = [candidate // case["topk"] for candidate in kept]
    return [-1, *(node_of[int(case["parent_list"][request, group])] if group else 0 for group in groups)]


def squares_of(tree_mask: Array, case: Case) -> Array:
    """Read the visibility matrix [request, node, node] out of a mask in the layout of the case."""
    num_nodes, lengths = case["num_draft_tokens"], [int(length) for length in case["seq_lens"]]
    squares = np.zeros((len(lengths), num_nodes, num_nodes), dtype=np.bool_)
    offset = 0
    for request, length in enumerate(lengths):
        for node in range(num_nodes):
            if case["mask_mode"] == TreeMaskMode.QLEN_ONLY_BITPACKING:
                word = int(tree_mask[request * num_nodes + node])
                squares[request, node] = [bool(word >> other & 1) for other in range(num_nodes)]
                continue
            if case["mask_mode"] == TreeMaskMode.FULL_MASK:
                require(tree_mask[offset : offset + length].all(), "the prefix columns", "not all visible", "visible")
                offset += length
            squares[request, node] = tree_mask[offset : offset + num_nodes]
            offset += num_nodes
    return squares


def mask_is_the_ancestor_closure(backend: Backend, case: Case) -> None:
    """A node sees itself and its ancestors, by the links, and no one else."""
    built = outputs_of(backend, "build_tree", case)
    squares = squares_of(built["tree_mask"], case)
    for request in range(len(case["seq_lens"])):
        parents = parents_by_links(built["retrieve_next_token"][request], built["retrieve_next_sibling"][request])
        require_equal(f"the mask of request {request}", squares[request], closure_of(parents))


def mask_layouts_encode_one_matrix(backend: Backend, case: Case) -> None:
    """The full, the square and the packed mask say the same."""
    modes = [TreeMaskMode.FULL_MASK, TreeMaskMode.QLEN_ONLY]
    if case["num_draft_tokens"] <= 32:
        modes.append(TreeMaskMode.QLEN_ONLY_BITPACKING)
    modes = list(taken("mask_mode", modes))
    squares = []
    for mode in modes:
        asked = {**case, "mask_mode": int(mode), "seq_lens_sum": int(np.sum(case["seq_lens"]))}
        squares.append(squares_of(outputs_of(backend, "build_tree", asked)["tree_mask"], asked))
    for mode, square in zip(modes[1:], squares[1:], strict=True):
        require_equal(f"the {mode.name} mask", square, squares[0])


def links_visit_each_node_once(backend: Backend, case: Case) -> None:
    """Child and sibling links reach every node but the root exactly once, siblings ascending."""
    built = outputs_of(backend, "build_tree", case)
    for next_token, next_sibling in zip(built["retrieve_next_token"], built["retrieve_next_sibling"], strict=True):
        parents_by_links(next_token, next_sibling)
        for node, sibling in enumerate(next_sibling.tolist()):
            require(sibling == -1 or sibling > node, f"the sibling after {node}", sibling, "-1 or a later node")


def links_follow_the_flat_ids(backend: Backend, case: Case) -> None:
    """The parent by links is the parent by flat candidate ids; the first child is the smallest."""
    built = outputs_of(backend, "build_tree", case)
    for request in range(len(case["seq_lens"])):
        next_token = built["retrieve_next_token"][request]
        expected = parents_by_flat_ids(case, request)
        parents = parents_by_links(next_token, built["retrieve_next_sibling"][request])
        require_equal(f"the parents of request {request}", parents, expected)
        smallest = [min((k for k, p in enumerate(expected) if p == node), default=-1) for node in range(len(parents))]
        require_equal(f"the first children of request {request}", next_token, smallest)


def parents_precede_children(backend: Backend, case: Case) -> None:
    """A link to a child or a sibling leads to a larger node number, so walks end."""
    built = outputs_of(backend, "build_tree", case)
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        backwards = (built[name] != -1) & (built[name] <= np.arange(case["num_draft_tokens"])[None, :])
        require(not backwards.any(), f"{name} at {np.argwhere(backwards)[:1].tolist()}", "backwards", "forwards")


def positions_are_length_plus_depth(backend: Backend, case: Case) -> None:
    """A node stands its depth after the committed length."""
    built = outputs_of(backend, "build_tree", case)
    num_requests = len(case["seq_lens"])
    for request in range(num_requests):
        expected = [int(case["seq_lens"][request]) + depth for depth in depths_of(parents_by_flat_ids(case, request))]
        require_equal(f"the positions of request {request}", block(built["positions"], num_requests, request), expected)


def draft_tokens_follow_the_root(backend: Backend, case: Case) -> None:
    """Each request's tokens are its bonus token and its drafts in node order."""
    draft_token = outputs_of(backend, "build_tree", case)["draft_token"]
    expected = np.concatenate([case["bonus_tokens"][:, None], case["draft_tokens"]], axis=1)
    require_equal("draft_token", draft_token, expected.reshape(-1))


def nodes_are_numbered_across_the_batch(backend: Backend, case: Case) -> None:
    """Global node numbers count up through the requests without a gap."""
    retrieve_index = outputs_of(backend, "build_tree", case)["retrieve_index"]
    require_equal("retrieve_index", retrieve_index.reshape(-1), np.arange(retrieve_index.size))


def mask_alone_recovers_the_tree(backend: Backend, case: Case) -> None:
    """Links and positions recovered from the mask are those that were built."""
    asked = {**case, "mask_mode": int(TreeMaskMode.QLEN_ONLY)}
    built = outputs_of(backend, "build_tree", asked)
    masks = {"tree_mask": squares_of(built["tree_mask"], asked), "seq_lens": case["seq_lens"]}
    recovered = outputs_of(backend, "reconstruct_indices_from_tree_mask", masks)
    for name in ("positions", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling"):
        require_equal(f"the recovered {name}", recovered[name], built[name])


def recovered_links_have_the_given_closure(backend: Backend, case: Case) -> None:
    """The ancestor closure of the recovered links is the mask; positions count the ancestors in it."""
    recovered = outputs_of(backend, "reconstruct_indices_from_tree_mask", case)
    for request, square in enumerate(case["tree_mask"]):
        links = recovered["retrieve_next_token"][request], recovered["retrieve_next_sibling"][request]
        require_equal(f"the closure of request {request}", closure_of(parents_by_links(*links)), square)
    ancestors = case["tree_mask"].sum(axis=-1) - 1
    expected = (np.asarray(case["seq_lens"], dtype=np.int64)[:, None] + ancestors).reshape(-1)
    require_equal("the recovered positions", recovered["positions"], expected)


def requests_do_not_see_each_other(backend: Backend, case: Case) -> None:
    """A request's tree is the same alone, and in any order of the batch."""
    num_requests = len(case["seq_lens"])
    whole = outputs_of(backend, "build_tree", case)
    squares = squares_of(whole["tree_mask"], case)
    for requests in arrangements(num_requests):
        part_case = batch_of("build_tree", case, requests)
        part = outputs_of(backend, "build_tree", part_case)
        require_equal(f"the masks of batch {requests}", squares_of(part["tree_mask"], part_case), squares[requests])
        for name in ("retrieve_next_token", "retrieve_next_sibling", "draft_token", "positions"):
            require_equal(f"{name} of batch {requests}", part[name], take_blocks(whole[name], num_requests, requests))


def chains_and_stars_have_their_shape(backend: Backend, case: Case) -> None:
    """A chain links each node to the next; in a star every draft hangs from the root."""
    built = outputs_of(backend, "build_tree", case)
    num_nodes = case["num_draft_tokens"]
    line = [*range(1, num_nodes), -1]
    nothing = [-1] * num_nodes
    is_chain = case["topk"] == 1
    star_child, star_sibling = [1, *nothing[1:]], [-1, *line[1:]]
    next_token, next_sibling = (line, nothing) if is_chain else (star_child, star_sibling)
    depths = np.arange(num_nodes) if is_chain else np.minimum(np.arange(num_nodes), 1)
    square = np.tri(num_nodes, dtype=np.bool_) if is_chain else np.eye(num_nodes, dtype=np.bool_)
    square[:, 0] = True
    for request, mask in enumerate(squares_of(built["tree_mask"], case)):
        require_equal(f"first children of request {request}", built["retrieve_next_token"][request], next_token)
        require_equal(f"siblings of request {request}", built["retrieve_next_sibling"][request], next_sibling)
        require_equal(f"the mask of request {request}", mask, square)
        positions = block(built["positions"], len(case["seq_lens"]), request)
        require_equal(f"positions of request {request}", positions, int(case["seq_lens"][request]) + depths)


@composite
def chains_and_stars(draw: st.DrawFn) -> Case:
    """Draw a pure chain or a pure star, at the sizes where masks and tiles end."""
    num_nodes = draw(sized("node", st.sampled_from((2, 3, 4, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65))))
    is_chain = draw(st.booleans())
    num_requests = draw(sized("request", st.integers(0 if limits().takes_empty else 1, 3)))
    lengths = np.array(draw(st.lists(st.integers(0, 9), min_size=num_requests, max_size=num_requests)), dtype=np.int64)
    num_drafts = num_nodes - 1
    num_steps = num_drafts if is_chain else 1
    parent_list = np.arange(-1, num_steps - 1 if num_steps > 1 else -1, dtype=np.int64)
    modes = [mode for mode in TreeMaskMode if mode is not TreeMaskMode.QLEN_ONLY_BITPACKING or num_nodes <= 32]
    return {
        "bonus_tokens": np.arange(num_requests, dtype=np.int32),
        "parent_list": np.tile(parent_list, (num_requests, 1)),
        "top_scores_index": np.tile(np.arange(num_drafts, dtype=np.int64), (num_requests, 1)),
        "draft_tokens": np.arange(num_requests * num_drafts, dtype=np.int64).reshape(num_requests, num_drafts),
        "seq_lens": lengths,
        "topk": 1 if is_chain else num_drafts + draw(st.integers(1, 2)),
        "num_steps": num_steps,
        "num_draft_tokens": num_nodes,
        "mask_mode": int(draw(st.sampled_from(taken("mask_mode", modes)))),
        "seq_lens_sum": int(lengths.sum()),
    }


PROPERTIES = states(
    "tree",
    (mask_is_the_ancestor_closure, "build_tree", "P16"),
    (mask_layouts_encode_one_matrix, "build_tree", "P16"),
    (links_visit_each_node_once, "build_tree", "P18"),
    (links_follow_the_flat_ids, "build_tree", "P18"),
    (parents_precede_children, "build_tree", "P20"),
    (positions_are_length_plus_depth, "build_tree", "P17"),
    (draft_tokens_follow_the_root, "build_tree"),
    (nodes_are_numbered_across_the_batch, "build_tree"),
    (mask_alone_recovers_the_tree, ("build_tree", "reconstruct_indices_from_tree_mask"), "P18"),
    (recovered_links_have_the_given_closure, "reconstruct_indices_from_tree_mask", "P18"),
    (requests_do_not_see_each_other, "build_tree", "P31"),
    (chains_and_stars_have_their_shape, chains_and_stars, "build_tree", "P24"),
)
