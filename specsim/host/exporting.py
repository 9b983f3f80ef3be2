"""How much of a text leaves an engine: whole pages of what was committed and written."""

from specsim.rejection import Reason, check_range


def exportable_pages(
    num_written: int, num_tokens: int, num_protected: int, page_size: int, num_final: int | None = None
) -> int:
    """Return how many pages of a request may leave: those whose positions were all written for its own text.

    Parameters
    ----------
    num_written : int
        Positions from the front whose KV a forward wrote that fed the text's own token after the text before it.
    num_tokens : int
        Resolved tokens, prompt and output. The last one was output and never fed.
    num_protected : int
        Positions that the prefix cache has.
    page_size : int
        Slots of a page.
    num_final : int or None
        Tokens that are left where the request ended before the last resolved one; None where nothing cuts it.

    Returns
    -------
    num_pages : int
        Page ``j`` leaves if and only if ``(j+1)·page_size`` positions are written and left.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a position after the last token that was fed counts as written; the prefix cache has more
        than leaves; the end lies after the last resolved token; a page without a slot.

    Notes
    -----
    Source: semantics Q.7.
    """
    reason = Reason.COUNT_OUT_OF_RANGE
    check_range(reason, "page_size", page_size, "a page holds a slot", 1)
    check_range(reason, "num_written", num_written, "the last token was never fed", 0, num_tokens - 1)
    if num_final is not None:
        check_range(reason, "num_final", num_final, "an end cuts what is resolved", 0, num_tokens)
    num_left = num_written if num_final is None else min(num_written, num_final)
    check_range(reason, "num_protected", num_protected, "the prefix cache has text that leaves", 0, num_left)
    return num_left // page_size
