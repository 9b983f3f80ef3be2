"""The tree or the chain of a request of a call, with what was accepted of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.conformance.pictures.view import MOST_NODES, MOST_VALUES, View, at, path_of, width_of_block, written
from specsim.pictures.frame import Panel, text_panel
from specsim.pictures.states import State
from specsim.pictures.tree import Node, tree_panel
from specsim.rejection import SpecRejection
from specsim.topology import NONE, Topology


def draw_tree_of(view: View, request: int) -> Panel | None:
    """Return a request's tree, its chain, or the path that is known of it; None if the call has none of these."""
    for form in (_linked, _masked, _listed):
        try:
            topology = form(view, request)
        except SpecRejection as rejection:
            return text_panel([f"request {request} has no tree: {rejection}"], "faint")
        if topology is not None:
            if len(topology) > MOST_NODES:
                return text_panel(
                    [f"request {request} has {len(topology)} nodes; up to {MOST_NODES} are drawn"], "faint"
                )
            return tree_panel(_nodes_of(view, request, topology))
    for draw in (_ragged_chain, _dense_chain, _accepted_tokens, _path_alone):
        nodes = draw(view, request)
        if nodes is not None:
            return tree_panel(nodes[: MOST_NODES + 1])
    return None


def _linked(view: View, request: int) -> Topology | None:
    children, siblings = (at(view.given(f"retrieve_next_{name}"), request) for name in ("token", "sibling"))
    if not all(isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind == "i" for row in (children, siblings)):
        return None
    return Topology.from_links(children, siblings) if len(children) == len(siblings) > 0 else None


def _masked(view: View, request: int) -> Topology | None:
    """Return the tree of a mask that has a square a request, after columns of the prefix or alone."""
    mask, lens = view.given("tree_mask"), view.given("seq_lens")
    if mask is None or mask.dtype != np.bool_:
        return None
    if mask.ndim == 3:
        square = at(mask, request)
        return None if square is None or square.shape[0] != square.shape[1] else _tree_of(square)
    num_nodes = view.number("num_draft_tokens")
    block = num_nodes * num_nodes
    if block == 0 or mask.ndim != 1:
        return None
    if lens is None or len(mask) == len(lens) * block:
        square = mask[request * block : (request + 1) * block]
        return _tree_of(square.reshape(num_nodes, num_nodes)) if len(square) == block else None
    length = int(lens[request])
    start = num_nodes * int(lens[:request].sum()) + request * block
    rows = mask[start : start + num_nodes * (length + num_nodes)]
    return _tree_of(rows.reshape(num_nodes, -1)[:, length:]) if len(rows) == num_nodes * (length + num_nodes) else None


def _tree_of(visible: Any) -> Topology:
    """Return the tree in which every node sees its ancestors: the parent is the one of them that sees most."""
    counts = visible.sum(axis=1)
    parents = []
    for node, row in enumerate(visible):
        above = [other for other in np.flatnonzero(row).tolist() if other != node]
        parents.append(max(above, key=lambda other: counts[other], default=NONE))
    return Topology.from_parents(parents)


def _listed(view: View, request: int) -> Topology | None:
    """Return the tree of the candidates that are kept, by the list of their parents."""
    kept, parents = (at(view.given(name), request) for name in ("top_scores_index", "parent_list"))
    if kept is None or parents is None:
        return None
    levels = view.arguments.get("token_list")
    topk = view.number("topk") or (levels[0].shape[1] if isinstance(levels, list) and levels else 1)
    places = {int(flat): place for place, flat in enumerate(kept.tolist(), 1)}
    above = [NONE]
    for flat in kept.tolist():
        level = flat // topk
        parent = 0 if level == 0 else places.get(int(parents[level]), NONE) if level < len(parents) else NONE
        above.append(parent)
    return Topology.from_parents(above)


def _nodes_of(view: View, request: int, topology: Topology) -> list[Node]:
    num_nodes = len(topology)
    path = path_of(view, request, num_nodes)
    states, is_walked = _states_of(topology, path, view)

    def described(node: int, parent: int | None) -> Node:
        return Node(
            f"node {node}",
            parent,
            _token_of(view, request, node, num_nodes),
            _whole(_of_node(view, request, node, num_nodes, "positions")),
            _whole(_of_node(view, request, node, num_nodes, "out_cache_loc")),
            states[node],
            tuple(_facts(view, request, node, num_nodes)),
        )

    nodes = topology.nodes(described)
    if path and is_walked:
        bonus = at(view.given("predict"), request * num_nodes + path[-1])
        nodes += (
            []
            if bonus is None
            else [Node("bonus", topology.in_order.index(path[-1]), written(bonus), state=State.BONUS)]
        )
    return nodes


def _states_of(topology: Topology, path: Sequence[int] | None, view: View) -> tuple[list[State], bool]:
    """Return the state of each node, and whether the path is one of the tree."""
    states = [State.PLAIN] * len(topology)
    if not path or any(not 0 <= node < len(topology) for node in path):
        return states, False
    is_path = tuple(path) == topology.paths[path[-1]]
    if is_path:
        width = view.number("num_steps")
        for node, following in zip(path, [*path[1:], NONE], strict=True):
            # NOTE: siblings are tried in their order: none after the accepted one, and none where a path is full.
            is_tried = following != NONE or not width or len(path) <= width
            below = topology.children[node] if is_tried else ()
            tried = below[: below.index(following)] if following != NONE else below
            for child in tried:
                states[child] = State.REJECTED
    for node in path:
        states[node] = State.ACCEPTED
    return states, is_path


def _of_node(view: View, request: int, node: int, num_nodes: int, *names: str) -> Any:
    for value in (view.given(name) for name in names):
        if value is not None:
            if value.shape[1:2] == (num_nodes,) and len(value) > request:
                return value[request, node]
            if width_of_block(value, view.num_requests) == num_nodes:
                return value[request * num_nodes + node]
    return None


def _token_of(view: View, request: int, node: int, num_nodes: int) -> str | None:
    token = _of_node(view, request, node, num_nodes, "candidates", "draft_token")
    if token is None:
        kept, root = at(view.given("draft_tokens"), request, node - 1), at(view.given("bonus_tokens"), request)
        token = root if node == 0 else kept
    return None if token is None or np.ndim(token) else written(token)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, np.integer) else None


def _facts(view: View, request: int, node: int, num_nodes: int) -> list[str]:
    """Return what is known of a node besides: the target's choice or row after it, its coin, and allowed tokens."""

    def entry(*names: str) -> Any:
        return _of_node(view, request, node, num_nodes, *names)

    return [
        *_scalar("target", entry("target_predict")),
        *_row("target", entry("target_probs", "logits")),
        *_row("draft", entry("draft_probs")),
        *_scalar("coin", entry("uniform_samples")),
        *_allowed(entry("vocab_mask")),
    ]


def _scalar(label: str, value: Any) -> list[str]:
    return [] if value is None or np.ndim(value) else [f"{label} {written(value)}"]


def _row(label: str, row: Any) -> list[str]:
    if not isinstance(row, np.ndarray) or row.ndim != 1 or not 0 < len(row) <= MOST_VALUES:
        return []
    return [f"{label} {' '.join(f'{float(share):.3g}' for share in row)}"]


def _allowed(words: Any) -> list[str]:
    """Return the tokens that a row of a mask of bits allows, if they are few."""
    if not isinstance(words, np.ndarray) or words.ndim != 1 or words.dtype.kind != "i" or len(words) > MOST_VALUES:
        return []
    tokens = [32 * place + bit for place, word in enumerate(words.tolist()) for bit in range(32) if word >> bit & 1]
    listed = " ".join(map(str, tokens[:MOST_VALUES]))
    more = f" +{len(tokens) - MOST_VALUES}" if len(tokens) > MOST_VALUES else ""
    return [f"allows {listed}{more}" if tokens else "allows nothing"]


def _chain(
    tokens: Sequence[Any], facts: Sequence[Sequence[str]], num_accepted_drafts: int | None, bonus: Any
) -> list[Node]:
    """Return the root, drafts one after another, and the bonus token after those that are accepted."""
    # NOTE: counts that no chain of this length has are those of a faulty implementation.
    is_judged = num_accepted_drafts in range(len(tokens) + 1)
    count = num_accepted_drafts if num_accepted_drafts is not None and is_judged else -1
    states = [State.ACCEPTED] * max(count, 0) + [State.REJECTED if is_judged else State.PLAIN]
    states += [State.PLAIN] * len(tokens)
    nodes = [Node("root", state=State.ACCEPTED if is_judged else State.PLAIN)]
    nodes += [
        Node(f"draft {place}", place, written(token), state=states[place], lines=tuple(facts[place]))
        for place, token in enumerate(tokens)
    ]
    if bonus is None or not is_judged:
        return nodes
    return [*nodes, Node("bonus", count, written(bonus), state=State.BONUS)]


def _ragged_chain(view: View, request: int) -> list[Node] | None:
    ends, drafts = view.given("cu_num_drafts"), view.given("draft_tokens")
    first, last = at(ends, request), at(ends, request + 1)
    if first is None or last is None or drafts is None or drafts.ndim != 1:
        return None

    def facts(entry: int) -> list[str]:
        place = entry + request
        return [
            *_row("draft", at(view.given("draft_probs", "draft_logits"), entry)),
            *_row("target", at(view.given("target_probs", "target_logits"), place)),
            *_scalar("target", at(view.given("target_predict"), place)),
            *_scalar("coin", at(view.given("uniform_samples"), entry)),
        ]

    entries = range(max(int(first), 0), min(int(last), len(drafts)))
    count = at(view.output("num_accepted_drafts"), request)
    accepted = None if count is None else int(count)
    bonus = None if accepted is None else at(view.output("output_tokens"), request, accepted)
    return _chain([drafts[entry] for entry in entries], [facts(entry) for entry in entries], accepted, bonus)


def _dense_chain(view: View, request: int) -> list[Node] | None:
    """Return a block of candidates as a chain; the first is the root."""
    tokens, block = at(view.given("candidates"), request), view.output("input_ids")
    num_nodes = view.number("num_draft_tokens")
    if tokens is None and num_nodes and width_of_block(block, view.num_requests) == num_nodes:
        tokens = block[request * num_nodes : (request + 1) * num_nodes]
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or not len(tokens):
        return None
    verified = at(view.given("verify_lens"), request)
    counts = view.output("num_kept_drafts")
    count = at(view.given("num_accepted_drafts") if counts is None else counts, request)
    bonus = at(view.given("cut_tokens", "bonus_tokens"), request)
    facts = [[] if verified is None or place < verified else ["not verified"] for place in range(1, len(tokens))]
    nodes = _chain(list(tokens[1:]), facts, None if count is None else int(count), None if count is None else bonus)
    root = Node("root", None, written(tokens[0]), state=nodes[0].state)
    return [root, *nodes[1:]]


def _accepted_tokens(view: View, request: int) -> list[Node] | None:
    """Return the output tokens of a verify, of which the last is the bonus token."""
    tokens, count = at(view.given("accept_tokens"), request), at(view.given("num_accepted_tokens"), request)
    if tokens is None or count is None or not 0 < count <= len(tokens):
        return None
    states = [State.ACCEPTED] * (int(count) - 1) + [State.BONUS]
    return [
        Node(f"output {place}", place - 1 if place else None, written(tokens[place]), state=state)
        for place, state in enumerate(states)
    ]


def _path_alone(view: View, request: int) -> list[Node] | None:
    """Return the nodes of a path where neither the tree around them nor the slots of all nodes are given."""
    if view.argument("out_cache_loc") is not None or view.argument("values") is not None:
        return None
    num_nodes = view.number("num_draft_tokens") or width_of_block(view.given("predict", "logits"), view.num_requests)
    path = path_of(view, request, num_nodes)
    if not path or not num_nodes:
        return None
    chosen = [at(view.given("predict"), request * num_nodes + node) for node in path]
    tokens = [None, *(None if token is None else written(token) for token in chosen)]
    nodes = [
        Node(f"node {node}", place - 1 if place else None, tokens[place], state=State.ACCEPTED)
        for place, node in enumerate(path)
    ]
    return nodes if tokens[-1] is None else [*nodes, Node("bonus", len(path) - 1, tokens[-1], state=State.BONUS)]
