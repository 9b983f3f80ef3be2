"""What a user chooses: algorithm sizes, model, and the sizes of the pools."""

from dataclasses import dataclass
from enum import IntEnum

from specsim.counts import count_candidates, count_nodes, decode_reserve, path_width
from specsim.rejection import Reason, check_range, contradiction

MOST_NODES = 1024
"""Nodes of a tree at most, the root included: one block of a kernel holds them (semantics 0.2)."""

SURVIVAL_EPS = 1e-6
"""Least survival of a draft that is sent to the target, where no one states another (semantics Q.1.3)."""

INDEXER_PAGE_KEYS = 64
"""Keys of a page of the indexer, whatever the pages of the allocator hold (semantics C.6)."""

INDEXER_GROUP, INDEXER_SCALE_BYTES = 128, 4
"""Bytes of an indexer's key that share a scale, and bytes of a scale (semantics C.6)."""

MOST_PACKED_NODES = 32
"""Nodes of a tree whose mask rows are packed into words: as many as the widest word has bits (semantics A.8)."""


class TreeMaskMode(IntEnum):
    """Layout of the tree mask; the values are those that engines pass to their kernels."""

    FULL_MASK = 0
    QLEN_ONLY = 1
    QLEN_ONLY_BITPACKING = 2


@dataclass(frozen=True)
class SpecConfig:
    """Sizes of one speculative decode: branching factor, depth, and nodes sent to the target (root included).

    Without a level nothing is proposed: the target sees the root alone, and outputs the token after it.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the sizes contradict each other.
    """

    topk: int
    num_steps: int
    num_draft_tokens: int

    def __post_init__(self) -> None:
        reason = Reason.BAD_CONFIGURATION
        check_range(reason, "topk", self.topk, "a level has at least one candidate", 1)
        check_range(reason, "num_steps", self.num_steps, "it counts levels", 0)
        if self.num_steps == 0 and self.topk > 1:
            raise contradiction("topk", self.topk, "1", "without a level nothing branches")
        most = min(count_nodes(count_candidates(self.topk, self.num_steps)), MOST_NODES)
        fewest = path_width(self.num_steps)
        because = "the tree holds a full path and no more nodes than are proposed"
        check_range(reason, "num_draft_tokens", self.num_draft_tokens, because, fewest, most)
        if self.topk == 1 and self.num_draft_tokens != fewest:
            raise contradiction("num_draft_tokens", self.num_draft_tokens, str(fewest), "a chain has one node a level")

    @property
    def config(self) -> "SpecConfig":
        """Themselves, as parameters of other algorithms have their sizes."""
        return self

    @property
    def path_width(self) -> int:
        """Entries of an ``accept_index`` row."""
        return path_width(self.num_steps)

    def at_steps(self, num_steps: int | None) -> "SpecConfig":
        """Return the sizes of an iteration that drafts so many steps; None for those of the configuration.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: a tree, whose width does not follow from its depth, more steps than are allocated, or
            fewer than none.
        """
        if num_steps is None or num_steps == self.num_steps:
            return self
        if self.topk != 1:
            raise contradiction("topk", self.topk, "1", "the number of steps changes while it runs")
        because = "positions are allocated for as many"
        check_range(Reason.BAD_CONFIGURATION, "num_steps of an iteration", num_steps, because, most=self.num_steps)
        return SpecConfig(1, num_steps, path_width(num_steps))

    @property
    def reserve(self) -> int:
        """Positions past the committed length that V2 keeps allocated."""
        return decode_reserve(self.topk, self.num_steps, self.num_draft_tokens)


@dataclass(frozen=True)
class PoolSizes:
    """Slots (those of page 0, the dump, included), rows (row 0, the padding row, included) and positions of a row.

    ``num_swa_slots`` are those of layers with a sliding window, their page 0 included; 0 where no layer has one.
    """

    num_slots: int
    num_rows: int
    row_width: int
    page_size: int = 1
    num_swa_slots: int = 0
