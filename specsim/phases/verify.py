"""What the target sees, and what its verification hands over."""

from dataclasses import dataclass
from typing import Any, ClassVar

from specsim.contracts.contract import Contract, ScalarSpec, Unit, array
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
            array("draft_token", "int64 [request*node]", Unit.TOKEN),
            array("retrieve_index", "int64 [request, node]", Unit.NODE),
            array("retrieve_next_token", "int64 [request, node]", Unit.NODE),
            array("retrieve_next_sibling", "int64 [request, node]", Unit.NODE),
            array("positions", "int64 [request*node]", Unit.POSITION),
            array("tree_mask", "bool [request*node*node]", Unit.VISIBLE),
            array("out_cache_loc", "int64 [request*node]", Unit.SLOT),
            array("seq_lens", "int64 [request]", Unit.COUNT),
            ScalarSpec("num_draft_tokens", axis="node", low="1"),
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
            array("target_predict", "int64 [request*node]", Unit.TOKEN),
            array("predict", "int32 [request*node]", Unit.TOKEN),
            array("accept_index", "int32 [request, draft+1]", Unit.NODE),
            array("num_accepted_drafts", "int32 [request]", Unit.COUNT),
            array("num_accepted_tokens", "int32 [request]", Unit.COUNT),
            array("bonus_tokens", "int32 [request]", Unit.TOKEN),
            array("hidden_states", "any [request*node, hidden]", Unit.ANY, optional=True),
        )
    )

    def __post_init__(self) -> None:
        check_form(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.num_accepted_drafts.shape[0])
