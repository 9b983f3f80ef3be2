"""Faults in slots of a sliding window: stale, early, late, lost on a rare path, shared by two."""

from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.record import edits_of, edits_of_pools

MUTANTS = (
    *edits_of(
        """
        @@ SwaAllocator
        OWN-1200 A slot that is freed loses its SWA slot.
        - self._take([slot for slot in returned if self._map[slot]])
        OWN-1201 The map keeps what was freed.
        - self._map[[page * size + place for page in pages for place in range(size)]] = UNMAPPED
        OWN-1202 What is evicted is forgotten, not freed.
        - self._take(slots) => self._map[list(slots)] = UNMAPPED
        OWN-1203 A page more is evicted.
        - self._take(slots)
        + self._take(slots)
        + mapped = [slot for slot in range(len(self._map)) if self._map[slot]]
        + self._take([slot for slot in mapped if slots and slot > max(slots)][: self.page_size])
        OWN-1204 Two pages of a batch share an SWA page.
          swa_slots = self._swa.allocate(len(firsts) * size)
        + if len(firsts) > 1:
        +     swa_slots[size : 2 * size] = swa_slots[:size]
        OWN-1205 Where SWA slots run out, full slots are lost.
        - self._full.restore(before)
        - raise
        + raise
        OWN-1206 SWA slots are one early, so that the first is the dump.
        - self._swa.allocate(len(firsts) * size)
        + [slot - 1 for slot in self._swa.allocate(len(firsts) * size)]
        OWN-1207 The first slot of a page alone is mapped.
        - self._swa.allocate(len(firsts) * size)
        + [UNMAPPED if slot % size else slot for slot in self._swa.allocate(len(firsts) * size)]
        OWN-1208 Borrowed SWA slots keep their owner.
        - self._swa.restore(before.swa.pages)
        OWN-1209 The map keeps what was borrowed.
        - self._map[:] = before.swa.full_to_swa
        OWN-1210 A backup brings back what was evicted since.
        - if freed:
        -     raise double_free("SWA page", freed)
        ...
        - self._swa.restore(before.swa.pages)
        + self._swa._free.replace(before.swa.pages.free, before.swa.pages.owned)
        OWN-1211 Full slots alone count as free.
        - min(self._full.num_free, self._swa.num_free) => self._full.num_free
        OWN-1212 Who hands an SWA slot over keeps it.
        - self._map[list(slots)] = UNMAPPED
        OWN-1213 An SWA slot that is handed over reaches no one.
        - self._map[list(to)] = self._map[list(slots)]
        OWN-1214 SWA slots that are freed in a group are free at once.
        - self._swa.begin_free_group()
        ...
        - self._swa.end_free_group()
        OWN-1215 Part of a page is evicted.
        - whole != set(slots) => False
        @@ evict_behind_window
        K14 Who allocates ahead never evicts.
        - memory.swa is None => memory.swa is None or holding.books.num_allocated > holding.books.num_committed
        K21 The last position of a batch decides.
        - next_position => holding.books.num_allocated
        OWN-1224 Nothing is evicted between chunks.
        - memory.swa is None => memory.swa is None or holding.books.num_allocated == holding.books.num_committed
        OWN-1225 What the cache has is evicted.
        - holding.books.num_protected => 0
        OWN-1226 The worker does not learn what went.
        - return slots => return []
        OWN-1227 The worker does not learn of the last.
        - return slots => return slots[:-1]
        @@ num_behind_window
        OWN-1220 A position is evicted one early.
        - next_position => next_position + 1
        OWN-1221 A position is evicted one late.
        - next_position => next_position - 1
        OWN-1222 A page goes when its first position does.
        - floor_to => ceil_to
        OWN-1223 Slots go one by one, whatever the page.
        - page_size => 1
        @@ admit_request in match_prefix
        OWN-1228 A hit counts although its window is gone.
        - reachable_match(memory, found) => len(found.slots)
        @@ publish_prefix
        OWN-1229 A cached slot without a window replaces one with.
        - save_window(memory, duplicates, found.slots[start:num_cached])
        @@ release_retracted in _give_back
        OWN-1230 A retracted request counts as evicted.
        - holding.slots, holding.node, holding.num_evicted = [], None, 0
        + holding.slots, holding.node = [], None
        @@ Ledger
        OWN-1231 SWA slots are not counted.
        - self._check_swa(holdings)
        OWN-1232 Windows are not looked at.
        - self._check_window(f"request {name}", holding, [given[slot] > 0 for slot in holding.slots])
        """
    ),
    *edits_of_pools(
        [EAGLE_V2],
        """
        @@ translate_move_slots in Pools
        OWN-1240 The accepted path moves in full slots alone.
        - side is Side.TARGET and len(self.swa_kv) > 0 => False
        OWN-1241 A slot that is used again keeps its SWA slot of before.
        - self.full_to_swa[[*given.slots, *given.remapped]] = given.swa_slots
        + known = self.full_to_swa.copy()
        + self.full_to_swa[[*given.slots, *given.remapped]] = given.swa_slots
        + self.full_to_swa[known > 0] = known[known > 0]
        OWN-1242 Full slots are taken for SWA slots.
        - self.full_to_swa[out_cache_loc] => out_cache_loc % len(next(iter(self.swa_kv.values()))[0])
        - self.full_to_swa[page_table] => page_table % len(next(iter(self.swa_kv.values()))[0])
        """,
    ),
)
