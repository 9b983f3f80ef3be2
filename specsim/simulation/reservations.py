"""How much room is kept for requests, by kind of slot: whether one more may join, and whether a chunk finds slots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from specsim.config import SpecConfig
from specsim.counts import ceil_to
from specsim.simulation.memory import (
    Allocator,
    DecodeSizes,
    Memory,
    decode_reserve,
    most_swa_slots,
    positions_of_decode,
)
from specsim.simulation.pools import decode_sizes, most_seen, positions_with
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule


@dataclass(frozen=True)
class Reservations:
    """What is kept free in an engine's memory.

    Parameters
    ----------
    memory : Memory
        What there is.
    config : SpecConfig
        Sizes of the drafts.
    sizes : DecodeSizes
        What an iteration may touch.
    schedule : Schedule
        Chunks, and the part of what requests may still need that is kept for them.
    part : callable
        Returns a part of the engine by its name.
    """

    memory: Memory
    config: SpecConfig
    sizes: DecodeSizes
    schedule: Schedule
    part: Callable[[str], Callable[..., Any]]

    def may_join(self, request: Request, holders: Sequence[Request]) -> bool:
        """Return whether there is room for one more, beside what is kept for those that have some."""
        if self._reserved(request) > self._available_full - self._missing(holders):
            return False
        if self.memory.swa is None:
            return True
        return self._reserved_swa(request, len(request.fill)) <= self._available_swa - self._missing_swa(holders)

    def has_room(self, start: int, end: int, num_hit: int, num_loaded: int = 0) -> bool:
        """Return whether positions can be allocated, of which the first are loaded and the others computed.

        What is hit in the cache may be all that could be forgotten. A window passes most of what is loaded.
        """
        size, swa, window = self.memory.page_size, self.memory.swa, self.memory.window
        need = ceil_to(end, size) - ceil_to(start, size)
        if need > max(self._full.num_free, self._available_full - num_hit):
            return False
        if swa is None:
            return True
        if num_loaded:
            need = min(need, most_swa_slots(max(end - start - num_loaded, size), window, size))
        return need <= max(swa.swa.num_free, self._available_swa - num_hit)

    def demand(self, request: Request) -> int:
        """Return the most positions that a request can come to own."""
        return positions_with(self._num_past_text, request, self.memory.page_size)

    def most_swa(self, request: Request) -> int:
        """Return the most SWA slots that a request can come to own; 0 without a window."""
        return self._reserved_swa(request, len(request.prompt) + request.max_new_tokens)

    @cached_property
    def _of_decode(self) -> dict[str, Callable[..., int]]:
        """What says how much a decode needs, looked up once: a queue asks this of every request for every other one."""
        return {name: self.part(name) for name in ("alloc_len_per_decode", "new_tokens_required_next_decode")}

    @cached_property
    def _num_past_text(self) -> int:
        """How many positions past its text a request owns at most."""
        sizes, size = decode_sizes(self.config), self.memory.page_size
        return decode_reserve(sizes, size, alloc_len_per_decode=self._of_decode["alloc_len_per_decode"])

    @property
    def _full(self) -> Allocator:
        """Who hands out full slots, whatever is left of SWA slots."""
        return self.memory.allocator if self.memory.swa is None else self.memory.swa.full

    @property
    def _available_full(self) -> int:
        """How many slots are free, or would be if the cache forgot what no one uses and no transfer reads."""
        cache, exports = self.memory.cache, self.memory.exports
        if cache is None:
            return self._full.num_free
        num_read = 0 if exports is None else len(exports.pages) * self.memory.page_size
        return self._full.num_free + max(0, cache.num_evictable - num_read)

    @property
    def _available_swa(self) -> int:
        """The same of SWA slots; which of the cached slots have none is not asked leaf by leaf."""
        memory = self.memory
        if memory.swa is None:
            return 0
        if memory.cache is None:
            return memory.swa.swa.num_free
        num_without = memory.swa.swa_slots(tuple(memory.cache.slots)).count(0)
        return memory.swa.swa.num_free + max(0, memory.cache.num_evictable - num_without)

    def _missing(self, holders: Sequence[Request]) -> int:
        """Return what is kept for those that have some, beyond what they have."""
        size = self.memory.page_size
        return sum(max(0, self._reserved(one) - ceil_to(len(one.slots), size)) for one in holders)

    def _missing_swa(self, holders: Sequence[Request]) -> int:
        """Return the same of SWA slots."""
        swa, num_missing = self.memory.swa, 0
        if swa is None:
            return 0
        for one in holders:
            num_held = len(one.slots) - swa.swa_slots(one.slots).count(0)
            reserved = self._reserved_swa(one, len(one.fill) - one.num_committed)
            num_missing += max(0, reserved - ceil_to(num_held, self.memory.page_size))
        return num_missing

    def _reserved(self, request: Request) -> int:
        """Return how many positions are kept for a request: those of its next decode, and part of what may follow."""
        size = self.memory.page_size
        nearest = positions_of_decode(
            max(request.num_fill, request.num_committed),
            self.sizes,
            size,
            **self._of_decode,
        )
        # NOTE: in whole numbers, because a queue asks this of every request for every other one.
        part, whole = self.schedule.promised.as_integer_ratio()
        return nearest + ceil_to(part * (self.demand(request) - nearest), whole * size) // whole

    def _reserved_swa(self, request: Request, num_left: int) -> int:
        """Return how many SWA slots are kept for a request that so many positions are still to be filled of."""
        memory = self.memory
        return most_seen(self.config, self.demand(request), num_left, memory.window, memory.page_size, self.schedule)
