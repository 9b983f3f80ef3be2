"""Who takes part in a history of an engine's memory, what its slots hold, and what holds of it at any time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.strategy import MemoryHistory
from specsim.simulation.memory import DecodeSizes, Holding, SlotRange, with_swa_slots
from specsim.simulation.pools import build_memory

Tag = tuple[int, ...]
SCRATCH: Tag = (-1,)
"""What drafts and rejected nodes leave in slots."""


class TaggedSlots:
    """The request-to-token map, and two tags a slot: the text that the target, and that the draft model has read.

    With a window, a layer of the target has slots of its own, and a map to them.
    """

    def __init__(self, num_draft_ahead: int, window: int = 0) -> None:
        self.num_draft_ahead = num_draft_ahead
        self.window = window
        self.full_to_swa: dict[int, int] = {}
        self.seen: dict[int, Tag] = {}
        self.map: dict[tuple[int, int], int] = {}
        self.target: dict[int, Tag] = {}
        self.draft: dict[int, Tag] = {}

    def assign(self, given: SlotRange) -> None:
        """Write slots into the map, and their SWA slots into the other one."""
        require(len(given.slots) == given.end - given.start, "slots of a range", len(given.slots), given)
        for position, slot in zip(range(given.start, given.end), given.slots, strict=True):
            self.map[given.row, position] = slot
        if self.window:
            slots = (*given.slots, *given.remapped)
            require_same("SWA slots of a range", len(given.swa_slots), len(slots))
            self.full_to_swa.update(zip(slots, given.swa_slots, strict=True))

    def swa_slot(self, slot: int) -> int:
        """Return what the map of slots says; 0 for none."""
        return self.full_to_swa.get(slot, 0)

    def slot(self, row: int, position: int) -> int:
        """Return what the map says."""
        require((row, position) in self.map, f"slot of position {position} in row {row}", "none", "one")
        return self.map[row, position]

    def write(self, row: int, start: int, end: int, text: Sequence[int]) -> None:
        """Run both models over positions of a text."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot], self.draft[slot] = self.tags(text, position)
            self._show(slot, self.target[slot])

    def scribble(self, row: int, start: int, end: int) -> None:
        """Let drafts and nodes that are not accepted write positions."""
        for position in range(start, end):
            slot = self.slot(row, position)
            self.target[slot] = self.draft[slot] = SCRATCH
            self._show(slot, SCRATCH)

    def require_window(self, what: str, row: int, next_position: int, text: Sequence[int]) -> None:
        """Raise AssertionError unless a layer with a window finds the text that a token at a position sees of it."""
        for position in range(max(0, next_position - self.window + 1), next_position if self.window else 0):
            slot = self.swa_slot(self.slot(row, position))
            got, expected = self.seen.get(slot) if slot else None, self.tags(text, position)[0]
            require_same(f"tag in SWA slot {slot}, position {position} of {what}", got, expected)

    def _show(self, slot: int, tag: Tag) -> None:
        """Write what a layer with a window has of a slot."""
        if self.window:
            require(self.swa_slot(slot), f"SWA slot of slot {slot}, which is written", "none", "one")
            self.seen[self.swa_slot(slot)] = tag

    def tags(self, text: Sequence[int], position: int) -> tuple[Tag, Tag]:
        """Return what a position of a text holds: the draft model's cache is ahead by a token where it is shifted."""
        return tuple(text[: position + 1]), tuple(text[: position + 1 + self.num_draft_ahead])

    def require_text(self, what: str, slots: Sequence[int], text: Sequence[int]) -> None:
        """Raise AssertionError unless slots hold the positions of a text from its front."""
        for position, slot in enumerate(slots):
            got, expected = (self.target.get(slot), self.draft.get(slot)), self.tags(text, position)
            require_same(f"tags in slot {slot}, position {position} of {what}", got, expected)


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


def check_memory(play: MemoryState, when: str) -> None:
    """Raise AssertionError unless every page and row has one owner, every length its place, every slot its text."""
    _check_owners(play, when)
    _check_swa_owners(play, when)
    _check_lengths(play, when)
    _check_texts(play, when)
    play.part("Ledger")(play.memory).check({one.name: one.holding for one in play.players})


def _check_owners(play: MemoryState, when: str) -> None:
    memory, size = play.memory, play.size
    owned = [{slot // size for slot in play.own_slots(player)} for player in play.players]
    owned.append(set() if memory.cache is None else {slot // size for slot in memory.cache.slots})
    _require_one_each(f"owners of pages {when}", [memory.allocator.free_pages, *owned], play.history.num_pages)
    rows = sorted(one.holding.books.row for one in play.players)
    require_same(f"rows {when}", rows, sorted(memory.rows.owned))
    require(len(set(rows)) == len(rows) and 0 not in rows, f"rows {when}", rows, "distinct, without 0")


def _check_swa_owners(play: MemoryState, when: str) -> None:
    memory, size = play.memory, play.size
    if memory.swa is None:
        return
    owned = [] if memory.cache is None else list(memory.swa.swa_slots(sorted(memory.cache.slots)))
    for player in play.players:
        slots = play.own_slots(player)
        there = tuple(map(play.device.swa_slot, slots))
        require_same(f"SWA slots of request {player.name} {when}", memory.swa.swa_slots(slots), there)
        owned += there
    shared = [slot for slot, count in Counter(owned).items() if slot and count > 1]
    require(not shared, f"SWA slots with two owners {when}", shared, "none")
    pages = [memory.swa.swa.free_pages, {slot // size for slot in owned if slot}]
    _require_one_each(f"owners of SWA pages {when}", pages, play.history.num_swa_pages)


def _require_one_each(what: str, owned: Iterable[Iterable[int]], num_pages: int) -> None:
    owners, expected = Counter(page for pages in owned for page in pages), Counter(range(1, num_pages + 1))
    wrong = sorted((owners - expected) + (expected - owners))
    require(not wrong, what, wrong, "one each")


def _check_lengths(play: MemoryState, when: str) -> None:
    for player in play.players:
        books, what = player.holding.books, f"of request {player.name} {when}"
        require_same(f"num_committed {what}", books.num_committed, player.num_known)
        lengths = [0, books.num_protected, books.num_committed, books.num_allocated, play.memory.row_width]
        require(all(one <= other for one, other in pairwise(lengths)), f"lengths {what}", lengths, "ascending")
        require(books.num_protected % play.size == 0, f"num_protected {what}", books.num_protected, "whole pages")
        ahead = books.num_allocated - books.num_committed
        require(play.sizes.allocates_ahead or not ahead, f"positions allocated ahead {what}", ahead, 0)
        in_map = [play.device.slot(books.row, position) for position in range(books.num_allocated)]
        require(in_map == player.holding.slots, f"slots {what}", player.holding.slots, in_map)
        for position, slot in enumerate(in_map):
            require_same(f"place of position {position} {what}", slot % play.size, position % play.size)


def _check_texts(play: MemoryState, when: str) -> None:
    for player in play.players:
        row, length = player.holding.books.row, player.num_true
        slots = [play.device.slot(row, position) for position in range(length)]
        play.device.require_text(f"request {player.name} {when}", slots, player.text)
    if play.memory.cache is not None:
        for text in dict.fromkeys(play.published):
            slots = list(play.memory.cache.match(play.key(text)).slots)
            play.device.require_text(f"a cached text {when}", slots, text)
