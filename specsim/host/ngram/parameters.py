"""What an n-gram store is given: how long its paths are, how wide its trees, and how much it may remember."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from specsim.config import MOST_NODES, SpecConfig
from specsim.counts import count_draft_nodes
from specsim.rejection import Reason, SpecRejection, check_range, contradiction

LARGEST_TOKEN = 2**31 - 1
"""Token ids of a store are 32 bits wide and not negative."""


Documents = tuple[tuple[int, ...], ...]
"""The tokens of the documents of a corpus."""


class TreeMode(StrEnum):
    """How a draft tree is grown: level by level with what came last, or by what is likeliest."""

    BFS = "BFS"
    PROB = "PROB"


@dataclass(frozen=True)
class NgramParameters:
    """Sizes of a store and of its drafts.

    Parameters
    ----------
    max_depth : int
        Tokens of the longest path, at least 2: a context and what follows it.
    min_breadth, max_breadth : int
        Children that are followed after the longest context and after the shortest; the larger one also bounds the
        children that a tree by probability considers.
    capacity : int
        Nodes that are remembered, the root included; one path has to fit beside it.
    num_draft_tokens : int
        Nodes of a draft, the root included.
    mode : TreeMode
        How drafts are grown.
    corpora : tuple of tuples of tuples of int
        The documents of each text from outside, their tokens.
    corpus_budget : int
        Nodes after the root that all corpora may draft together.
    max_corpus_tokens : int
        Tokens that a corpus may have.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the sizes contradict each other.

    Notes
    -----
    Source: semantics A.13b.
    """

    max_depth: int = 18
    min_breadth: int = 1
    max_breadth: int = 10
    capacity: int = 10_000_000
    num_draft_tokens: int = 12
    mode: TreeMode = TreeMode.BFS
    corpora: tuple[Documents, ...] = ()
    corpus_budget: int = 0
    max_corpus_tokens: int = 10_000_000

    @classmethod
    def of_sizes(cls, topk: int, num_draft_tokens: int) -> "NgramParameters":
        """Return a store whose drafts have a widest level and a number of nodes."""
        return cls(max_breadth=topk, num_draft_tokens=num_draft_tokens)

    def __post_init__(self) -> None:
        reason = Reason.BAD_CONFIGURATION
        check_range(reason, "max_depth", self.max_depth, "a path is a context and what follows it", 2)
        check_range(reason, "min_breadth", self.min_breadth, "a context that goes on is followed", 1)
        if self.max_breadth < self.min_breadth:
            expected = f"at least {self.min_breadth}, the least breadth"
            raise contradiction("max_breadth", self.max_breadth, expected, "short contexts are followed wider")
        check_range(reason, "capacity", self.capacity, "the root and one whole path have to fit", self.max_depth + 1)
        check_range(reason, "num_draft_tokens", self.num_draft_tokens, "a draft has a root", 1, MOST_NODES)
        if self.mode not in [*TreeMode]:
            raise contradiction("mode", self.mode, " or ".join(TreeMode), "a tree grows in one of these ways")
        most = count_draft_nodes(self.num_draft_tokens)
        if self.corpora and not 1 <= self.corpus_budget <= most:
            expected = f"1 to {most}, or no corpus"
            raise contradiction("corpus_budget", self.corpus_budget, expected, "corpora share the nodes of a draft")

    @property
    def config(self) -> SpecConfig:
        """What an iteration may touch: a path may hold every node of a draft, and nothing is drafted beside them."""
        return SpecConfig(1, count_draft_nodes(self.num_draft_tokens), self.num_draft_tokens)


def check_tokens(what: str, tokens: Sequence[int]) -> tuple[int, ...]:
    """Return token ids as whole numbers.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE: one of them is no id.
    """
    checked = tuple(int(token) for token in tokens)
    for place, token in enumerate(checked):
        if not 0 <= token <= LARGEST_TOKEN:
            because = "ids are 32 bits wide and not negative"
            raise SpecRejection(Reason.TOKEN_OUT_OF_RANGE, f"{what}[{place}]", token, f"0 to {LARGEST_TOKEN}", because)
    return checked


def check_context(tokens: Sequence[int]) -> tuple[int, ...]:
    """Return the ids of a text that a draft continues; its last token is the root.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: the text is empty; TOKEN_OUT_OF_RANGE.
    """
    check_range(
        Reason.COUNT_OUT_OF_RANGE, "tokens to continue", len(tokens), "the last one is the root of the draft", 1
    )
    return check_tokens("tokens to continue", tokens)


def check_draft_size(num_draft_tokens: int) -> int:
    """Return how many nodes a draft shall have.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no tree has so many.
    """
    check_range(Reason.SCALAR_OUT_OF_RANGE, "num_draft_tokens", num_draft_tokens, "a draft has a root", 1, MOST_NODES)
    return num_draft_tokens
