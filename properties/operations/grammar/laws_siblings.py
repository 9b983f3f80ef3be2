"""Laws of order among siblings: which of them is linked first changes neither a greedy path nor a mask."""

from collections.abc import Callable

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require_equal, states
from specsim.properties.laws.links import children_of

_VERIFY = "verify_tree_greedy"
_MASK = "generate_token_bitmask"


def order_of_siblings_changes_no_path(backend: Backend, case: Case) -> None:
    """Linked by ascending or descending token, the siblings of a node lead to the same path and output.

    Of equal ones the one that came first still does, because it is the one that counts.
    """
    before = outputs_of(backend, _VERIFY, case)
    is_path = np.zeros(len(before["predict"]), dtype=np.bool_)
    is_path[before["accept_index"][before["accept_index"] >= 0]] = True
    for what, relinked in _both_ways(case):
        after = outputs_of(backend, _VERIFY, relinked)
        for name in ("accept_index", "num_accepted_drafts"):
            require_equal(f"{name} with siblings by {what} token", after[name], before[name])
        require_equal(
            f"the output with siblings by {what} token", after["predict"][is_path], before["predict"][is_path]
        )


def order_of_siblings_changes_no_mask(backend: Backend, case: Case) -> None:
    """Linked by ascending or descending token, the nodes of a tree have the rows that they had."""
    before = outputs_of(backend, _MASK, case)["vocab_mask"]
    for what, relinked in _both_ways(case):
        after = outputs_of(backend, _MASK, relinked)["vocab_mask"]
        require_equal(f"vocab_mask with siblings by {what} token", after, before)


def _both_ways(case: Case) -> list[tuple[str, Case]]:
    """Return the same trees with the siblings of each node in either order of their tokens."""
    return [("ascending", _relinked(case, lambda token: token)), ("descending", _relinked(case, lambda token: -token))]


def _relinked(case: Case, rank: Callable[[int], int]) -> Case:
    next_token = np.full_like(case["retrieve_next_token"], -1)
    next_sibling = np.full_like(case["retrieve_next_sibling"], -1)
    for request, tokens in enumerate(case["candidates"].tolist()):
        for node, below in enumerate(children_of(case, request)):
            ordered = sorted(below, key=lambda child: rank(tokens[child]))
            for place, child in enumerate(ordered):
                next_sibling[request, child] = ordered[place + 1] if place + 1 < len(ordered) else -1
                if not place:
                    next_token[request, node] = child
    return {**case, "retrieve_next_token": next_token, "retrieve_next_sibling": next_sibling}


PROPERTIES = (
    *states("verify", (order_of_siblings_changes_no_path, _VERIFY, "P19")),
    *states("grammar", (order_of_siblings_changes_no_mask, _MASK, "P19")),
)
