"""What holds of an engine's memory at any time, counted without its ledger."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.player import MemoryState


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
