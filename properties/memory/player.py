"""Who takes part in a history of an engine's memory, and what there is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require
from specsim.properties.memory.strategy import MemoryHistory
from specsim.properties.memory.tagged_slots import TaggedSlots
from specsim.simulation.memory import DecodeSizes, Holding, SlotRange, with_swa_slots
from specsim.simulation.pools import build_memory


@dataclass
class Player:
    """A request. ``num_true`` positions are text on the device; the host knows of them when results arrive.

    ``results`` are counts of accepted tokens on their way, each with the number of retractions at its launch.
    """

    name: int
    prompt: tuple[int, ...]
    holding: Holding
    text: list[int]
    num_true: int = 0
    num_known: int = 0
    num_filled: int = 0
    num_fill: int = 0
    results: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_filling(self) -> bool:
        """Whether its prompt, or its former output after it, is not complete."""
        return self.num_filled < self.num_fill

    def next_token(self) -> int:
        """Return what the model outputs after the text."""
        return (sum(self.text) + len(self.text) + self.name) % 3


class MemoryState:
    """The parts of an implementation put together, players, and what the device has."""

    def __init__(self, backend: Backend, history: MemoryHistory) -> None:
        self.part = backend.host
        num_slots, size = (history.num_pages + 1) * history.page_size, history.page_size
        num_swa_slots = (history.num_swa_pages + 1) * size if history.window else 0
        sizes = PoolSizes(num_slots, history.num_rows, history.row_width, size, num_swa_slots)
        self.memory = build_memory(backend, sizes, None, history.has_cache, history.has_pair_keys, history.window)
        self.history, self.size = history, size
        self.sizes: DecodeSizes = history.sizes
        self.device = TaggedSlots(int(history.has_pair_keys), history.window)
        self.players: list[Player] = []
        self.waiting: list[Player] = []
        self.published: list[tuple[int, ...]] = []
        self.num_names = 0

    @property
    def running(self) -> list[Player]:
        """Players that decode, in batch order."""
        return [one for one in self.players if not one.is_filling]

    @property
    def num_obtainable(self) -> int:
        """Slots that are free, or cached and not locked."""
        cache = self.memory.cache
        return self.memory.allocator.num_free + (0 if cache is None else cache.num_evictable)

    def own_slots(self, player: Player) -> list[int]:
        """Return the slots that a player has and the cache does not."""
        books = player.holding.books
        return [self.device.slot(books.row, place) for place in range(books.num_protected, books.num_allocated)]

    def assign(self, given: SlotRange) -> None:
        """Write slots into the maps of the device."""
        self.device.assign(with_swa_slots(self.memory, [given])[0])

    def evict(self, player: Player) -> None:
        """Give back what no token from the known text on sees, and no more."""
        if not self.history.window:
            return
        books, device = player.holding.books, self.device
        end = max(0, player.num_known - self.history.window + 1) // self.size * self.size
        slots = [device.slot(books.row, position) for position in range(books.num_protected, end)]
        expected = [slot for slot in slots if device.swa_slot(slot)]
        lost = self.part("evict_behind_window")(self.memory, player.holding, books.num_committed)
        require(list(lost) == expected, f"slots of request {player.name} before its window", lost, expected)
        self.assign(SlotRange(0, 0, 0, (), remapped=tuple(lost)))
        kept = [slot for slot in lost if device.swa_slot(slot)]
        require(not kept, f"slots of request {player.name} that keep their SWA slots", kept, "none")

    def reachable(self, slots: Sequence[int]) -> int:
        """Return how much of a cached front can be used, whose last window has SWA slots."""
        seen = max(0, self.history.window - 1)
        ends = [
            end
            for end in range(0, len(slots) + 1, self.size)
            if self.memory.swa is None or 0 not in self.memory.swa.swa_slots(slots[max(0, end - seen) : end])
        ]
        return ends[-1]

    def key(self, text: Sequence[int]) -> list[Any]:
        """Return the key of a text."""
        return list(pairwise(text)) if self.history.has_pair_keys else list(text)
