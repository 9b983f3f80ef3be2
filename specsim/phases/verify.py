"""What the target sees, and what its verification hands over."""

from dataclasses import dataclass
from typing import Any, ClassVar

from specsim.contracts.contract import Contract
from specsim.operations.shared import (
    ACCEPT_INDEX,
    NUM_ACCEPTED_DRAFTS,
    NUM_DRAFT_TOKENS,
    OUT_CACHE_LOC,
    POSITIONS,
    PREDICT,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    seq_lens,
)
from specsim.phases.carried import array_of, narrowed
from specsim.phases.form import check_form
from specsim.phases.tags import PhaseTag


@dataclass(frozen=True)
class VerifyInput:
    """The tree that the target sees, and the slots that it writes.

    Shapes: ``draft_token``, ``positions``, ``out_cache_loc`` [request*node]; the three links [request, node];
    ``tree_mask`` [request*node*node]; ``seq_lens`` [request], the lengths before verify.
    """

    draft_token: Any
    retrieve_index: Any
    retrieve_next_token: Any
    retrieve_next_sibling: Any
    positions: Any
    tree_mask: Any
    out_cache_loc: Any
    seq_lens: Any
    num_draft_tokens: int

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_VERIFY
    contract: ClassVar[Contract] = Contract(
        parameters=(
            array_of("build_tree", "draft_token"),
            RETRIEVE_INDEX,
            RETRIEVE_NEXT_TOKEN,
            RETRIEVE_NEXT_SIBLING,
            POSITIONS,
            array_of("build_tree", "tree_mask", dtype="bool", axes=("request*node*node",)),
            OUT_CACHE_LOC,
            narrowed(seq_lens(), dtype="int64"),
            NUM_DRAFT_TOKENS,
        )
    )

    def __post_init__(self) -> None:
        check_form(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.seq_lens.shape[0])

    @property
    def num_tokens_per_req(self) -> int:
        """Rows of a request in the verify forward: its nodes, not the width of a path."""
        return self.num_draft_tokens


@dataclass(frozen=True)
class VerifyOutput:
    """The accepted paths, both counts, and the target's hidden states, still in node order.

    Shapes: ``target_predict`` and ``predict`` [request*node], ``accept_index`` [request, draft+1], counts and
    ``bonus_tokens`` [request], ``hidden_states`` [request*node, hidden] or None where the draft model takes none.
    """

    target_predict: Any
    predict: Any
    accept_index: Any
    num_accepted_drafts: Any
    num_accepted_tokens: Any
    bonus_tokens: Any
    hidden_states: Any

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_VERIFY_OUTPUT
    contract: ClassVar[Contract] = Contract(
        parameters=(
            array_of("argmax_target_predict", "target_predict", axes=("request*node",)),
            PREDICT,
            ACCEPT_INDEX,
            NUM_ACCEPTED_DRAFTS,
            array_of("fill_bonus_tokens", "num_accepted_tokens"),
            array_of("fill_bonus_tokens", "bonus_tokens"),
            array_of(
                "compact_accepted_to_front", "values", "hidden_states", axes=("request*node", "hidden"), optional=True
            ),
        )
    )

    def __post_init__(self) -> None:
        check_form(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.num_accepted_drafts.shape[0])
