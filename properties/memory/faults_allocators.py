"""Faults in what hands out slots, pages and rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.counts import ceil_to
from specsim.properties.mutants.record import Mutant, overriding
from specsim.simulation.memory.protocols import Snapshot

Method = Callable[..., Any]


def _returned_after(correct: Method, self: Any, slots: Sequence[int]) -> None:
    self._free.append(sorted(self._pages_of(slots)))


def _returned_as_named(correct: Method, self: Any, slots: Sequence[int]) -> None:
    self._free.prepend(list(dict.fromkeys(slot // self.page_size for slot in slots)))


def _returned_once_a_slot(correct: Method, self: Any, slots: Sequence[int]) -> None:
    self._free.prepend(sorted(slot // self.page_size for slot in slots))


def _returned_when_named_whole(correct: Method, self: Any, slots: Sequence[int]) -> None:
    pages = [slot // self.page_size for slot in slots]
    correct(self, [slot for slot in slots if pages.count(slot // self.page_size) == self.page_size])


def _twice_is_owned(correct: Method, self: Any, slots: Sequence[int]) -> None:
    correct(self, list(dict.fromkeys(slots)))


def _the_group_is_forgotten(correct: Method, self: Any, slots: Sequence[int]) -> None:
    correct(self, slots[len(self.freed_in_group) :])


def _freed_at_once(correct: Method, self: Any, slots: Any) -> None:
    group, self._group = self._group, None
    try:
        correct(self, slots)
    finally:
        self._group = group


def _kept_as_a_view(correct: Method, self: Any, slots: Any) -> None:
    """Keep the caller's own list while a group is open."""
    if self._group is None:
        correct(self, slots)
        return
    collected = list(self._group)
    correct(self, slots)
    self._group = collected
    self.views = [*vars(self).get("views", ()), slots]


def _views_are_read(correct: Method, self: Any) -> None:
    """Read the lists that were kept, whatever they hold by then."""
    if self._group is not None:
        self._group.extend(slot for view in vars(self).pop("views", ()) for slot in view)
    correct(self)


def _ends_with_the_last_call(correct: Method, self: Any) -> None:
    if self._group:
        del self._group[:-1]
    correct(self)


def _ends_in_calls(correct: Method, self: Any) -> None:
    """Free what was collected slot by slot, so that the order is that of single calls."""
    collected = list(self.freed_in_group)
    if self._group:
        self._group = []
    correct(self)
    for slot in collected:
        if slot // self.page_size in self._free.owned:
            self._order([slot])


def _nested(correct: Method, self: Any) -> None:
    self._group = []


def _stays_open(correct: Method, self: Any) -> None:
    correct(self)
    self._group = []


def _staged_counts_as_free(correct: Method, self: Any) -> int:
    return int(correct(self)) + len(self.freed_in_group)


def _restored_sorted(correct: Method, self: Any, before: Snapshot) -> None:
    correct(self, replace(before, free=tuple(sorted(before.free))))


def _restored_after(correct: Method, self: Any, before: Snapshot) -> None:
    """Put what was handed out back like any other free."""
    handed_out = [page for page in before.free if page in self._free.owned]
    correct(self, before)
    self._free.replace([page for page in before.free if page not in handed_out] + handed_out, before.owned)


def _restored_without_owners(correct: Method, self: Any, before: Snapshot) -> None:
    owned = set(self._free.owned)
    correct(self, before)
    self._free.replace(before.free, owned)


def _restored_without_its_group(correct: Method, self: Any, before: Snapshot) -> None:
    correct(self, before)
    if self._group is not None:
        self._group = []


def _handed_out_from_the_back(correct: Method, self: Any, *arguments: Any) -> Any:
    self._free.numbers.reverse()
    try:
        return correct(self, *arguments)
    finally:
        self._free.numbers.reverse()


def _what_there_is(correct: Method, self: Any, count: int) -> Any:
    """Hand out what is left where less is free than asked for."""
    return correct(self, min(count, self.num_free))


def _handed_out_and_free(correct: Method, self: Any, *arguments: Any) -> Any:
    """Leave the last page that was handed out in the free list, too."""
    before = self.free_pages
    given = correct(self, *arguments)
    taken = len(before) - len(self._free)
    if taken:
        self._free.numbers.appendleft(before[taken - 1])
    return given


Lists = Sequence[int]


def _last_page_is_left(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    """Begin with a page where the last one has room."""
    size = self.page_size
    aligned = [ceil_to(prefix, size) for prefix in prefixes]
    moved = [max(end, start) for end, start in zip(ends, aligned, strict=True)]
    return correct(self, aligned, moved, [-1 if not start else size * 2 - 1 for start in aligned])


def _last_slot_again(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    """Begin at the last slot where it is not the last of its page."""
    given = correct(self, prefixes, ends, last_slots)
    for slots, prefix, last in zip(given, prefixes, last_slots, strict=True):
        room = -prefix % self.page_size
        slots[:room] = [slot - 1 for slot in slots[:room]] if last >= 0 else slots[:room]
    return given


def _first_request_last(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    return correct(self, prefixes[::-1], ends[::-1], last_slots[::-1])[::-1]


def _one_page_for_all(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    """Give the second request of a batch the first page of the first one."""
    given = correct(self, prefixes, ends, last_slots)
    fresh = [slots for slots, prefix in zip(given, prefixes, strict=True) if slots and prefix % self.page_size == 0]
    if len(fresh) > 1:
        count = min(self.page_size, len(fresh[0]), len(fresh[1]))
        fresh[1][:count] = fresh[0][:count]
    return given


def _page_too_many(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    """Take a page more where the last one is filled exactly."""
    given = correct(self, prefixes, ends, last_slots)
    if any(end > prefix and end % self.page_size == 0 for prefix, end in zip(prefixes, ends, strict=True)):
        self._free.take(min(1, len(self._free)))
    return given


def _unchecked(correct: Method, self: Any, *arguments: Any) -> None:
    return None


def _lost_when_short(correct: Method, self: Any, prefixes: Lists, ends: Lists, last_slots: Lists) -> Any:
    """Take pages request by request, and keep those of the first ones when they do not last for all."""
    pairs = zip(prefixes, ends, last_slots, strict=True)
    return [correct(self, [prefix], [end], [last])[0] for prefix, end, last in pairs]


def _row_from_the_back(correct: Method, self: Any, count: int) -> Any:
    self._rows.numbers.reverse()
    try:
        return correct(self, count)
    finally:
        self._rows.numbers.reverse()


def _row_zero_is_given(correct: Method, self: Any, count: int) -> Any:
    return [row - 1 for row in correct(self, count)]


def _row_returned_first(correct: Method, self: Any, rows: Any) -> None:
    self._rows.require_owned(list(rows))
    self._rows.prepend(list(rows))


def _row_stays_owned(correct: Method, self: Any, rows: Any) -> None:
    returned = list(rows)
    correct(self, returned)
    self._rows.owned.update(returned[:1])


Row = tuple[int, str, dict[str, Method]]

_ANY: tuple[Row, ...] = (
    (1, "Anything may be freed.", {"_require_owned": lambda correct, self, slots: None}),
    (2, "A slot that is named twice is freed.", {"_require_owned": _twice_is_owned}),
    (3, "What a group has collected may be freed again.", {"_require_owned": _the_group_is_forgotten}),
    (4, "What is freed in a group is free at once.", {"free": _freed_at_once}),
    (
        5,
        "A group keeps the caller's list, not its slots.",
        {"free": _kept_as_a_view, "end_free_group": _views_are_read},
    ),
    (6, "A group frees the last slot that it has collected alone.", {"end_free_group": _ends_with_the_last_call}),
    (7, "A group never closes.", {"end_free_group": _stays_open}),
    (8, "A group begins inside another and forgets what that has collected.", {"begin_free_group": _nested}),
    (9, "What a group has collected counts as free.", {"num_free": _staged_counts_as_free}),
    (10, "A backup is put back in another order.", {"restore": _restored_sorted}),
    (11, "What was borrowed lines up after the free pages.", {"restore": _restored_after}),
    (12, "Borrowed pages keep their owner.", {"restore": _restored_without_owners}),
    (13, "A backup is the live list, so that nothing is put back.", {"restore": lambda correct, self, before: None}),
    (14, "A backup forgets what the open group has collected.", {"restore": _restored_without_its_group}),
    (15, "Pages for a batch come from the back of the free list.", {"extend": _handed_out_from_the_back}),
    (16, "A page stays free although it was handed out.", {"extend": _handed_out_and_free}),
    (17, "The last request of a batch gets its pages first.", {"extend": _first_request_last}),
    (18, "Two requests of a batch share their first page.", {"extend": _one_page_for_all}),
    (19, "A batch that finds no room keeps the pages of its first requests.", {"extend": _lost_when_short}),
    (20, "Pages come from the back of the free list.", {"allocate": _handed_out_from_the_back}),
    (21, "What is left is handed out where more was asked for.", {"allocate": _what_there_is}),
    (22, "The lengths and last slots of a batch are not looked at.", {"_check_extend": _unchecked}),
)
"""Faults that both allocators can have."""

_SLOTS: tuple[Row, ...] = (
    (23, "Slots that return go out first.", {"_order": lambda correct, self, slots: self._free.prepend(slots)}),
    (24, "Slots return sorted.", {"_order": lambda correct, self, slots: correct(self, sorted(slots))}),
)
_PAGES: tuple[Row, ...] = (
    (23, "Pages that return go out last.", {"_order": _returned_after}),
    (24, "Pages return as they are named.", {"_order": _returned_as_named}),
    (25, "A page returns once for each slot that names it.", {"_order": _returned_once_a_slot}),
    (26, "A page returns when all of its slots are named.", {"_order": _returned_when_named_whole}),
    (27, "A group frees slot by slot.", {"end_free_group": _ends_in_calls}),
    (28, "A request leaves its last page unfilled.", {"extend": _last_page_is_left}),
    (29, "A request gets its last slot again.", {"extend": _last_slot_again}),
    (30, "A page more is taken where a page ends.", {"extend": _page_too_many}),
)
_ROWS: tuple[Row, ...] = (
    (1, "A row that no one has may be freed.", {"free": lambda correct, self, rows: self._rows.append(list(rows))}),
    (2, "Rows come from the back.", {"allocate": _row_from_the_back}),
    (3, "Rows that return go out first.", {"free": _row_returned_first}),
    (4, "The padding row is given to a request.", {"allocate": _row_zero_is_given}),
    (5, "A row that returns keeps its owner.", {"free": _row_stays_owned}),
)

MUTANTS = tuple(
    Mutant(f"OWN-{first + number}", part, summary, overriding(**faults))
    for part, first, rows in (
        ("SlotAllocator", 1000, (*_ANY, *_SLOTS)),
        ("PageAllocator", 1030, (*_ANY, *_PAGES)),
        ("RowAllocator", 1060, _ROWS),
    )
    for number, summary, faults in rows
)
