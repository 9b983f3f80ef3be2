"""Faults in what hands out slots, pages and rows."""

from collections.abc import Iterator
from dataclasses import replace

from specsim.properties.mutants.record import Mutant, edits_of

_OF_BOTH = """
    1 Anything may be freed.
    - self._require_owned([*self.freed_in_group, *returned])
    2 A slot that is named twice is freed.
    - if len(set(slots)) < len(slots):
    -     raise double_free("slot", twice(slots))
    3 What a group has collected may be freed again.
    - [*self.freed_in_group, *returned] => returned
    4 What is freed in a group is free at once.
    - if self._group is None:
    -     self._order(returned)
    - else:
    -     self._group.extend(returned)
    + self._order(returned)
    5 A group keeps the caller's list, not its slots.
    - self._group.extend(returned) => self.views = [*vars(self).get("views", ()), slots]
    - collected, self._group = self._group, None
    + collected, self._group = [slot for view in vars(self).pop("views", ()) for slot in view], None
    6 A group frees the last slot that it has collected alone.
    - self._order(collected) => self._order(collected[-1:])
    7 A group never closes.
    - collected, self._group = self._group, None => collected, self._group = self._group, []
    8 A group begins inside another and forgets what that has collected.
    - if self._group is not None:
    -     raise _misplaced("open already", "closed", "groups do not nest")
    9 What a group has collected counts as free.
    - len(self._free) * self._page_size => len(self._free) * self._page_size + len(self.freed_in_group)
    10 A backup is put back in another order.
    - self._free.replace(before.free, before.owned) => self._free.replace(sorted(before.free), before.owned)
    11 What was borrowed lines up after the free pages.
    - self._free.replace(before.free, before.owned)
    + self._free.replace(sorted(before.free, key=self._free.owned.__contains__), before.owned)
    12 Borrowed pages keep their owner.
    - self._free.replace(before.free, before.owned) => self._free.replace(before.free, self._free.owned)
    13 A backup is the live list, so that nothing is put back.
    - freed = before.owned - self._free.owned => return
    14 A backup forgets what the open group has collected.
      self._free.replace(before.free, before.owned)
    + self._group = None if self._group is None else []
    15 Pages for a batch come from the back of the free list.
      self._free.check(sum(wanted))
    + self._free.numbers.reverse()
    - return given
    + self._free.numbers.reverse()
    + return given
    16 A page stays free although it was handed out.
      self._free.check(sum(wanted))
    + last = self.free_pages[sum(wanted) - 1 : sum(wanted)]
    - return given
    + self._free.numbers.extendleft(last)
    + return given
    17 The last request of a batch gets its pages first.
    - zip(prefixes, ends, last_slots, wanted, strict=True)
    + list(zip(prefixes, ends, last_slots, wanted, strict=True))[::-1]
    - return given => return given[::-1]
    18 Two requests of a batch share their first page.
    - return given
    + fresh = [row for row, prefix in zip(given, prefixes) if row and prefix % self._page_size == 0]
    + for row in fresh[1:2]:
    +     count = min(self._page_size, len(fresh[0]), len(row))
    +     row[:count] = fresh[0][:count]
    + return given
    19 A batch that finds no room keeps the pages of its first requests.
    - self._check_extend(prefixes, ends, last_slots)
    + if not len(prefixes) == len(ends) == 1:
    +     requests = zip(prefixes, ends, last_slots, strict=True)
    +     return [self.extend([prefix], [end], [last])[0] for prefix, end, last in requests]
    + self._check_extend(prefixes, ends, last_slots)
    20 Pages come from the back of the free list.
    - return self._slots_of(self._free.take(count // self._page_size))
    + self._free.numbers.reverse()
    + try:
    +     return self._slots_of(self._free.take(count // self._page_size))
    + finally:
    +     self._free.numbers.reverse()
    21 What is left is handed out where more was asked for.
    - self._free.take(count // self._page_size)
    + self._free.take(min(count // self._page_size, len(self._free)))
    22 The lengths and last slots of a batch are not looked at.
    - self._check_extend(prefixes, ends, last_slots)
    """

_OF_SLOTS = """
    @@ SlotAllocator
    23 Slots that return go out first.
    - self._free.append(slots) => self._free.prepend(slots)
    24 Slots return sorted.
    - self._free.append(slots) => self._free.append(sorted(slots))
    """

_OF_PAGES = """
    @@ PageAllocator
    23 Pages that return go out last.
    - self._free.prepend(sorted(self._pages_of(slots))) => self._free.append(sorted(self._pages_of(slots)))
    24 Pages return as they are named.
    - self._free.prepend(sorted(self._pages_of(slots)))
    + self._free.prepend(list(dict.fromkeys(slot // self._page_size for slot in slots)))
    25 A page returns once for each slot that names it.
    - self._free.prepend(sorted(self._pages_of(slots)))
    + self._free.prepend(sorted(slot // self._page_size for slot in slots))
    26 A page returns when all of its slots are named.
    - self._free.prepend(sorted(self._pages_of(slots)))
    + pages = [slot // self._page_size for slot in slots]
    + self._free.prepend(sorted({page for page in pages if pages.count(page) == self._page_size}))
    @@ PageAllocator in PagedAllocator
    27 A group frees slot by slot.
    - self._order(collected)
    + for slot in collected:
    +     if slot // self._page_size in self._free.owned:
    +         self._order([slot])
    28 A request leaves its last page unfilled.
    - range(last + 1, last + 1 + in_last_page) => ()
    - given.append(slots[: end - prefix]) => given.append(slots[: end - prefix - in_last_page])
    29 A request gets its last slot again.
    - range(last + 1, last + 1 + in_last_page) => range(last, last + in_last_page)
    30 A page more is taken where a page ends.
    - return given
    + if any(end > prefix and end % self._page_size == 0 for prefix, end in zip(prefixes, ends)):
    +     self._free.take(min(1, len(self._free)))
    + return given
    """

_OF_ROWS = """
    @@ RowAllocator
    1 A row that no one has may be freed.
    - self._rows.require_owned(returned)
    2 Rows come from the back.
    - return self._rows.take(count)
    + self._rows.numbers.reverse()
    + try:
    +     return self._rows.take(count)
    + finally:
    +     self._rows.numbers.reverse()
    3 Rows that return go out first.
    - self._rows.append(returned) => self._rows.prepend(returned)
    4 The padding row is given to a request.
    - self._rows.take(count) => [row - 1 for row in self._rows.take(count)]
    5 A row that returns keeps its owner.
      self._rows.append(returned)
    + self._rows.owned.update(returned[:1])
    """


def _numbered(first: int, *diffs: str) -> Iterator[Mutant]:
    """Yield mutants whose numbers begin at one."""
    for mutant in edits_of("".join(diffs)):
        yield replace(mutant, id=f"OWN-{first + int(mutant.id)}")


MUTANTS = (
    *_numbered(1000, "    @@ SlotAllocator in PagedAllocator", _OF_BOTH, _OF_SLOTS),
    *_numbered(1030, "    @@ PageAllocator in PagedAllocator", _OF_BOTH, _OF_PAGES),
    *_numbered(1060, _OF_ROWS),
)
