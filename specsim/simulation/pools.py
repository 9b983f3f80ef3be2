"""The memory of an engine, put together from parts, and the sizes that it takes."""

from collections.abc import Sequence

from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.counts import ceil_to
from specsim.simulation.memory import DecodeSizes, Memory, decode_reserve, required_row_width
from specsim.simulation.requests import Request


def build_memory(
    operations: CallsByName, sizes: PoolSizes, shuffle_seed: int | None, has_cache: bool, has_pair_keys: bool
) -> Memory:
    """Return empty memory whose parts are an implementation's."""
    page_size = sizes.page_size
    allocator = (
        operations.host("SlotAllocator")(sizes.num_slots, shuffle_seed)
        if page_size == 1
        else operations.host("PageAllocator")(sizes.num_slots, page_size, shuffle_seed)
    )
    rows = operations.host("RowAllocator")(sizes.num_rows)
    cache = operations.host("RadixCache")(page_size) if has_cache else None
    return Memory(allocator, rows, sizes.row_width, cache, has_pair_keys)


def decode_sizes(config: SpecConfig, allocates_ahead: bool = True) -> DecodeSizes:
    """Return what an iteration of a configuration may touch."""
    return DecodeSizes(config.topk, config.num_steps, config.num_draft_tokens, allocates_ahead)


def most_positions(config: SpecConfig, request: Request, page_size: int = 1) -> int:
    """Return the most positions that a request can come to own: its text, what is reserved past it, its last page."""
    reserve = decode_reserve(decode_sizes(config), page_size)
    return ceil_to(len(request.prompt) + request.max_new_tokens + reserve, page_size)


def sizes_for(config: SpecConfig, requests: Sequence[Request], max_batch: int, page_size: int = 1) -> PoolSizes:
    """Return pools that hold ``max_batch`` of the largest of these requests."""
    longest = max((len(request.prompt) + request.max_new_tokens for request in requests), default=1)
    width = required_row_width(longest, decode_sizes(config), page_size)
    num_slots = max_batch * ceil_to(width, page_size) + page_size
    return PoolSizes(num_slots, max_batch + 1, width, page_size)


def check_texts(holders: Sequence[Request], unanswered: Sequence[Request], allocates_ahead: bool) -> None:
    """Raise AssertionError unless every length that is committed fits the text of its request.

    Parameters
    ----------
    holders : sequence of Request
        Those that have a row.
    unanswered : sequence of Request
        Those of them whose prefill is not resolved: they have no output token behind what is committed.
    allocates_ahead : bool
        V2. In V1 nothing but what is committed is allocated between iterations.
    """
    for request in holders:
        committed, tokens = request.num_committed, len(request.fill)
        ahead = len(request.slots) - committed
        require(allocates_ahead or not ahead, "positions allocated ahead", ahead, "0, as V1 has none")
        if any(request is one for one in unanswered):
            require(tokens >= committed, "tokens of an unfinished prompt", tokens, f"at least {committed}")
        else:
            require(tokens == committed + 1, "tokens", tokens, committed + 1)
