"""How many slots a decode needs at most (semantics I.5)."""

from collections.abc import Callable, Sequence

from specsim.counts import ceil_to
from specsim.simulation.memory.books import Books
from specsim.simulation.memory.reserve import (
    AllocLen,
    DecodeSizes,
    NextLength,
    alloc_len_per_decode,
    decode_reserve,
    next_allocated_length,
)

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
