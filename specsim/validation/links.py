"""Structural rules of the links that verification walks.

Links may lead to smaller node numbers, from sibling to sibling and from parent to child: engines number nodes as they
like. What a walk needs is that it ends, and that it comes to a node in one way.
"""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from specsim.rejection import Reason
from specsim.topology import BECAUSE, LINKS, misplaced_link
from specsim.validation.common import first_place
from specsim.validation.rule import Arguments, Fault, Rule, rule


def _find(reason: Reason, arguments: Arguments, axes: Arguments) -> Fault | None:
    del axes
    links = [arguments[f"retrieve_{name}"] for name in LINKS]
    found = _misplaced(links[0].shape, *((one.dtype, one.tobytes()) for one in links))
    if found is None or found[-1] is not reason:
        return None
    request, node, kind, _ = found
    what = f"retrieve_{LINKS[kind]}[{request}, {node}]"
    return Fault(what, links[kind][request, node], "-1 or a node that hangs nowhere yet")


@lru_cache(maxsize=8)
def _misplaced(shape: tuple[int, ...], *links: tuple[Any, bytes]) -> tuple[int, int, int, Reason] | None:
    """Search trees that were searched before, by another rule or in the call before, no second time."""
    return misplaced_link(*(np.frombuffer(content, dtype).reshape(shape) for dtype, content in links))


_LINKS_END = Rule(
    "Following `retrieve_next_token` and `retrieve_next_sibling`, in any order of node numbers, leads from no node back"
    " to itself.",
    Reason.CYCLIC_TREE,
    BECAUSE[Reason.CYCLIC_TREE],
    partial(_find, Reason.CYCLIC_TREE),
)
_NODES_HANG_ONCE = Rule(
    "No two of these links lead to one node, and none to the root.",
    Reason.SHARED_NODE,
    BECAUSE[Reason.SHARED_NODE],
    partial(_find, Reason.SHARED_NODE),
)


@rule(Reason.NODE_OUT_OF_RANGE, "a request owns one block of nodes")
def _nodes_are_numbered_through(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Entry (b, i) of `retrieve_index` is `b*node+i`."""
    numbers = arguments["retrieve_index"]
    own = np.arange(numbers.size).reshape(axes["request"], axes["node"])
    place = first_place(numbers != own)
    return None if place is None else Fault(f"retrieve_index{list(place)}", numbers[place], str(own[place]))


LINKS_OF_A_TREE = (_LINKS_END, _NODES_HANG_ONCE)
"""The links are those of a tree; nodes that hang from nothing are not reached."""

TREE = (*LINKS_OF_A_TREE, _nodes_are_numbered_through)
"""The same, and each node has its global number."""
