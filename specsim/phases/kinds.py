"""What a phase object is, and how many tokens its forward has: questions that its tag answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specsim.phases.dflash import DflashDraftInput
from specsim.phases.draft import DraftInput
from specsim.phases.extend import NOT_SET, DraftExtendInput, EagleDraftExtendInput
from specsim.phases.form import reject_form
from specsim.phases.tags import ForwardMode, PhaseTag
from specsim.phases.verify import VerifyInput, VerifyOutput
from specsim.rejection import Reason, SpecRejection

Phase = DraftInput | DflashDraftInput | VerifyInput | VerifyOutput | DraftExtendInput | EagleDraftExtendInput


def expect_phase(value: object, *tags: PhaseTag) -> None:
    """Reject an object of another phase than these.

    Raises
    ------
    SpecRejection
        WRONG_PHASE.

    Notes
    -----
    Source: semantics D.1.
    """
    got = value.tag if isinstance(value, Phase) else type(value).__name__
    if got not in tags:
        expected, because = " or ".join(tags), "each phase reads its own class"
        raise SpecRejection(Reason.WRONG_PHASE, "phase input", got, expected, because)


def is_draft_input(phase: Phase) -> bool:
    """Return whether the draft model reads the object, to draft or to catch up.

    Notes
    -----
    Source: semantics G.5.
    """
    return phase.tag.input_type is not None and phase.tag.input_type.is_draft_input()


def is_verify_input(phase: Phase) -> bool:
    """Return whether a target verify reads the object.

    Notes
    -----
    Source: semantics G.5.
    """
    return phase.tag.input_type is not None and phase.tag.input_type.is_verify_input()


def get_spec_adjust_token_coefficient(phase: Phase) -> tuple[int, int]:
    """Return the forward's rows of a request, and those of them that yield logits.

    Returns
    -------
    coefficients : (int, int)
        Draft (topk, topk), of a block (1, 1); verify (nodes, nodes); ragged extend (the worker's steps + 1, 1);
        fixed-width extend (nodes, nodes).

    Raises
    ------
    SpecRejection
        WRONG_PHASE: no forward reads the object; MISSING_ARGUMENT: a ragged extend that no worker has taken up, or a
        draft input that lies in relay buffers.

    Notes
    -----
    Source: semantics D.9, G.5.
    """
    match phase:
        case EagleDraftExtendInput(num_tokens_per_req=count):
            if count == NOT_SET:
                raise reject_form(
                    phase, Reason.MISSING_ARGUMENT, "num_tokens_per_req", count, "steps + 1", "the worker sets it"
                )
            return count, phase.num_tokens_for_logprob_per_req
        case DraftInput() | DflashDraftInput() | VerifyInput() | DraftExtendInput():
            return phase.num_tokens_per_req, phase.num_tokens_per_req
        case _:
            expected, because = "a draft or verify input", "no forward reads it"
            raise SpecRejection(Reason.WRONG_PHASE, "phase input", type(phase).__name__, expected, because)


def get_spec_adjusted_global_num_tokens(
    phase: Phase, global_num_tokens: Sequence[int], global_num_tokens_for_logprob: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Turn the request counts of all ranks into token counts of the forward that reads the object.

    Parameters
    ----------
    phase : Phase
        What the forward reads.
    global_num_tokens, global_num_tokens_for_logprob : sequence of int
        One entry a rank.

    Returns
    -------
    global_num_tokens, global_num_tokens_for_logprob : list of int
        Both lists times the coefficients of ``get_spec_adjust_token_coefficient``.

    Notes
    -----
    Source: semantics D.9, G.5.
    """
    per_request, for_logprob = get_spec_adjust_token_coefficient(phase)
    return (
        [count * per_request for count in global_num_tokens],
        [count * for_logprob for count in global_num_tokens_for_logprob],
    )


@dataclass(frozen=True)
class Batch:
    """The running requests, their lengths, and what the next phase reads.

    A phase that needs another view of the batch works on a copy, so that nothing has to be put back afterwards.
    ``req_pool_indices`` and ``seq_lens`` are int64 [request]; ``info`` is the phase object that is installed.
    """

    mode: ForwardMode
    req_pool_indices: Any
    seq_lens: Any
    info: Phase
