"""Drawings of a case: each request's tree with its accepted path, and the arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from specsim.cli.output import plain_table
from specsim.conformance.cases import Case
from specsim.rejection import SpecRejection
from specsim.topology import Topology

SHOWN_REQUESTS = 8
SHOWN_CHARACTERS = 300


def draw_trees(case: Case) -> list[Tree]:
    """Draw the tree of each request from its links; accepted nodes are marked with ``*``.

    Returns
    -------
    trees : list of Tree
        Empty if the case has no links; links that are no tree are named in the place of their request.
    """
    arrays = {**case.arguments, **case.expected.outputs}
    children, siblings = arrays.get("retrieve_next_token"), arrays.get("retrieve_next_sibling")
    links = [links for links in (children, siblings) if isinstance(links, np.ndarray) and links.dtype.kind == "i"]
    if len(links) < 2 or links[0].ndim != 2 or links[0].shape != links[1].shape or not links[0].shape[1]:
        return []
    children, siblings = links
    return [_draw(arrays, children, siblings, request) for request in range(min(len(children), SHOWN_REQUESTS))]


def arrays_table(title: str, arrays: Mapping[str, Any]) -> Table:
    """Return a table of arrays: name, dtype, shape, entries."""
    table = plain_table("name", "dtype", "shape", "entries", title=title)
    for name, value in arrays.items():
        if isinstance(value, list):
            for index, entry in enumerate(value):
                table.add_row(f"{name}[{index}]", *_cells(entry))
        else:
            table.add_row(name, *_cells(value))
    return table


def _draw(arrays: Mapping[str, Any], children: Any, siblings: Any, request: int) -> Tree:
    num_nodes = children.shape[1]
    tokens = arrays.get("candidates", arrays.get("draft_token"))
    accepted = set(arrays["accept_index"][request].tolist()) if "accept_index" in arrays else set()

    def label(node: int) -> str:
        token = "" if tokens is None else f" token {np.asarray(tokens).reshape(-1, num_nodes)[request, node]}"
        return f"node {node}{token}" + (" *" if request * num_nodes + node in accepted else "")

    try:
        topology = Topology.from_links(children[request], siblings[request])
    except SpecRejection as rejection:
        return Tree(escape(f"request {request} has no tree: {rejection}"))
    tree = Tree(f"request {request}: {label(0)}")
    waiting = [(0, tree)]
    while waiting:
        node, branch = waiting.pop()
        waiting += [(child, branch.add(label(child))) for child in topology.children[node]]
    return tree


def _cells(value: Any) -> tuple[str, str, str]:
    if not isinstance(value, np.ndarray):
        return "", "", escape(str(value))
    entries = escape(str(value.tolist()))
    if len(entries) > SHOWN_CHARACTERS:
        entries = entries[:SHOWN_CHARACTERS] + " …"
    return value.dtype.name, escape(str(list(value.shape))), entries
