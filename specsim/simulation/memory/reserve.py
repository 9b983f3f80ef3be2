"""How far ahead of its text a request allocates, and how many slots a decode needs at most (semantics I.2, I.5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specsim.counts import ceil_to, decode_allocation
from specsim.rejection import Reason, check_range
from specsim.simulation.memory.books import Books


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


_ONE_REQUEST = (Books(),)


Demand = Callable[[Sequence[Books], DecodeSizes, int], int]
"""As ``new_tokens_required_next_decode``."""


def new_tokens_required_next_decode(
    batch: Sequence[Books],
    sizes: DecodeSizes,
    page_size: int,
    *,
    next_allocated_length: NextLength = next_allocated_length,
) -> int:
    """Return the slots that the next decode of a batch allocates at most, all of its requests together.

    Without speculation that is a page for each request whose last one is full. V1 allocates inside its iteration,
    first for drafts, then, when these are back, for nodes. V2 allocates before it, and this is how much.

    Parameters
    ----------
    batch : sequence of Books
        The requests that decode.
    sizes : DecodeSizes
        What one iteration may touch.
    page_size : int
        Slots of a page.

    Notes
    -----
    Source: semantics I.5.
    """
    if sizes.num_draft_tokens == 0:
        return page_size * sum(books.num_committed % page_size == 0 for books in batch)
    if sizes.allocates_ahead:
        ends = [next_allocated_length(one.num_committed, one.num_allocated, sizes, page_size) for one in batch]
        missing = [end - ceil_to(one.num_allocated, page_size) for one, end in zip(batch, ends, strict=True)]
        return sum(missing)
    nodes = ceil_to(sizes.num_draft_tokens, page_size)
    return len(batch) * max(sizes.topk * _beam(sizes, page_size), nodes)


def positions_of_decode(
    num_positions: int,
    sizes: DecodeSizes,
    page_size: int,
    *,
    alloc_len_per_decode: AllocLen = alloc_len_per_decode,
    new_tokens_required_next_decode: Demand = new_tokens_required_next_decode,
) -> int:
    """Return how many positions a request of such a length owns at most while it decodes once, in whole pages.

    V2 has two iterations in its reserve. V1 has one: nothing is in flight when it begins the next.
    """
    if sizes.allocates_ahead:
        reserve = decode_reserve(sizes, page_size, alloc_len_per_decode=alloc_len_per_decode)
        return ceil_to(num_positions + reserve, page_size)
    return ceil_to(num_positions, page_size) + new_tokens_required_next_decode(_ONE_REQUEST, sizes, page_size)


def _beam(sizes: DecodeSizes, page_size: int) -> int:
    """Return the slots of one beam of a V1 draft, which may begin anywhere in a page of its own."""
    spill = page_size if page_size > 1 and sizes.topk > 1 else 0
    return ceil_to(sizes.num_steps + spill, page_size)
