"""What DFLASH is given, and what it decides on the host: which layers of the target its draft reads."""

from dataclasses import dataclass

from specsim.config import MOST_NODES, SpecConfig
from specsim.counts import count_draft_nodes
from specsim.rejection import Reason, check_range, contradiction

DEFAULT_BLOCK = 16
"""Positions of a block where neither the user nor the draft says otherwise (semantics A.14)."""

LAYERS_AT_THE_ENDS = 4
"""The first feature is of layer 1, the last one of the fourth layer from the end (semantics A.14b)."""


@dataclass(frozen=True)
class DflashParameters:
    """How a block is drafted.

    Parameters
    ----------
    block_size : int
        Positions of a block, the root included.
    mask_token : int
        What the draft reads where it is to say a token.
    draft_window : int or None
        Committed positions that a block sees; None for all of them.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a block without drafts or beyond a tree, a window that is shorter than a block, no token.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """

    block_size: int = DEFAULT_BLOCK
    mask_token: int = 0
    draft_window: int | None = None

    @classmethod
    def of_sizes(cls, topk: int, num_draft_tokens: int) -> "DflashParameters":
        """Return a block of so many nodes; nothing branches in it."""
        del topk
        return cls(num_draft_tokens)

    def __post_init__(self) -> None:
        if not 2 <= self.block_size <= MOST_NODES:
            because = "a block is its root and at least one draft, and is verified like a tree"
            raise contradiction("block_size", self.block_size, f"2 to {MOST_NODES}", because)
        if not 0 <= self.mask_token < 2**31:
            raise contradiction("mask_token", self.mask_token, "0 to 2**31-1", "it is a token")
        if self.draft_window is not None and self.draft_window < self.block_size:
            because = "a window that a block fills shows nothing of the text"
            raise contradiction("draft_window", self.draft_window, f"at least {self.block_size}", because)

    @property
    def config(self) -> SpecConfig:
        """The chain that a block is verified as."""
        return SpecConfig(1, int(count_draft_nodes(self.block_size)), self.block_size)


def target_feature_layers(num_target_layers: int, num_features: int) -> tuple[int, ...]:
    """Return the layers of the target whose hidden states are projected into the draft's KV, where no one names them.

    Parameters
    ----------
    num_target_layers : int
        Layers of the target.
    num_features : int
        How many of them are read.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no feature, or several of a target that has no layers between its ends.

    Notes
    -----
    Source: semantics A.14b. A place half way between two layers is the even one.
    """
    fewest = 1 if num_features == 1 else LAYERS_AT_THE_ENDS
    because = "features are spread over the layers between the ends of the target"
    for what, got, least in (("num_features", num_features, 1), ("num_target_layers", num_target_layers, fewest)):
        check_range(Reason.SCALAR_OUT_OF_RANGE, what, got, because, least)
    if num_features == 1:
        return (num_target_layers // 2,)
    span = num_target_layers - LAYERS_AT_THE_ENDS
    return tuple(round(1 + place * span / (num_features - 1)) for place in range(num_features))
