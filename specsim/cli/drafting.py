"""What a simulation drafts: an algorithm, its sizes where the user gave them and its own defaults elsewhere."""

from specsim.cli.output import Exit, Failed, remark
from specsim.counts import path_width
from specsim.host.ngram import NgramParameters

EAGLE_SIZES = (4, 5, 16)
"""Branching factor, depth and nodes that EAGLE takes where nothing is said."""

Sizes = tuple[int, int, int]


def eagle_sizes(topk: int | None, num_steps: int | None, num_draft_tokens: int | None) -> Sizes:
    """Return branching factor, depth and nodes of EAGLE; what a chain or a rest fixes is said on stderr."""
    given = zip((topk, num_steps, num_draft_tokens), EAGLE_SIZES, strict=True)
    topk, num_steps, num_draft_tokens = (default if value is None else value for value, default in given)
    if num_steps == 0 and topk != 1:
        remark(f"--topk {topk} becomes 1: with --steps 0 nothing branches")
        topk = 1
    if topk == 1 and num_draft_tokens != path_width(num_steps):
        width = path_width(num_steps)
        remark(f"--draft-tokens {num_draft_tokens} becomes {width}: with --topk 1 a draft has one node a level")
        num_draft_tokens = width
    return topk, num_steps, num_draft_tokens


def ngram_sizes(breadth: int | None, num_steps: int | None, num_draft_tokens: int | None) -> Sizes:
    """Return largest breadth, depth and nodes of NGRAM, as far as bounds go: it has no depth of its own.

    Raises
    ------
    Failed
        USAGE: a depth.
    """
    if num_steps is not None:
        raise Failed("--steps is for EAGLE: a path of NGRAM may hold every node of its draft", Exit.USAGE)
    own = NgramParameters()
    nodes = own.num_draft_tokens if num_draft_tokens is None else num_draft_tokens
    return own.max_breadth if breadth is None else breadth, 0, nodes
