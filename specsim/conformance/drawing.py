"""Drawings of a call in plain text: each request's tree or chain with what was accepted."""

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.cases import Case
from specsim.rejection import SpecRejection
from specsim.topology import Topology

SHOWN_REQUESTS = 8
SHOWN_VOCABULARY = 8
"""Tokens of a row that is shown whole."""


def draw_requests(case: Case) -> list[str]:
    """Draw the tree of each request from its links, or its chain; lines are indented from the second on.

    Nodes that the expected path accepts are marked with ``*``; paths are compared where something else was observed.

    Returns
    -------
    drawings : list of str
        Empty if the case has neither; links that are no tree are named in the place of their request.
    """
    arrays = {**case.expected.outputs, **case.arguments}
    children, siblings = arrays.get("retrieve_next_token"), arrays.get("retrieve_next_sibling")
    if _are_links(children) and _are_links(siblings) and children.shape == siblings.shape:
        return [_draw_tree(case, children, siblings, request) for request in range(min(len(children), SHOWN_REQUESTS))]
    ends = arrays.get("cu_num_drafts")
    if isinstance(ends, np.ndarray) and isinstance(arrays.get("draft_tokens"), np.ndarray):
        return [_draw_chain(case, ends, request) for request in range(min(len(ends) - 1, SHOWN_REQUESTS))]
    return []


def _are_links(links: Any) -> TypeGuard[NDArray[np.int64]]:
    return isinstance(links, np.ndarray) and links.dtype.kind == "i" and links.ndim == 2 and links.size > 0


def in_words(value: Any, width: int = 400) -> str:
    """Return an argument in one line: element type, shape, strides where they are not those of a block, entries."""
    if isinstance(value, list | tuple):
        words = f"{len(value)} arrays: " + "; ".join(in_words(entry, width // 4) for entry in value)
    elif isinstance(value, np.ndarray):
        layout = strides_of(value)
        words = f"{value.dtype} {list(value.shape)}{f' {layout}' if layout else ''} {value.tolist()}"
    else:
        words = repr(value)
    return words if len(words) <= width else words[:width] + " …"


def strides_of(value: Any) -> str:
    """Say how the entries of an array lie in memory, if it is no plain block."""
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return ""
    strides = [stride // value.itemsize for stride in value.strides]
    plain = [int(np.prod(value.shape[axis + 1 :], dtype=np.int64)) for axis in range(value.ndim)]
    return f"strides {strides} for {plain}"


def _draw_tree(case: Case, children: Any, siblings: Any, request: int) -> str:
    try:
        topology = Topology.from_links(children[request], siblings[request])
    except SpecRejection as rejection:
        return f"request {request} has no tree: {rejection}"
    num_nodes = children.shape[1]
    expected, observed = (
        _path(one.outputs.get("accept_index"), request, num_nodes) for one in (case.expected, case.observed)
    )
    labels = [
        f"node {node}{''.join(_facts(case, request, node, num_nodes))}{' *' if node in (expected or ()) else ''}"
        for node in range(num_nodes)
    ]
    lines = [f"request {request}: {labels[0]}", *_branches(topology, labels, 0, "")]
    if expected is not None and observed is not None and expected != observed:
        lines.append(f"accepted path {observed}, but should be {expected}")
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])])


def _branches(topology: Topology, labels: list[str], node: int, before: str) -> list[str]:
    lines = []
    below = topology.children[node]
    for place, child in enumerate(below):
        is_last = place == len(below) - 1
        lines.append(f"{before}{'└── ' if is_last else '├── '}{labels[child]}")
        lines += _branches(topology, labels, child, f"{before}{'    ' if is_last else '│   '}")
    return lines


def _facts(case: Case, request: int, node: int, num_nodes: int) -> list[str]:
    """Return what is known of a node: its token, what the target says after it, and its coin."""
    arrays = {**case.expected.outputs, **case.arguments}
    place = request * num_nodes + node

    def of_node(*names: str) -> Any:
        for value in (arrays[name] for name in names if isinstance(arrays.get(name), np.ndarray)):
            if value.shape[1:2] == (num_nodes,) and len(value) > request:
                return value[request, node]
            if len(value) > place and len(value) % num_nodes == 0:
                return value[place]
        return None

    token, chosen = of_node("candidates", "draft_token"), of_node("target_predict")
    facts = [f" token {token}"] if token is not None else []
    return facts + _choice(chosen) + _row("row", of_node("target_probs", "logits")) + _coin(of_node("uniform_samples"))


def _draw_chain(case: Case, ends: Any, request: int) -> str:
    arrays, first, last = case.arguments, int(ends[request]), int(ends[request + 1])
    coins, finals, proposals, targets = (
        arrays.get(name)
        for name in ("uniform_samples", "uniform_samples_for_final_sampling", "draft_probs", "target_probs")
    )
    lines = [f"request {request}: {last - first} drafts"]

    def of_target(place: int) -> list[str]:
        return _choice(_at(arrays.get("target_predict"), place)) + _row("row", _at(targets, place))

    for entry in range(first, last):
        facts = _row("proposed by", _at(proposals, entry)) + of_target(entry + request) + _coin(_at(coins, entry))
        lines.append(f"draft {entry - first} token {_at(arrays['draft_tokens'], entry)}{''.join(facts)}")
    final_draw = of_target(last + request) + _coin(_at(finals, request))
    lines += [f"then{''.join(final_draw)}"] if final_draw else []
    rows = [_at(one.outputs.get("output_tokens"), request) for one in (case.expected, case.observed)]
    tokens = [[int(token) for token in row if token >= 0] for row in rows if row is not None]
    if len(tokens) == 2 and tokens[0] != tokens[1]:
        lines.append(f"output {tokens[1]}, but should be {tokens[0]}")
    return "\n  ".join(lines)


def _choice(token: Any) -> list[str]:
    return [] if token is None else [f" -> {token}"]


def _at(rows: Any, place: int) -> Any:
    """Return an entry or a row of an array, or None where there is none."""
    return rows[place] if isinstance(rows, np.ndarray) and rows.ndim > 0 and place < len(rows) else None


def _row(label: str, row: Any) -> list[str]:
    is_shown = isinstance(row, np.ndarray) and row.ndim == 1 and len(row) <= SHOWN_VOCABULARY
    return [f" {label} ({', '.join(f'{float(share):.6g}' for share in row)})"] if is_shown else []


def _coin(coin: Any) -> list[str]:
    return [] if coin is None else [f" coin {float(coin):.9g}"]


def _path(accept_index: Any, request: int, num_nodes: int) -> list[int] | None:
    """Return the accepted nodes of a request, numbered within it, or None if there are none to be had."""
    row = _at(accept_index, request)
    return None if row is None or row.ndim != 1 else [int(node) - request * num_nodes for node in row if node >= 0]
