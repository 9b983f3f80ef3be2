"""The memory of an engine, put together from parts, and the sizes that it takes."""

from collections.abc import Sequence
from typing import Any

from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.counts import ceil_to
from specsim.rejection import contradiction
from specsim.simulation.memory import DecodeSizes, Memory, decode_reserve, most_swa_slots, required_row_width
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule


def build_memory(
    operations: CallsByName,
    sizes: PoolSizes,
    shuffle_seed: int | None,
    has_cache: bool,
    has_pair_keys: bool,
    window: int = 0,
    num_ahead: int = 1,
) -> Memory:
    """Return empty memory whose parts are an implementation's.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a window without a pool for it.
    """
    if window and not sizes.num_swa_slots:
        because = f"the layers that see a sliding window see {window} positions"
        raise contradiction("num_swa_slots", sizes.num_swa_slots, "more than 0", because)

    def allocator(num_slots: int) -> Any:
        if sizes.page_size == 1:
            return operations.host("SlotAllocator")(num_slots, shuffle_seed)
        return operations.host("PageAllocator")(num_slots, sizes.page_size, shuffle_seed)

    slots, swa = allocator(sizes.num_slots), None
    if window:
        slots = swa = operations.host("SwaAllocator")(slots, allocator(sizes.num_swa_slots))
    rows = operations.host("RowAllocator")(sizes.num_rows)
    cache = operations.host("RadixCache")(sizes.page_size) if has_cache else None
    exports = operations.host("Exports")(sizes.page_size)
    return Memory(slots, rows, sizes.row_width, cache, has_pair_keys, swa, window, num_ahead, exports)


def decode_sizes(config: SpecConfig, allocates_ahead: bool = True) -> DecodeSizes:
    """Return what an iteration of a configuration may touch."""
    return DecodeSizes(config.topk, config.num_steps, config.num_draft_tokens, allocates_ahead)


def most_positions(config: SpecConfig, request: Request, page_size: int = 1) -> int:
    """Return the most positions that a request can come to own: its text, what is reserved past it, its last page."""
    return positions_with(decode_reserve(decode_sizes(config), page_size), request, page_size)


def positions_with(num_past_text: int, request: Request, page_size: int) -> int:
    """Return the same where it is known how many positions are reserved past its text."""
    return ceil_to(len(request.prompt) + request.max_new_tokens + num_past_text, page_size)


def most_seen(
    config: SpecConfig, most: int, num_left: int, window: int, page_size: int = 1, schedule: Schedule = IN_TURN
) -> int:
    """Return the most SWA slots that a request holds at once; 0 where no layer has a sliding window.

    What a prefix cache has of a text keeps its SWA slots, whatever window passes over it.

    Parameters
    ----------
    most : int
        Positions that it can come to own.
    num_left : int
        Positions of its text that have to be filled.
    """
    if not window or schedule.has_prefix_cache:
        return most if window else 0
    chunk = num_left if schedule.prefill_chunk is None else min(num_left, schedule.prefill_chunk)
    num_new = max(chunk, decode_reserve(decode_sizes(config), page_size))
    return min(most, most_swa_slots(num_new, window, page_size))


def sizes_for(
    config: SpecConfig,
    requests: Sequence[Request],
    max_batch: int,
    page_size: int = 1,
    window: int = 0,
    schedule: Schedule = IN_TURN,
) -> PoolSizes:
    """Return pools that hold ``max_batch`` of the largest of these requests, and SWA slots for what a window sees."""
    longest = max((len(request.prompt) + request.max_new_tokens for request in requests), default=1)
    width = required_row_width(longest, decode_sizes(config), page_size)
    num_slots = max_batch * ceil_to(width, page_size) + page_size
    num_seen = ceil_to(most_seen(config, ceil_to(width, page_size), longest, window, page_size, schedule), page_size)
    num_swa_slots = max_batch * num_seen + page_size if window else 0
    return PoolSizes(num_slots, max_batch + 1, width, page_size, num_swa_slots)


def check_texts(holders: Sequence[Request], unanswered: Sequence[Request], allocates_ahead: bool) -> None:
    """Raise AssertionError unless every length that is committed fits the text of its request.

    Parameters
    ----------
    holders : sequence of Request
        Those that have a row.
    unanswered : sequence of Request
        Those of them whose prefill is not resolved: they have no output token after what is committed.
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
