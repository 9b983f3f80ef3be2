"""Custom logit processors: a request's own function over the rows of its nodes, before penalties, bias and masks."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from specsim.rejection import Reason, SpecRejection, check_length

LogitProcessor = Callable[[Any], Any]
"""Takes logits [node, vocab] of one request, which it may change, and returns as many."""


def apply_logit_processors(logits: Any, processors: Sequence[LogitProcessor | None], num_draft_tokens: int) -> None:
    """Apply each request's processor to its rows.

    Parameters
    ----------
    logits : array or tensor [request*node, vocab]
        Raw logits; written in place, after every processor has returned.
    processors : sequence of callable or None
        One entry a request; None leaves its rows as they are.
    num_draft_tokens : int
        Nodes of a request: a processor sees rows ``b*N`` to ``(b+1)*N-1``, once.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the rows are not ``N`` a request; WRONG_SHAPE: a processor returned another shape.

    Notes
    -----
    Source: semantics B.4.
    """
    check_length("logits.shape[0]", len(logits), len(processors) * num_draft_tokens, "every request has one row a node")
    processed: dict[int, Any] = {}
    for request, processor in enumerate(processors):
        if processor is not None:
            rows = logits[request * num_draft_tokens : (request + 1) * num_draft_tokens]
            processed[request] = processor(deepcopy(rows))
            if tuple(processed[request].shape) != tuple(rows.shape):
                raise SpecRejection(
                    Reason.WRONG_SHAPE,
                    what=f"what processor {request} returned",
                    got=tuple(processed[request].shape),
                    expected=str(tuple(rows.shape)),
                    because="it replaces the rows that it was given",
                )
    for request, rows in processed.items():
        logits[request * num_draft_tokens : (request + 1) * num_draft_tokens] = rows
