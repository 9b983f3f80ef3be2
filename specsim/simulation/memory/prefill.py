"""What a prompt takes from the prefix cache, allocates chunk by chunk, and leaves there."""

from collections.abc import Callable, Sequence

from specsim.counts import floor_to
from specsim.simulation.memory.decode import extend_holdings
from specsim.simulation.memory.holding import Holding, Memory, SlotRange
from specsim.simulation.memory.keys import KeyUnits, key_units
from specsim.simulation.memory.protocols import Match
from specsim.simulation.memory.window import evict_behind_window, reachable_match, save_window

AllocateChunk = Callable[[Memory, Holding, int], SlotRange]
"""As ``allocate_chunk``."""

EvictWindow = Callable[[Memory, Holding, int], list[int]]
"""As ``evict_behind_window``."""


def match_prefix(memory: Memory, fill: Sequence[int], *, key_units: KeyUnits = key_units) -> Match:
    """Find the cached front of what a request has to fill, prompt and former output.

    The last token is always computed again, and with pair keys the one before it, too. A front whose window has lost
    its SWA slots is cut where they are still there.

    Notes
    -----
    Source: semantics I.7.
    """
    if memory.cache is None:
        return Match((), None)
    key = key_units(fill[:-1], memory.has_pair_keys, memory.num_ahead)
    found = memory.cache.match(key)
    reachable = reachable_match(memory, found)
    return found if reachable == len(found.slots) else memory.cache.match(key[:reachable])


def admit_request(
    memory: Memory, holding: Holding, fill: Sequence[int], *, key_units: KeyUnits = key_units
) -> SlotRange:
    """Give a request a row and lock the cached front of its text; return what its row says of that front.

    Raises
    ------
    SpecRejection
        OUT_OF_SLOTS: no row is free; DUPLICATE_ROW: it has one. Nothing was locked.
    """
    holding.books.require_waiting()
    found = match_prefix(memory, fill, key_units=key_units)
    (row,) = memory.rows.allocate(1)
    if memory.cache is not None:
        memory.cache.lock(found.node)
        holding.node = found.node
    holding.books = holding.books.admit(row, len(found.slots))
    holding.slots = list(found.slots)
    return SlotRange(row, 0, len(found.slots), found.slots)


def allocate_chunk(memory: Memory, holding: Holding, end: int) -> SlotRange:
    """Allocate a prompt up to the end of a chunk; before its forward, its positions count as text.

    Raises
    ------
    SpecRejection
        OUT_OF_SLOTS; nothing was allocated.

    Notes
    -----
    Source: semantics I.8.
    """
    (given,) = extend_holdings(memory, [holding], [end])
    holding.books = holding.books.fill(end)
    return given


def allocate_loaded(
    memory: Memory,
    holding: Holding,
    num_positions: int,
    *,
    allocate_chunk: AllocateChunk = allocate_chunk,
    evict_behind_window: EvictWindow = evict_behind_window,
) -> list[int]:
    """Allocate the front of a text whose KV is loaded; return the full slots that have lost their SWA slots.

    Page by page, because a window passes most of a text: the SWA pool need not hold it at once.

    Raises
    ------
    SpecRejection
        OUT_OF_SLOTS; the pages before are allocated.
    """
    size, start = memory.page_size, len(holding.slots)
    borders = range(floor_to(start, size) + size, num_positions, size) if memory.swa is not None else ()
    lost = []
    for end in (*borders, num_positions):
        allocate_chunk(memory, holding, end)
        lost += evict_behind_window(memory, holding, end)
    return lost


def publish_prefix(
    memory: Memory, holding: Holding, text: Sequence[int], *, key_units: KeyUnits = key_units
) -> SlotRange:
    """Leave the text of a filled chunk to the prefix cache and return what the row says from here on.

    Slots of positions that the cache had already are freed, and the row is pointed at the cache's, which take over the
    SWA slots if they have lost theirs. Called after every chunk and not while decoding, with the text up to the end of
    the chunk.

    Notes
    -----
    Source: semantics I.7.
    """
    books, cache = holding.books, memory.cache
    start = books.num_protected
    if cache is None:
        return SlotRange(books.row, start, start, ())
    units = key_units(text, memory.has_pair_keys, memory.num_ahead)
    key = units[: floor_to(len(units), memory.page_size)]
    if len(key) < start:
        # NOTE: a hit knew more tokens ahead than the chunk after it reaches.
        return SlotRange(books.row, start, start, ())
    num_cached = cache.insert(key, holding.slots[: len(key)])
    found = cache.match(key)
    duplicates = holding.slots[start:num_cached]
    if duplicates:
        save_window(memory, duplicates, found.slots[start:num_cached])
        memory.free(duplicates)
    cache.lock(found.node)
    cache.unlock(holding.node)
    holding.node = found.node
    holding.slots[start : len(key)] = found.slots[start:]
    holding.books = books.protect(len(key))
    return SlotRange(books.row, start, len(key), tuple(found.slots[start:]))
