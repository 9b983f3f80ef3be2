"""An engine's memory without an engine: requests come, decode and go, and tags say what their slots hold."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import require
from specsim.properties.laws.support.memory_checks import check_memory
from specsim.properties.laws.support.memory_player import Player
from specsim.properties.laws.support.memory_steps import resolve, step
from specsim.properties.laws.support.tagged_slots import TaggedSlots
from specsim.properties.strategies.memory import Event, MemoryHistory
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.memory import DecodeSizes, Holding, Memory


class MemoryPlay:
    """The parts of an implementation put together, and players."""

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

    def play(self, events: Sequence[Event]) -> None:
        """Let everything happen, check after each event, and find the pool whole when all have gone."""
        for event in events:
            self.happen(event)
            check_memory(self, f"after {event}")
        while self.players:
            self.leave(self.players[-1], None)
        check_memory(self, "when all have gone")
        allocator, cache = self.memory.allocator, self.memory.cache
        left = allocator.num_free + (0 if cache is None else cache.num_cached)
        require(left == self.history.num_pages * self.size, "free and cached slots at the end", left, "all")
        rows = self.memory.rows.num_free
        require(rows == self.history.num_rows - 1, "free rows at the end", rows, self.history.num_rows - 1)

    def happen(self, event: Event) -> None:
        """Do what an event says, if it can be done."""
        number = event.counts[0]
        chosen = self.running[number % len(self.running)] if self.running else None
        match event.what:
            case "admit":
                self.admit(number + 7 * event.counts[1])
            case "chunk":
                self.chunk(1 + number * (1 + event.counts[1]))
            case "step":
                step(self, event.counts)
            case "finish" if chosen is not None:
                self.leave(chosen, event.counts[1])
            case "abort" if chosen is not None:
                self.leave(chosen, None)
            case "retract" if chosen is not None:
                self.retract(chosen)
            case "evict" if self.memory.cache is not None:
                evicted = self.memory.cache.evict(number)
                self.memory.allocator.free(evicted)
            case "late":
                resolve(self)
            case "resize":
                shorter = max(1, self.history.sizes.num_steps - number % 3)
                self.sizes = replace(self.sizes, num_steps=shorter)

    def admit(self, number: int) -> None:
        """Admit the first who waits, or somebody for one of the prompts, while nobody else fills."""
        if any(one.is_filling for one in self.players):
            return
        if self.waiting:
            player = self.waiting[0]
        else:
            prompt = self.history.prompts[number % len(self.history.prompts)]
            player = Player(self.num_names, prompt, Holding(self.part("Books")()), list(prompt))
        fill, cache = player.text, self.memory.cache
        units = list(itertools.pairwise(fill)) if self.history.has_pair_keys else list(fill[:-1])
        expected = () if cache is None else cache.match(units).slots
        if not self.memory.rows.num_free:
            self.refused(Reason.OUT_OF_SLOTS, lambda: self.part("admit_request")(self.memory, player.holding, fill))
            return
        given = self.part("admit_request")(self.memory, player.holding, fill)
        require(given.slots == tuple(expected), "cached slots of an admitted request", given.slots, expected)
        self.device.assign(given)
        self.num_names += not self.waiting
        self.waiting = self.waiting[1:]
        self.players.append(player)
        player.num_fill, player.num_filled = len(fill), len(expected)
        player.num_true = player.num_known = len(expected)

    def chunk(self, length: int) -> None:
        """Run a chunk of the prompt of whoever fills; one that is not the last ends with a page."""
        player = next((one for one in self.players if one.is_filling), None)
        if player is None:
            return
        end = min(player.num_filled + length, player.num_fill)
        if end < player.num_fill:
            end = max(end // self.size * self.size, player.num_filled)
        if end == player.num_filled:
            return
        if not self.fits(end, player):
            self.leave(player, None)
            return
        given = self.part("allocate_chunk")(self.memory, player.holding, end)
        self.device.assign(given)
        if end == player.num_fill:
            player.text.append(player.next_token())
        self.device.write(player.holding.books.row, player.num_filled, end, player.text)
        player.num_filled = player.num_true = player.num_known = end
        self.device.assign(self.part("publish_prefix")(self.memory, player.holding, player.text[:end]))
        self.published.append(tuple(player.text[:end]))

    def fits(self, end: int, player: Player) -> bool:
        """Return whether a prompt can grow so far; if not, the attempt is refused and changes nothing."""
        cache = self.memory.cache
        room = self.memory.allocator.num_free + (0 if cache is None else cache.num_evictable)
        need = (-(-end // self.size) - -(-player.num_filled // self.size)) * self.size
        reason = Reason.ROW_TOO_SHORT if end > self.memory.row_width else Reason.OUT_OF_SLOTS
        if need <= room and end <= self.memory.row_width:
            return True
        self.refused(reason, lambda: self.part("allocate_chunk")(self.memory, player.holding, end))
        return False

    def leave(self, player: Player, cut: int | None) -> None:
        """Release a request that ended after some output tokens, or for which nothing cuts the output."""
        num_output = player.num_known + 1 - len(player.prompt)
        finished = None if cut is None or num_output < 1 else max(1, num_output - cut)
        owned = self.part("owned_length")(player.holding.books.num_committed, len(player.prompt), finished)
        expected = player.num_known if finished is None else min(player.num_known, len(player.prompt) + finished)
        require(owned == expected, "positions of text", owned, expected)
        text, cache = player.text[: player.num_known + 1], self.memory.cache
        self.part("release_finished")(self.memory, player.holding, text, owned)
        self.players.remove(player)
        self.published.append(tuple(text[:owned]))
        if cache is not None:
            units = max(owned - self.device.num_draft_ahead, 0)
            found = cache.match(self.key(text[:owned])).slots
            whole = units // self.size * self.size
            require(len(found) == whole, "cached positions of a request that ended", len(found), whole)

    def retract(self, player: Player) -> None:
        """Retract a request; what it has output stays."""
        before = player.holding.books.num_retractions
        self.part("release_retracted")(self.memory, player.holding)
        books = player.holding.books
        got = (books.num_protected, books.num_committed, books.num_allocated, books.row, books.is_retracted)
        require(got == (0, 0, 0, 0, True), "books of a retracted request", got, (0, 0, 0, 0, True))
        require(books.num_retractions == before + 1, "num_retractions", books.num_retractions, before + 1)
        self.players.remove(player)
        del player.text[player.num_known + 1 :]
        player.num_true = player.num_known = player.num_filled = 0
        self.waiting.append(player)

    def key(self, text: Sequence[int]) -> list[Any]:
        """Return the key of a text."""
        return list(itertools.pairwise(text)) if self.history.has_pair_keys else list(text)

    def refused(self, reason: Reason, call: Any) -> None:
        """Make a call that has to be refused, with nothing changed but what the cache has forgotten."""
        books = [replace(one.holding.books) for one in self.players]
        try:
            call()
        except SpecRejection as refusal:
            require(refusal.reason is reason, "reason of the refusal", refusal.reason.name, reason.name)
        else:
            require(False, "a call that is to be refused", "taken", reason.name)
        after = [one.holding.books for one in self.players]
        require(after == books, "books after a refusal", after, books)
