"""What a store hands over: the tokens of a draft tree and who is whose ancestor."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.host.ngram.continuation import Anchor
from specsim.host.ngram.parameters import NgramParameters, check_context, check_draft_size
from specsim.host.ngram.trees import ROOT, DraftTree, grow_tree

PADDING_TOKEN = 0


@dataclass(frozen=True)
class NgramDraft:
    """A draft tree, level by level, the root first and what fills it up last.

    Parameters
    ----------
    tokens : int64 [node]
        Token ids; those of padding are 0.
    tree_mask : bool [node, node]
        Whether the column is the row's node itself or one of its ancestors.
    num_padding : int
        How many of the last nodes hang below the root because nothing better is known.

    Notes
    -----
    Source: semantics A.13, A.13b.
    """

    tokens: NDArray[Any]
    tree_mask: NDArray[Any]
    num_padding: int

    @property
    def num_genuine(self) -> int:
        """Nodes in front of the padding, the root included."""
        return len(self.tokens) - self.num_padding

    def leaf_paths(self) -> list[tuple[int, ...]]:
        """Return the tokens after the root up to each leaf that is no padding, in the order of the leaves."""
        genuine = self.tree_mask[: self.num_genuine, : self.num_genuine]
        leaves = [node for node in range(1, self.num_genuine) if np.count_nonzero(genuine[:, node]) == 1]
        return [tuple(self.tokens[: self.num_genuine][genuine[leaf]][1:].tolist()) for leaf in leaves]


def draft_after(
    tokens: Sequence[int],
    anchors_of: Callable[[tuple[int, ...]], Sequence[Anchor]],
    parameters: NgramParameters,
    num_draft_tokens: int | None,
) -> NgramDraft:
    """Continue a text by what a source knows of its ends.

    Parameters
    ----------
    tokens : sequence of int
        The text up to the token that was output last, which becomes the root.
    anchors_of : callable
        Takes the ids of the text; returns where its ends lead in the source, the longest first.
    parameters : NgramParameters
        How the tree grows.
    num_draft_tokens : int or None
        Nodes of the draft, the root included; that of the parameters by default.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: the text is empty; TOKEN_OUT_OF_RANGE; SCALAR_OUT_OF_RANGE: no draft has so many nodes.
    """
    context = check_context(tokens)
    num_nodes = check_draft_size(parameters.num_draft_tokens if num_draft_tokens is None else num_draft_tokens)
    return emit_draft(grow_tree(anchors_of(context), parameters, num_nodes), context[-1], num_nodes)


def emit_draft(tree: DraftTree, root_token: int, num_draft_tokens: int) -> NgramDraft:
    """Number the nodes of a tree level by level, siblings as they were created, and fill it up below the root.

    Parameters
    ----------
    tree : DraftTree
        At most ``num_draft_tokens`` nodes.
    root_token : int
        The token that was output last.
    num_draft_tokens : int
        Nodes of the draft, the root included.
    """
    tokens, parents = [root_token], [ROOT]
    waiting = deque((ROOT, token, node) for token, node in tree.children[ROOT].items())
    while waiting:
        parent, token, node = waiting.popleft()
        waiting.extend((len(tokens), below, child) for below, child in tree.children[node].items())
        tokens.append(token)
        parents.append(parent)
    num_padding = num_draft_tokens - len(tokens)
    tokens += [PADDING_TOKEN] * num_padding
    parents += [ROOT] * num_padding
    tree_mask = np.eye(num_draft_tokens, dtype=np.bool_)
    for node, parent in enumerate(parents):
        tree_mask[node] |= tree_mask[parent]
    return NgramDraft(np.array(tokens, dtype=np.int64), tree_mask, num_padding)
