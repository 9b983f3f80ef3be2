"""What starts a draft."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from specsim.contracts.contract import Contract, Unit, array
from specsim.operations.shared import REQ_POOL_INDICES, seq_lens
from specsim.phases.carried import array_of, narrowed
from specsim.phases.form import Zeros, check_form, numpy_zeros, reject_form
from specsim.phases.tags import PhaseTag
from specsim.rejection import Reason

_RELAYED = ("topk_p", "topk_index", "hidden_states", "bonus_tokens")


@dataclass(frozen=True)
class DraftInput:
    """What starts a draft: the candidates of depth 1, the hidden state after them, and the root tokens.

    Shapes: ``req_pool_indices`` [request], ``seq_lens`` [request], ``topk_p`` and ``topk_index`` [request, topk] in
    draft vocabulary, ``hidden_states`` [request, hidden] or None where the draft model takes none, ``bonus_tokens``
    [request]. With ``future_indices`` [request] these four still lie in relay buffers, at those places, and are None:
    engines that overlap hand over such objects, the workers of specsim do not.

    Raises
    ------
    SpecRejection
        WRONG_SHAPE, WRONG_DTYPE, MISSING_ARGUMENT.

    Notes
    -----
    Source: semantics D.1, D.8.
    """

    req_pool_indices: Any
    seq_lens: Any
    topk_p: Any
    topk_index: Any
    hidden_states: Any
    bonus_tokens: Any
    future_indices: Any = None

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_DRAFT
    contract: ClassVar[Contract] = Contract(
        parameters=(
            REQ_POOL_INDICES,
            narrowed(seq_lens(), dtype="int64"),
            array_of("select_top_k_tokens", "topk_p", axes=("request", "topk"), optional=True),
            array_of("select_top_k_tokens", "topk_index", axes=("request", "topk"), optional=True),
            array_of("select_top_k_tokens", "hidden_states", axes=("request", "hidden"), optional=True),
            array_of("fill_bonus_tokens", "bonus_tokens", optional=True),
            array("future_indices", "int64 [request]", Unit.ROW, optional=True),
        )
    )

    def __post_init__(self) -> None:
        check_form(self)
        for name in _RELAYED:
            is_absent = getattr(self, name) is None
            if self.future_indices is not None and not is_absent:
                raise reject_form(
                    self, Reason.WRONG_SHAPE, name, "an array", "None", "with future_indices it lies in a relay buffer"
                )
            if self.future_indices is None and is_absent and name != "hidden_states":
                raise reject_form(
                    self, Reason.MISSING_ARGUMENT, name, None, "an array", "an idle object has arrays of length 0"
                )

    @classmethod
    def create_idle_input(
        cls, topk: int, hidden_width: int | None, hidden_dtype: str = "float32", zeros: Zeros = numpy_zeros
    ) -> Self:
        """Return the input of an empty batch: every array is there, with length 0.

        Parameters
        ----------
        topk : int
            Width of the candidates.
        hidden_width : int or None
            Width of a hidden state; None where the draft model takes none.
        hidden_dtype : str
            Element type of the hidden states.
        zeros : callable
            Makes an array of a shape and a dtype name.
        """
        return cls(
            req_pool_indices=zeros((0,), "int64"),
            seq_lens=zeros((0,), "int64"),
            topk_p=zeros((0, topk), "float32"),
            topk_index=zeros((0, topk), "int64"),
            hidden_states=None if hidden_width is None else zeros((0, hidden_width), hidden_dtype),
            bonus_tokens=zeros((0,), "int32"),
        )

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.req_pool_indices.shape[0])

    @property
    def num_tokens_per_req(self) -> int:
        """Rows of a request in a draft forward: its beams."""
        if self.topk_index is None:
            raise reject_form(
                self,
                Reason.MISSING_ARGUMENT,
                "topk_index",
                None,
                "an array",
                "it lies in a relay buffer",
            )
        return int(self.topk_index.shape[1])
