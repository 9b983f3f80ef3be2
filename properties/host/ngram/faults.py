"""Faults in what an n-gram store remembers, forgets and finds."""

from collections.abc import Callable
from typing import Any

from specsim.host.ngram.parameters import check_tokens
from specsim.host.ngram.store import StoredNode
from specsim.properties.mutants.record import Mutant, overriding

Method = Callable[..., Any]
Text = tuple[int, ...]


def _place_is_kept(correct: Method, self: Any, node: StoredNode, token: int) -> StoredNode:
    """Count a child that is there without making it the most recent one."""
    child = node.children.get(token)
    if child is None:
        known: StoredNode = correct(self, node, token)
        return known
    child.count += 1
    return child


def _known_is_not_counted(correct: Method, self: Any, node: StoredNode, token: int) -> StoredNode:
    before = node.children[token].count if token in node.children else 0
    child: StoredNode = correct(self, node, token)
    child.count = before or child.count
    return child


def _count_survives(correct: Method, self: Any, node: StoredNode, token: int) -> StoredNode:
    """Go on with the count that a node had when it was forgotten."""
    is_known = token in node.children
    child: StoredNode = correct(self, node, token)
    if not is_known:
        child.count += vars(self).get("ghosts", {}).pop(_path_of(child), 0)
    return child


def _ghost_is_kept(correct: Method, self: Any) -> None:
    leaf = next(iter(self._by_age))
    vars(self).setdefault("ghosts", {})[_path_of(leaf)] = leaf.count
    correct(self)


def _path_of(node: StoredNode) -> Text:
    return () if node.parent is None else (*_path_of(node.parent), node.token)


def _known_keeps_its_age(correct: Method, self: Any, passed: list[StoredNode]) -> None:
    correct(self, [node for node in passed if node not in self._by_age])


def _front_first(correct: Method, self: Any, passed: list[StoredNode]) -> None:
    correct(self, passed[::-1])


def _end_alone_is_used(correct: Method, self: Any, passed: list[StoredNode]) -> None:
    """Make the last node of a known path the most recent, and leave the nodes above it at their age."""
    correct(self, [node for node in passed[:-1] if node not in self._by_age] + passed[-1:])


def _youngest_goes(correct: Method, self: Any) -> None:
    leaf = next(node for node in reversed(self._by_age) if not node.children)
    self._by_age.move_to_end(leaf, last=False)
    correct(self)


def _inner_node_goes(correct: Method, self: Any) -> None:
    """Forget the oldest node that has children, with all of them, and count it alone."""
    oldest = next((node for node in self._by_age if node.children), None)
    if oldest is not None:
        self._by_age.move_to_end(oldest, last=False)
    correct(self)


def _still_found(correct: Method, self: Any) -> None:
    leaf = next(iter(self._by_age))
    correct(self)
    leaf.parent.children[leaf.token] = leaf


def _not_counted(correct: Method, self: Any) -> None:
    before = self._num_forgotten
    correct(self)
    self._num_forgotten = before


def _counted_once_a_path(correct: Method, self: Any, num_nodes: int) -> None:
    before = self._num_forgotten
    correct(self, num_nodes)
    self._num_forgotten = min(self._num_forgotten, before + 1)


def _room_for(change: int) -> Method:
    def fault(correct: Method, self: Any, num_nodes: int) -> None:
        correct(self, min(num_nodes + change, self._parameters.capacity - 1))

    return fault


def _room_for_the_unknown(correct: Method, self: Any, path: Text) -> None:
    """Forget as much as the nodes that a path adds need."""
    known = max(length for length in range(len(path) + 1) if self._find(path[:length]) is not None)
    self.num_known = known
    correct(self, path)
    self.num_known = 0


def _less_what_is_known(correct: Method, self: Any, num_nodes: int) -> None:
    correct(self, num_nodes - vars(self).get("num_known", 0))


def _window(change: int) -> Method:
    def fault(correct: Method, self: Any, path: Text) -> None:
        correct(self, path[: self._parameters.max_depth + change])

    return fault


def _whole_windows(correct: Method, self: Any, path: Text) -> None:
    """Leave out the windows at the end of a text, where it is over before a path is full."""
    if len(path) == self._parameters.max_depth:
        correct(self, path)


def _without_its_end(correct: Method, self: Any, tokens: Any) -> None:
    correct(self, tokens[:-1])


def _twice(correct: Method, self: Any, tokens: Any) -> None:
    correct(self, tokens)
    correct(self, tokens[-1:])


def _checked_on_the_way(correct: Method, self: Any, tokens: Any) -> None:
    for token in tokens:
        check_tokens("tokens to insert", (token,))
        correct(self, (token,))
    for node in self._root.children.values():
        node.count -= sum(token == node.token for token in tokens)
    correct(self, tokens)


def _shortest_first(correct: Method, self: Any, context: Text) -> Any:
    return correct(self, context)[::-1]


def _longest_alone(correct: Method, self: Any, context: Text) -> Any:
    return correct(self, context)[:1]


def _shortest_alone(correct: Method, self: Any, context: Text) -> Any:
    return correct(self, context)[-1:]


def _without_the_bonus(correct: Method, self: Any, context: Text) -> Any:
    return correct(self, context[:-1])


def _one_shorter(correct: Method, self: Any, context: Text) -> Any:
    """Match ends of a text that leave room for two tokens in a path."""
    return [anchor for anchor in correct(self, context) if anchor.num_tokens < self._parameters.max_depth - 1]


def _from_the_front(correct: Method, self: Any, context: Text) -> Any:
    """Match what a text begins with."""
    fronts = [self._find(context[: anchor.num_tokens]) for anchor in correct(self, context)]
    return [
        type(anchor)(anchor.num_tokens, node)
        for anchor, node in zip(correct(self, context), fronts, strict=True)
        if node is not None and node.children
    ]


def _found_before(correct: Method, self: Any, context: Text) -> Any:
    """Keep the ends that a text had when it was asked for first; what came since is missed, what went is there."""
    return vars(self).setdefault("found", {}).setdefault(context, correct(self, context))


def _advanced(correct: Method, self: Any, context: Text) -> Any:
    """Know the ends of a text that were known, one token shorter, when the last context was asked for."""
    known = vars(self).setdefault("asked", set())
    anchors = [one for one in correct(self, context) if one.num_tokens == 1 or context[: one.num_tokens - 1] in known]
    known.update(context[-length:] for length in range(1, len(context) + 1))
    return anchors


def _asking_is_using(correct: Method, self: Any, context: Text) -> Any:
    anchors = correct(self, context)
    for anchor in anchors:
        self._use([anchor.node])
    return anchors


_ROWS: tuple[tuple[int, str, dict[str, Method]], ...] = (
    (0, "A child that is there does not become the most recent one.", {"_pass": _place_is_kept}),
    (1, "A child is counted where it is created alone.", {"_pass": _known_is_not_counted}),
    (
        2,
        "A node that was forgotten goes on with its count.",
        {"_pass": _count_survives, "_forget": _ghost_is_kept},
    ),
    (3, "A path that is there keeps its age.", {"_use": _known_keeps_its_age}),
    (4, "A path grows old from its front, so that nodes go before those below them.", {"_use": _front_first}),
    (5, "The end of a known path alone becomes young.", {"_use": _end_alone_is_used}),
    (6, "The youngest leaf is forgotten.", {"_forget": _youngest_goes}),
    (7, "A node is forgotten that has children.", {"_forget": _inner_node_goes}),
    (8, "What was forgotten is still found.", {"_forget": _still_found}),
    (9, "What was forgotten is not counted.", {"_forget": _not_counted}),
    (10, "Nodes that one path drives out count as one.", {"_make_room": _counted_once_a_path}),
    (11, "A node too few is forgotten.", {"_make_room": _room_for(-1)}),
    (12, "A node more is forgotten than needed.", {"_make_room": _room_for(1)}),
    (
        13,
        "Room is made for the nodes that a path adds, not for the path.",
        {"_insert_path": _room_for_the_unknown, "_make_room": _less_what_is_known},
    ),
    (14, "Windows are a token too short.", {"_insert_path": _window(-1)}),
    (15, "Windows that a text ends in are left out.", {"_insert_path": _whole_windows}),
    (16, "The last token of a text is not inserted.", {"insert": _without_its_end}),
    (17, "The last token of a text is counted twice.", {"insert": _twice}),
    (18, "Tokens are inserted before those after them are looked at.", {"insert": _checked_on_the_way}),
    (19, "The shortest end of a text comes first.", {"_anchors": _shortest_first}),
    (20, "The longest end of a text alone is followed.", {"_anchors": _longest_alone}),
    (21, "The last token of a text alone is followed.", {"_anchors": _shortest_alone}),
    (22, "A text is matched without its last token.", {"_anchors": _without_the_bonus}),
    (23, "The longest ends are a token too short.", {"_anchors": _one_shorter}),
    (24, "A text is matched from its front.", {"_anchors": _from_the_front}),
    (25, "A text that is asked for again leads where it led before.", {"_anchors": _found_before}),
    (26, "Ends are matched that grew from ends of the text before.", {"_anchors": _advanced}),
    (27, "What a draft matches becomes young.", {"_anchors": _asking_is_using}),
)

MUTANTS = tuple(
    Mutant(f"OWN-{2000 + number}", "NgramStore", summary, overriding(**faults)) for number, summary, faults in _ROWS
)
