"""How far ahead of its text a request allocates (semantics I.2)."""

from collections.abc import Callable
from dataclasses import dataclass

from specsim.counts import ceil_to, decode_allocation
from specsim.rejection import Reason, check_range


@dataclass(frozen=True)
class DecodeSizes:
    """What a decode iteration may touch. Without speculation there are no nodes.

    Parameters
    ----------
    topk, num_steps, num_draft_tokens : int
        Beams, levels and nodes of a draft. Where the number of steps adapts, the levels are those of the iteration and
        the nodes those of the deepest candidate.
    allocates_ahead : bool
        V2: positions are allocated before an iteration, and none is freed inside.
    """

    topk: int = 0
    num_steps: int = 0
    num_draft_tokens: int = 0
    allocates_ahead: bool = False


def alloc_len_per_decode(sizes: DecodeSizes, page_size: int) -> int:
    """Return how many positions after the committed ones an iteration may touch.

    Notes
    -----
    Source: semantics I.2. Each beam of a tree starts a page of its own, after a copy of the prefix's partial page.
    """
    if sizes.num_draft_tokens == 0:
        return 1
    if page_size == 1 or sizes.topk == 1:
        return decode_allocation(sizes.topk, sizes.num_steps, sizes.num_draft_tokens)
    return max(sizes.topk * ceil_to(page_size - 1 + sizes.num_steps, page_size), sizes.num_draft_tokens)


AllocLen = Callable[[DecodeSizes, int], int]
"""As ``alloc_len_per_decode``."""


def decode_reserve(sizes: DecodeSizes, page_size: int, *, alloc_len_per_decode: AllocLen = alloc_len_per_decode) -> int:
    """Return how many positions after the committed ones V2 keeps allocated: what two iterations may touch.

    The second one is prepared before the host knows what the first one accepted.

    Notes
    -----
    Source: semantics I.2.
    """
    return 2 * alloc_len_per_decode(sizes, page_size)


def required_row_width(
    longest_text: int, sizes: DecodeSizes, page_size: int, *, alloc_len_per_decode: AllocLen = alloc_len_per_decode
) -> int:
    """Return the width of a row that holds the longest text, prompt and output, and the reserve after it.

    Notes
    -----
    Source: semantics I.2. Whole pages are allocated, so that the last one may begin at any place after the reserve.
    """
    reserve = decode_reserve(sizes, page_size, alloc_len_per_decode=alloc_len_per_decode)
    return longest_text + reserve + page_size - 1


def next_allocated_length(
    num_committed: int,
    num_allocated: int,
    sizes: DecodeSizes,
    page_size: int,
    *,
    alloc_len_per_decode: AllocLen = alloc_len_per_decode,
) -> int:
    """Return the allocated length before a V2 iteration: the reserve after the text in whole pages, never less.

    Notes
    -----
    Source: semantics I.2. A request that drafted more steps before keeps what it allocated for them.
    """
    reserve = decode_reserve(sizes, page_size, alloc_len_per_decode=alloc_len_per_decode)
    return ceil_to(max(num_allocated, num_committed + reserve), page_size)


NextLength = Callable[[int, int, DecodeSizes, int], int]
"""As ``next_allocated_length``."""


def require_row(end: int, row_width: int) -> None:
    """Refuse to allocate past the end of a row.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT.
    """
    because = "a row holds no more, and the next one is another request's"
    check_range(Reason.ROW_TOO_SHORT, "positions to allocate", end, because, most=row_width)
