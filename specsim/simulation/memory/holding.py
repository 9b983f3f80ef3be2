"""What one request has in memory, and the parts that an engine's memory is made of."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from specsim.simulation.memory.books import Books
from specsim.simulation.memory.protocols import Allocator, PrefixCache, Rows, SwaSlots
from specsim.simulation.memory.transfers import Exports


@dataclass(frozen=True)
class SlotRange:
    """Slots of positions ``start`` to ``end−1`` of a row, to be written into the request-to-token map.

    ``swa_slots`` has the SWA slot of each, 0 for none, to be written into the map of slots, and after them those of
    the slots ``remapped``, of whatever row, whose SWA slots changed; empty where there are none.
    """

    row: int
    start: int
    end: int
    slots: tuple[int, ...]
    swa_slots: tuple[int, ...] = ()
    remapped: tuple[int, ...] = ()


@dataclass
class Holding:
    """What one request has.

    Parameters
    ----------
    books : Books
        Its lengths and its row.
    slots : list of int
        What the map says of its allocated positions: one slot each.
    node : object
        Where the locked front of its text ends in the prefix cache; None while nothing is locked.
    num_evicted : int
        Positions before its window, whose SWA slots are gone but for those that the prefix cache has.
    """

    books: Books = field(default_factory=Books)
    slots: list[int] = field(default_factory=list)
    node: object = None
    num_evicted: int = 0

    @property
    def last_slot(self) -> int:
        """The slot of its last allocated position; -1 without one."""
        return self.slots[-1] if self.slots else -1


@dataclass(frozen=True)
class Memory:
    """The parts of an engine's memory; each may be a user's.

    Parameters
    ----------
    allocator : Allocator
        Slots.
    rows : Rows
        Rows of the request-to-token map.
    row_width : int
        Positions of a row.
    cache : PrefixCache or None
        Cached prefixes, with the allocator's page size; None for an engine without.
    has_pair_keys : bool
        Whether the draft cache is shifted, so that a position is cached under its token and the next one.
    swa : SwaSlots or None
        The allocator, where layers with a sliding window have slots of their own.
    window : int
        Positions that a token of such a layer sees, its own included.
    num_ahead : int
        Tokens after a position under which it is cached, where the draft cache is shifted.
    exports : Exports or None
        What is on its way out, whose pages stay until it has arrived; None for an engine that exports nothing.
    """

    allocator: Allocator
    rows: Rows
    row_width: int
    cache: PrefixCache | None = None
    has_pair_keys: bool = False
    swa: SwaSlots | None = None
    window: int = 0
    num_ahead: int = 1
    exports: Exports | None = None

    @property
    def page_size(self) -> int:
        """Slots of a page."""
        return self.allocator.page_size

    def free(self, slots: Iterable[int]) -> None:
        """Give slots back to the allocator; those of pages on their way out stay until they have arrived."""
        self.allocator.free(slots if self.exports is None else self.exports.keep(slots))

    def end_export(self, number: int) -> None:
        """End a transfer, and free what was given back while it ran.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: it has ended.
        """
        if self.exports is not None:
            self.allocator.free(self.exports.end(number))
