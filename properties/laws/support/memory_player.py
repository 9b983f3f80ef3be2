"""Who takes part in a history of an engine's memory, and what there is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.tagged_slots import TaggedSlots
from specsim.properties.strategies.memory import MemoryHistory
from specsim.simulation.memory import DecodeSizes, Holding, Memory


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
        """Whether its prompt, or its former output behind it, is not complete."""
        return self.num_filled < self.num_fill

    def next_token(self) -> int:
        """Return what the model outputs behind the text."""
        return (sum(self.text) + len(self.text) + self.name) % 3


class MemoryState:
    """The parts of an implementation put together, players, and what the device has."""

    def __init__(self, backend: Backend, history: MemoryHistory) -> None:
        self.part = backend.host
        num_slots, size = (history.num_pages + 1) * history.page_size, history.page_size
        allocator = self.part("SlotAllocator")(num_slots) if size == 1 else self.part("PageAllocator")(num_slots, size)
        cache = self.part("RadixCache")(size) if history.has_cache else None
        self.memory = Memory(
            allocator, self.part("RowAllocator")(history.num_rows), history.row_width, cache, history.has_pair_keys
        )
        self.history, self.size = history, size
        self.sizes: DecodeSizes = history.sizes
        self.device = TaggedSlots(int(history.has_pair_keys))
        self.players: list[Player] = []
        self.waiting: list[Player] = []
        self.published: list[tuple[int, ...]] = []
        self.num_names = 0

    @property
    def running(self) -> list[Player]:
        """Players that decode, in batch order."""
        return [one for one in self.players if not one.is_filling]

    def key(self, text: Sequence[int]) -> list[Any]:
        """Return the key of a text."""
        return list(pairwise(text)) if self.history.has_pair_keys else list(text)
