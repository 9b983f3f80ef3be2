"""What one phase of an iteration hands to the next: one frozen class a phase, tagged and shape-checked.

The arrays may be NumPy's or torch's. Both counts are always present, and neither is computed from the other here.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from specsim.binding import bind
from specsim.contract import Contract, ScalarSpec, Unit, array
from specsim.rejection import Reason, SpecRejection


class PhaseTag(StrEnum):
    """Which phase reads an object."""

    EAGLE_DRAFT = "EAGLE_DRAFT"
    EAGLE_VERIFY = "EAGLE_VERIFY"
    EAGLE_VERIFY_OUTPUT = "EAGLE_VERIFY_OUTPUT"
    EAGLE_DRAFT_EXTEND = "EAGLE_DRAFT_EXTEND"


@dataclass(frozen=True)
class DraftInput:
    """What starts a draft: the candidates of depth 1, the hidden state behind them, and the root tokens.

    Shapes: ``req_pool_indices`` [request], ``seq_lens`` [request], ``topk_p`` and ``topk_index`` [request, topk] in
    draft vocabulary, ``hidden_states`` [request, hidden], ``bonus_tokens`` [request].
    """

    req_pool_indices: Any
    seq_lens: Any
    topk_p: Any
    topk_index: Any
    hidden_states: Any
    bonus_tokens: Any

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_DRAFT
    contract: ClassVar[Contract] = Contract(
        parameters=(
            array("req_pool_indices", "int64 [request]", Unit.ROW),
            array("seq_lens", "int64 [request]", Unit.COUNT),
            array("topk_p", "float32 [request, topk]", Unit.SCORE),
            array("topk_index", "int64 [request, topk]", Unit.TOKEN),
            array("hidden_states", "any [request, hidden]", Unit.ANY),
            array("bonus_tokens", "int32 [request]", Unit.TOKEN),
        )
    )

    def __post_init__(self) -> None:
        _check(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.req_pool_indices.shape[0])


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
        _check(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.seq_lens.shape[0])


@dataclass(frozen=True)
class VerifyOutput:
    """The accepted paths, both counts, and the target's hidden states, still in node order.

    Shapes: ``target_predict`` and ``predict`` [request*node], ``accept_index`` [request, draft+1], counts and
    ``bonus_tokens`` [request], ``hidden_states`` [request*node, hidden].
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
            array("hidden_states", "any [request*node, hidden]", Unit.ANY),
        )
    )

    def __post_init__(self) -> None:
        _check(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.num_accepted_drafts.shape[0])


@dataclass(frozen=True)
class DraftExtendInput:
    """The tokens with which the draft model catches up: ``node`` rows a request, accepted path first.

    Shapes: ``input_ids``, ``positions``, ``out_cache_loc`` [request*node], ``hidden_states`` [request*node, hidden],
    ``forward_seq_lens``, both counts and ``select_index`` [request]. Rows past the accepted path are computed on
    tokens that do not matter.
    """

    input_ids: Any
    hidden_states: Any
    positions: Any
    out_cache_loc: Any
    forward_seq_lens: Any
    num_accepted_drafts: Any
    num_accepted_tokens: Any
    select_index: Any
    num_draft_tokens: int

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_DRAFT_EXTEND
    contract: ClassVar[Contract] = Contract(
        parameters=(
            array("input_ids", "int64 [request*node]", Unit.TOKEN),
            array("hidden_states", "any [request*node, hidden]", Unit.ANY),
            array("positions", "int64 [request*node]", Unit.POSITION),
            array("out_cache_loc", "int64 [request*node]", Unit.SLOT),
            array("forward_seq_lens", "int64 [request]", Unit.COUNT),
            array("num_accepted_drafts", "int32 [request]", Unit.COUNT),
            array("num_accepted_tokens", "int32 [request]", Unit.COUNT),
            array("select_index", "int64 [request]", Unit.NODE),
            ScalarSpec("num_draft_tokens", axis="node", low="1"),
        )
    )

    def __post_init__(self) -> None:
        _check(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.select_index.shape[0])


Phase = DraftInput | VerifyInput | VerifyOutput | DraftExtendInput


def expect_phase(value: object, tag: PhaseTag) -> None:
    """Reject an object of another phase.

    Raises
    ------
    SpecRejection
        WRONG_PHASE.
    """
    got = value.tag if isinstance(value, Phase) else type(value).__name__
    if got != tag:
        raise SpecRejection(
            Reason.WRONG_PHASE, what="phase input", got=got, expected=tag, because="each phase reads its own class"
        )


def _check(phase: Phase) -> None:
    bind(type(phase).__name__, phase.contract, {field.name: getattr(phase, field.name) for field in fields(phase)})
