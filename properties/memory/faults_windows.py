"""Faults in slots of a sliding window: stale, early, late, lost on a rare path, shared by two."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.counts import ceil_to
from specsim.properties.mutants.record import Function, Mutant, Named, answering, overriding, unchanged
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.memory import Holding, Memory, SlotRange, Snapshot
from specsim.simulation.models.description import Side

Method = Callable[..., Any]


def _full_slots_alone(correct: Method, self: Any, slots: Any) -> None:
    self._full.free(list(slots))


def _map_is_kept(correct: Method, self: Any, slots: Sequence[int]) -> None:
    before = self._map.copy()
    correct(self, slots)
    self._map[:] = before


def _cleared_alone(correct: Method, self: Any, slots: Sequence[int]) -> None:
    """Clear the map and give nothing back."""
    self._map[list(slots)] = 0


def _one_page_more(correct: Method, self: Any, slots: Sequence[int]) -> None:
    """Evict the page that was mapped after the last one, too."""
    correct(self, slots)
    size, mapped = self.page_size, [slot for slot in range(len(self._map)) if self._map[slot]]
    after = [slot for slot in mapped if slots and slot > max(slots)][:size]
    correct(self, after)


def _shared_by_a_batch(correct: Method, self: Any, firsts: Sequence[int], before: Snapshot) -> None:
    """Give the second page of a call the SWA page of the first."""
    correct(self, firsts, before)
    size = self.page_size
    if len(firsts) > 1:
        self._map[firsts[1] : firsts[1] + size] = self._map[firsts[0] : firsts[0] + size]


def _full_slots_are_kept(correct: Method, self: Any, firsts: Sequence[int], before: Snapshot) -> None:
    """Keep the full slots where SWA slots run out."""
    correct(self, firsts, self._full.backup())


def _one_slot_early(correct: Method, self: Any, firsts: Sequence[int], before: Snapshot) -> None:
    correct(self, firsts, before)
    self._map[[first + place for first in firsts for place in range(self.page_size)]] -= 1


def _pages_alone(correct: Method, self: Any, firsts: Sequence[int], before: Snapshot) -> None:
    """Map the first slot of every page alone."""
    correct(self, firsts, before)
    self._map[[first + place for first in firsts for place in range(1, self.page_size)]] = 0


def _partner_is_not_restored(correct: Method, self: Any, before: Snapshot) -> None:
    self._full.restore(replace(before, swa=None))
    if before.swa is not None:
        self._map[:] = before.swa.full_to_swa


def _map_is_not_restored(correct: Method, self: Any, before: Snapshot) -> None:
    kept = self._map.copy()
    correct(self, before)
    self._map[:] = kept


def _evicted_since(correct: Method, self: Any, before: Snapshot) -> None:
    """Put the full slots back, whatever was evicted since the backup."""
    self._full.restore(replace(before, swa=None))
    if before.swa is not None:
        self._swa._free.replace(before.swa.pages.free, before.swa.pages.owned)
        self._map[:] = before.swa.full_to_swa


def _giver_keeps(correct: Method, self: Any, slots: Sequence[int], to: Sequence[int]) -> None:
    given = self._map[list(slots)]
    correct(self, slots, to)
    self._map[list(slots)] = given


def _taker_gets_nothing(correct: Method, self: Any, slots: Sequence[int], to: Sequence[int]) -> None:
    correct(self, slots, to)
    self._map[list(to)] = 0


def _end_of_one_pool(correct: Method, self: Any) -> None:
    self._full.end_free_group()


def _unseen(correct: Any, self: Any, *arguments: Any) -> None:
    return None


def _from_another_position(by: int) -> Callable[[Function], Function]:
    return answering(lambda correct, named: correct(**{**named, "next_position": max(0, named["next_position"] + by)}))


def _rounded_up(correct: Function, named: Named) -> int:
    size = named["page_size"]
    after = int(correct(**{**named, "page_size": 1}))
    return int(ceil_to(after, size))


def _slots_alone(correct: Function, named: Named) -> int:
    return int(correct(**{**named, "page_size": 1}))


def _from_the_last_position(correct: Function, named: Named) -> Any:
    """Judge by the last position that the batch writes, not by its first."""
    holding: Holding = named["holding"]
    return correct(**{**named, "next_position": holding.books.num_allocated})


def _not_where_it_is_ahead(correct: Function, named: Named) -> Any:
    """Leave out those that allocate ahead."""
    books = named["holding"].books
    return [] if books.num_allocated > books.num_committed else correct(**named)


def _not_in_a_prompt(correct: Function, named: Named) -> Any:
    """Leave out those that allocate nothing ahead, as in a prompt and on V1."""
    books = named["holding"].books
    return [] if books.num_allocated == books.num_committed else correct(**named)


def _cached_ones_too(correct: Function, named: Named) -> Any:
    """Take what the prefix cache has, too."""
    holding: Holding = named["holding"]
    books = holding.books
    holding.books = replace(books, num_protected=0)
    lost = correct(**named)
    holding.books = replace(holding.books, num_protected=books.num_protected)
    return lost


def _without_a_report(correct: Function, named: Named) -> Any:
    correct(**named)
    return []


def _last_is_not_reported(correct: Function, named: Named) -> Any:
    return correct(**named)[:-1]


def _without_windows(correct: Function, named: Named) -> Any:
    memory: Memory = named["memory"]
    return correct(**{**named, "memory": replace(memory, swa=None)})


def _count_is_kept(correct: Function, named: Named) -> Any:
    """Keep how far the window of a retracted request had come."""
    holding: Holding = named["holding"]
    num_evicted = holding.num_evicted
    correct(**named)
    holding.num_evicted = num_evicted


class _MovesFullSlots(Pools):
    """Pools that move what lies in full slots alone."""

    def move_kv(self, side: Side, target_slots: Any, source_slots: Any, operations: Any) -> None:
        """Copy slots of every buffer of a side that has full slots."""
        Pools.move_kv(replace(self, swa_kv={}), side, target_slots, source_slots, operations)


class _KeepsTheMap(Pools):
    """Pools whose map of slots is written once."""

    def assign_slots(self, ranges: Sequence[SlotRange], operations: Any) -> None:
        """Write SWA slots where there were none."""
        known = self.full_to_swa.copy()
        super().assign_slots(ranges, operations)
        self.full_to_swa[known > 0] = known[known > 0]


class _MapsByPlace(Pools):
    """Pools that take full slots for SWA slots, as far as there are so many."""

    def window_keys(self, page_table: Any, out_cache_loc: Any) -> Any:
        """Return full slots."""
        keys = super().window_keys(page_table, out_cache_loc)
        if keys is None:
            return None
        num_slots = len(next(iter(self.swa_kv.values()))[0])
        return replace(keys, out_cache_loc=out_cache_loc % num_slots, page_table=page_table % num_slots)


_ALLOCATOR: tuple[tuple[int, str, dict[str, Method]], ...] = (
    (1200, "A slot that is freed loses its SWA slot.", {"free": _full_slots_alone}),
    (1201, "The map keeps what was freed.", {"_take": _map_is_kept}),
    (1202, "What is evicted is forgotten, not freed.", {"evict": _cleared_alone}),
    (1203, "A page more is evicted.", {"evict": _one_page_more}),
    (1204, "Two pages of a batch share an SWA page.", {"_give": _shared_by_a_batch}),
    (1205, "Where SWA slots run out, full slots are lost.", {"_give": _full_slots_are_kept}),
    (1206, "SWA slots are one early, so that the first is the dump.", {"_give": _one_slot_early}),
    (1207, "The first slot of a page alone is mapped.", {"_give": _pages_alone}),
    (1208, "Borrowed SWA slots keep their owner.", {"restore": _partner_is_not_restored}),
    (1209, "The map keeps what was borrowed.", {"restore": _map_is_not_restored}),
    (1210, "A backup brings back what was evicted since.", {"restore": _evicted_since}),
    (1211, "Full slots alone count as free.", {"num_free": lambda correct, self: int(self._full.num_free)}),
    (1212, "Who hands an SWA slot over keeps it.", {"hand_over": _giver_keeps}),
    (1213, "An SWA slot that is handed over reaches no one.", {"hand_over": _taker_gets_nothing}),
    (
        1214,
        "SWA slots that are freed in a group are free at once.",
        {"begin_free_group": lambda correct, self: self._full.begin_free_group(), "end_free_group": _end_of_one_pool},
    ),
    (1215, "Part of a page is evicted.", {"_check_pages": lambda correct, self, slots: None}),
)

_EVICT, _COUNT = "evict_behind_window", "num_behind_window"
_ROWS: tuple[tuple[str, str, str, Callable[[Function], Function]], ...] = (
    ("K14", _EVICT, "Who allocates ahead never evicts.", answering(_not_where_it_is_ahead)),
    ("K21", _EVICT, "The last position of a batch decides.", answering(_from_the_last_position)),
    ("OWN-1220", _COUNT, "A position is evicted one early.", _from_another_position(1)),
    ("OWN-1221", _COUNT, "A position is evicted one late.", _from_another_position(-1)),
    ("OWN-1222", _COUNT, "A page goes when its first position does.", answering(_rounded_up)),
    ("OWN-1223", _COUNT, "Slots go one by one, whatever the page.", answering(_slots_alone)),
    ("OWN-1224", _EVICT, "Nothing is evicted between chunks.", answering(_not_in_a_prompt)),
    ("OWN-1225", _EVICT, "What the cache has is evicted.", answering(_cached_ones_too)),
    ("OWN-1226", _EVICT, "The worker does not learn what went.", answering(_without_a_report)),
    ("OWN-1227", _EVICT, "The worker does not learn of the last.", answering(_last_is_not_reported)),
    ("OWN-1228", "admit_request", "A hit counts although its window is gone.", answering(_without_windows)),
    ("OWN-1229", "publish_prefix", "A cached slot without a window replaces one with.", answering(_without_windows)),
    ("OWN-1230", "release_retracted", "A retracted request counts as evicted.", answering(_count_is_kept)),
    ("OWN-1231", "Ledger", "SWA slots are not counted.", overriding(_check_swa=_unseen)),
    ("OWN-1232", "Ledger", "Windows are not looked at.", overriding(_check_window=_unseen)),
)

_POOLS: tuple[tuple[str, str, type[Pools]], ...] = (
    ("OWN-1240", "The accepted path moves in full slots alone.", _MovesFullSlots),
    ("OWN-1241", "A slot that is used again keeps its SWA slot of before.", _KeepsTheMap),
    ("OWN-1242", "Full slots are taken for SWA slots.", _MapsByPlace),
)

MUTANTS = (
    *(Mutant(f"OWN-{number}", "SwaAllocator", summary, overriding(**faults)) for number, summary, faults in _ALLOCATOR),
    *(Mutant(*row) for row in _ROWS),
    *(
        Mutant(number, "translate_move_slots", summary, unchanged, partial(ReferenceWorker, make_pools=kind.of))
        for number, summary, kind in _POOLS
    ),
)
