"""How much of a text leaves an engine, whole pages of what was committed and written, and what another one loads."""

from specsim.counts import floor_to
from specsim.rejection import Reason, SpecRejection, check_length, check_range


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


def loadable_positions(
    num_tokens: int,
    num_target: int,
    num_draft: int | None = None,
    num_states: int | None = None,
    window: int = 0,
    window_start: int = 0,
    page_size: int = 1,
) -> int:
    """Return how many positions of an exported text another engine loads before it goes on.

    Parameters
    ----------
    num_tokens : int
        Tokens of the request there, those of the text included. The last one is computed, so that a draft can follow.
    num_target, num_draft : int
        Positions that came with KV of the target, and of the draft; None for a draft without KV of its own.
    num_states : int or None
        Tokens after which the recurrent states came, 0 for none; None for a target that has no such states.
    window : int
        Positions that layers with a sliding window see; 0 where there are none.
    window_start : int
        The first position whose KV in these layers came, with that of all positions after it.
    page_size : int
        Slots of the pages that a prefix cache will have of the text, the window of a page whole or not at all; 1
        without such a cache.

    Returns
    -------
    num_positions : int
        Positions from the front that every cache has; states are after exactly so many tokens.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: no position can be loaded; INCONSISTENT_LENGTHS: states after more tokens than that;
        UNMAPPED_SLOT: the first token to be computed sees a position of the window that did not come.

    Notes
    -----
    Source: semantics Q.7.
    """
    counts = (num_tokens - 1, num_target, num_draft, num_states)
    num_positions = min(count for count in counts if count is not None)
    because = "the last token is computed, and every cache has all before it"
    check_range(Reason.COUNT_OUT_OF_RANGE, "positions to load", num_positions, because, 1)
    if num_states is not None:
        because = "states do not go back"
        check_length("tokens in the recurrent states", num_states, num_positions, because)
    first_seen = floor_to(max(0, num_positions - window + 1), page_size)
    if window and window_start > first_seen:
        because = f"the token at {num_positions} sees {window} positions"
        raise SpecRejection(Reason.UNMAPPED_SLOT, "window_start", window_start, f"at most {first_seen}", because)
    return num_positions
