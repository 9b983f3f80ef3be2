"""DFLASH: what starts the draft of a block, and the block as the target sees it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from specsim.contracts.contract import Contract, Unit, array
from specsim.operations.shared import REQ_POOL_INDICES
from specsim.phases.form import check_form
from specsim.phases.tags import PhaseTag
from specsim.phases.verify import VerifyInput


@dataclass(frozen=True)
class DflashDraftInput:
    """The root of the next block, and the target's features that are no KV of the draft yet.

    Shapes: ``req_pool_indices``, ``bonus_tokens``, ``ctx_lens``, ``draft_seq_lens`` [request]; ``target_hidden``
    [token, layer*hidden] has the features of the last ``ctx_lens`` positions of each text, which has ``draft_seq_lens``
    of them, one request after another; None where there are none.

    Raises
    ------
    SpecRejection
        WRONG_SHAPE, WRONG_DTYPE, MISSING_ARGUMENT.

    Notes
    -----
    Source: semantics A.14b, D.9.
    """

    req_pool_indices: Any
    bonus_tokens: Any
    target_hidden: Any
    ctx_lens: Any
    draft_seq_lens: Any

    tag: ClassVar[PhaseTag] = PhaseTag.DFLASH_DRAFT
    contract: ClassVar[Contract] = Contract(
        parameters=(
            REQ_POOL_INDICES,
            array("bonus_tokens", "int64 [request]", Unit.TOKEN),
            array("target_hidden", "any [token, feature]", Unit.ANY, optional=True),
            array("ctx_lens", "int32 [request]", Unit.COUNT),
            array("draft_seq_lens", "int32 [request]", Unit.COUNT),
        )
    )

    def __post_init__(self) -> None:
        check_form(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.req_pool_indices.shape[0])

    @property
    def seq_lens(self) -> Any:
        """Committed positions of each request: as many as the draft has."""
        return self.draft_seq_lens

    @property
    def num_tokens_per_req(self) -> int:
        """Rows by which the request counts of ranks are multiplied in a round of drafts (semantics D.9)."""
        return 1


@dataclass(frozen=True)
class DflashVerifyInput(VerifyInput):
    """A block as a chain: another tag, the same fields."""

    tag: ClassVar[PhaseTag] = PhaseTag.DFLASH_VERIFY
