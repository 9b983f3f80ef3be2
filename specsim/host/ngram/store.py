"""The n-gram store: every window of what was said, counted, and forgotten by age where there is no room."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from specsim.host.ngram.continuation import Anchor
from specsim.host.ngram.draft import NgramDraft, draft_after
from specsim.host.ngram.parameters import NgramParameters, check_tokens

ROOT_TOKEN = -1
"""What the root stands for: it is in front of every text."""


class StoredNode:
    """A path from the root, named by its last token; of its children the one that was used last stands last."""

    __slots__ = ("children", "count", "parent", "token")

    def __init__(self, token: int, parent: "StoredNode | None") -> None:
        self.token = token
        self.parent = parent
        self.count = 0
        self.children: dict[int, StoredNode] = {}

    def newest_first(self) -> Iterator["StoredNode"]:
        """Yield the children, the one that was used last first."""
        return reversed(self.children.values())


class NgramStore:
    """Windows of texts as paths of one tree.

    Parameters
    ----------
    parameters : NgramParameters
        Its sizes, and those of the drafts.

    Notes
    -----
    Source: semantics A.13b.
    """

    def __init__(self, parameters: NgramParameters) -> None:
        self._parameters = parameters
        self._root = StoredNode(ROOT_TOKEN, None)
        # NOTE: a path is used from its end to its front, so that whatever was not used for longest has no children.
        self._by_age: OrderedDict[StoredNode, None] = OrderedDict()
        self._num_forgotten = 0

    @property
    def parameters(self) -> NgramParameters:
        """What it was given."""
        return self._parameters

    @property
    def num_nodes(self) -> int:
        """Nodes that it has, the root included."""
        return len(self._by_age) + 1

    @property
    def num_forgotten(self) -> int:
        """Nodes that it had to forget, each as often as it was."""
        return self._num_forgotten

    def insert(self, tokens: Sequence[int]) -> None:
        """Count every window of a text: at each place as many tokens as a path has at most.

        Raises
        ------
        SpecRejection
            TOKEN_OUT_OF_RANGE: one of them is no id; nothing is inserted.
        """
        checked = check_tokens("tokens to insert", tokens)
        for start in range(len(checked)):
            self._insert_path(checked[start : start + self._parameters.max_depth])

    def draft(self, tokens: Sequence[int], num_draft_tokens: int | None = None) -> NgramDraft:
        """Continue a text by what followed its ends, of any length; nothing counts as used.

        Parameters
        ----------
        tokens : sequence of int
            The text up to the token that was output last, which becomes the root.
        num_draft_tokens : int or None
            Nodes of the draft, the root included; that of the parameters by default.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: the text is empty; TOKEN_OUT_OF_RANGE; SCALAR_OUT_OF_RANGE: no draft has so many nodes.
        """
        return draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)

    def _anchors(self, context: tuple[int, ...]) -> list[Anchor]:
        """Return where the ends of a text lead, the longest first; those that nothing follows are left out."""
        longest = min(len(context), self._parameters.max_depth)
        found = [(length, self._find(context[len(context) - length :])) for length in range(longest, 0, -1)]
        return [Anchor(length, node) for length, node in found if node is not None and node.children]

    def _find(self, path: tuple[int, ...]) -> StoredNode | None:
        node: StoredNode | None = self._root
        for token in path:
            if node is None:
                break
            node = node.children.get(token)
        return node

    def _insert_path(self, path: tuple[int, ...]) -> None:
        self._make_room(len(path))
        node, passed = self._root, list[StoredNode]()
        for token in path:
            node = self._pass(node, token)
            passed.append(node)
        self._use(passed)

    def _make_room(self, num_nodes: int) -> None:
        """Forget as much as a path needs that is all unknown; what it passes may be among it."""
        for _ in range(num_nodes - (self._parameters.capacity - self.num_nodes)):
            self._forget()

    def _forget(self) -> None:
        leaf, _ = self._by_age.popitem(last=False)
        if leaf.parent is not None:
            del leaf.parent.children[leaf.token]
        self._num_forgotten += 1

    def _pass(self, node: StoredNode, token: int) -> StoredNode:
        """Count a child, which becomes the most recent one of its parent."""
        child = node.children.pop(token, None)
        if child is None:
            child = StoredNode(token, node)
        child.count += 1
        node.children[token] = child
        return child

    def _use(self, passed: list[StoredNode]) -> None:
        """Make a path the most recent one, each node later than those below it."""
        for node in reversed(passed):
            self._by_age[node] = None
            self._by_age.move_to_end(node)
