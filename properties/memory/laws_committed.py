"""Laws of what leaves memory: committed tokens with what was written for them, whole pages, kept until they arrive."""

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import refuses, require, require_same, state
from specsim.properties.memory import strategy_committed
from specsim.properties.memory.beside import play_beside, require_all
from specsim.properties.memory.exported import Known, Watched, require_committed
from specsim.properties.memory.play import MemoryPlay
from specsim.properties.memory.player import MemoryState, Player
from specsim.properties.memory.strategy import Event, MemoryHistory, memory_histories
from specsim.rejection import Reason
from specsim.simulation.memory import Export, ExportLengths, Exports, Holding


class ExportsPlay:
    """What keeps pages that are on their way, the dictionaries beside it, and texts whose pages leave."""

    def __init__(self, exports: Exports, size: int) -> None:
        self.exports, self.size = exports, size
        self.texts: dict[Hashable, list[int]] = {}
        self.left: dict[Hashable, list[int]] = {}
        self.read: dict[int, list[int]] = {}
        self.late: list[int] = []
        self.next_page = 1

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        name, number = event.requests[0], event.counts[0]
        pages = self.texts.setdefault(name, [])
        match event.what:
            case "grow":
                pages += range(self.next_page, self.next_page + number % 3)
                self.next_page += number % 3
                self.begin(name, event.counts[1] % self.size)
            case "back":
                del pages[max(0, len(pages) - number % 3) :]
                self.begin(name, 0)
            case "other":
                kept = len(pages) // 2
                pages[kept:] = range(self.next_page, self.next_page + len(pages) - kept)
                self.next_page += len(pages)
                self.begin(name, 0)
            case "share":
                pages[:] = self.texts.get(event.requests[-1], [])
                self.begin(name, 0)
            case "free" if pages:
                page = pages.pop()
                if not any(page in others for others in self.texts.values()):
                    self.free(page)
            case "end" if self.read:
                self.arrive(sorted(self.read)[number % len(self.read)])
            case "refused":
                refuses(Reason.DOUBLE_FREE, partial(self.exports.end, max(self.read, default=0) + 1000))

    def begin(self, name: Hashable, rest: int) -> None:
        """Let a text of whole pages and a rest leave; pages that left before, at the same place, do not leave again."""
        pages, size = self.texts[name], self.size
        slots = self._slots(pages)
        beyond = [self.next_page * size + place for place in range(rest)]
        count = len(slots) + len(beyond)
        export = Export((0,) * count, (*slots, *beyond), ExportLengths(count, count), len(pages))
        before = self.left.get(name, [])
        num_same = 0
        while num_same < min(len(before), len(pages)) and before[num_same] == pages[num_same]:
            num_same += 1
        transfer = self.exports.begin(name, export)
        require_same(f"slots that leave of {name}", transfer.slots, tuple(slots[num_same * size :]))
        require(transfer.number not in self.read, "number of a transfer", transfer.number, "another one")
        self.left[name], self.read[transfer.number] = list(pages), pages[num_same:]

    def free(self, page: int) -> None:
        """Give a page back, which stays while a transfer reads it."""
        slots = self._slots([page])
        expected = [] if page in self._pages_read() else slots
        got = self.exports.keep(slots)
        require(list(got) == expected, f"slots of page {page} that are free at once", got, expected)
        self.late += [] if expected else slots

    def arrive(self, number: int) -> None:
        """End a transfer; what was given back and no other one reads is free."""
        del self.read[number]
        expected = [slot for slot in self.late if slot // self.size not in self._pages_read()]
        got = self.exports.end(number)
        require(sorted(got) == sorted(expected), f"slots that are free after transfer {number}", got, expected)
        self.late = [slot for slot in self.late if slot not in expected]
        refuses(Reason.DOUBLE_FREE, partial(self.exports.end, number))

    def end(self) -> None:
        """End all transfers, and forget every text."""
        for transfer in sorted(self.read):
            self.arrive(transfer)
        for gone in self.left:
            self.exports.forget(gone)
            require(not self.exports.left_of(gone), f"pages of {gone}, which is forgotten", "some", "none")
        self.left.clear()

    def compare(self, when: str) -> None:
        """Raise AssertionError unless both have the same."""
        require_all(self.seen(), when)

    def seen(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield what the dictionaries have of pages that left and are on their way."""
        for name, pages in self.left.items():
            yield f"pages that have left of {name}", list(self.exports.left_of(name)), self._slots(pages)
        yield "pages on their way", sorted(self.exports.pages), sorted(self._pages_read())
        yield "slots that are given back late", sorted(self.exports.late), sorted(self.late)

    def _pages_read(self) -> set[int]:
        return {page for pages in self.read.values() for page in pages}

    def _slots(self, pages: list[int]) -> list[int]:
        return [page * self.size + place for page in pages for place in range(self.size)]


def whole_pages_of_fed_tokens_leave(backend: Backend, cases: list[strategy_committed.PageCase]) -> None:
    """A page leaves if and only if each of its positions was fed and is left; lengths that contradict are refused."""
    count = backend.host("exportable_pages")
    for case in cases:
        left = [position for position in range(case.num_written) if case.num_final is None or position < case.num_final]
        ask = partial(count, case.num_written, case.num_tokens, case.num_protected, case.page_size, case.num_final)
        if case.num_written >= case.num_tokens:
            refuses(Reason.COUNT_OUT_OF_RANGE, ask)
            continue
        positions_of = Counter(position // case.page_size for position in left)
        expected = sum(number == case.page_size for number in positions_of.values())
        require_same(f"pages of {case} that leave", ask(), expected)
        lengths = (case.num_written, case.num_tokens)
        for wrong in (
            (*lengths, len(left) + 1, case.page_size, case.num_final),
            (*lengths, -1, case.page_size, case.num_final),
            (-1, case.num_tokens, 0, case.page_size, case.num_final),
            (*lengths, case.num_protected, 0, case.num_final),
            (*lengths, case.num_protected, case.page_size, case.num_tokens + 1),
        ):
            refuses(Reason.COUNT_OUT_OF_RANGE, partial(count, *wrong))


def another_engine_loads_what_every_cache_has(backend: Backend, cases: list[strategy_committed.LoadCase]) -> None:
    """All positions before the last token are loaded that every cache has, with all that the next token sees.

    States come with exactly the tokens that they have read. What does not fit is refused.
    """
    count = backend.host("loadable_positions")
    for case in cases:
        ask = partial(count, *vars(case).values())
        there = {position for position in range(case.num_tokens - 1) if position < case.num_target}
        if case.num_draft is not None:
            there &= {*range(case.num_draft)}
        if case.num_states is not None and case.num_states <= len(there):
            there &= {*range(case.num_states)}
        if not there:
            refuses(Reason.COUNT_OUT_OF_RANGE, ask)
            continue
        if case.num_states is not None and case.num_states != len(there):
            refuses(Reason.INCONSISTENT_LENGTHS, ask)
            continue
        seen = [position for position in range(len(there) + 1) if position + case.window > len(there)]
        if any(position - position % case.page_size < case.window_start for position in seen if case.window):
            refuses(Reason.UNMAPPED_SLOT, ask)
            continue
        require_same(f"positions of {case} that are loaded", ask(), len(there))


def what_leaves_memory_is_committed_text(backend: Backend, histories: list[MemoryHistory]) -> None:
    """Whatever happens to requests, what may leave of them is text that is committed, in slots that hold it.

    Drafts and rejected nodes write another tag, which no slot that leaves has in either cache; so do positions that
    are allocated ahead. What is cut off at an end leaves with no one.
    """
    for history in histories:
        play = MemoryPlay(backend, history)
        watched = Watched(backend)
        play.part = watched.host
        for event in history.events:
            watched.leave = partial(_leave, play, event)
            play.happen(event)
            for player in play.players:
                _check(play, player, f"request {player.name} after {event.what}", player.text[: player.num_known + 1])
        watched.leave = partial(_leave, play, Event("abort", (), (0, 0)))
        play.end()


def _leave(play: MemoryState, event: Event, name: str, holding: Holding) -> None:
    player = next(one for one in play.players if one.holding is holding)
    cut = event.counts[1] if event.what == "finish" and name == "release_finished" else 0
    text = player.text[: player.num_known + 1]
    least = max(player.num_fill, holding.books.num_protected)
    _check(play, player, f"request {player.name} that leaves", text[: max(least, len(text) - cut)])


def _check(play: MemoryState, player: Player, what: str, text: list[int]) -> None:
    known, memory = player.num_known, play.memory
    # NOTE: a draft may have caught up on fewer tokens, and a checkpoint lies where it was made.
    num_cached, tokens = player.holding.books.num_protected, max(known + 1, len(text))
    written = ExportLengths(known, max(known - len(text) % 3, num_cached), max(known - len(text) % 2, 0))
    export = play.part("export_text")(memory, player.holding, text, written, tokens)
    num_ahead = memory.num_ahead if memory.has_pair_keys else 0
    require_committed(what, export, Known(text, written, num_ahead, num_cached, play.size))
    for position, slot in enumerate(export.slots):
        of_target, of_draft = play.device.tags(player.text, position)
        got = play.device.target.get(slot)
        require_same(f"tag of slot {slot}, which leaves as position {position} of {what}", got, of_target)
        if position < export.lengths.draft:
            got = play.device.draft.get(slot)
            require_same(f"draft tag of slot {slot} at position {position} of {what}", got, of_draft)
    refused = partial(play.part("export_text"), memory, player.holding, text)
    refuses(Reason.COUNT_OUT_OF_RANGE, partial(refused, ExportLengths(known, known + 1), tokens))
    refuses(Reason.COUNT_OUT_OF_RANGE, partial(refused, ExportLengths(known, known, known + 1), tokens))
    refuses(Reason.COUNT_OUT_OF_RANGE, partial(refused, written, known))


def pages_stay_until_they_have_arrived(backend: Backend, histories: list[strategy_committed.PageHistory]) -> None:
    """A page leaves once, the list of those that left ends where the text does, and none is free while it is read."""
    for history in histories:
        play_beside(ExportsPlay(backend.host("Exports")(history.page_size), history.page_size), history.events)


_EXPORTING = ("export_text", "exportable_pages")
PROPERTIES = (
    state("committed", whole_pages_of_fed_tokens_leave, strategy_committed.page_cases, ("exportable_pages",)),
    state("committed", what_leaves_memory_is_committed_text, memory_histories, _EXPORTING, least_examples=4),
    state(
        "committed", another_engine_loads_what_every_cache_has, strategy_committed.load_cases, ("loadable_positions",)
    ),
    state("committed", pages_stay_until_they_have_arrived, strategy_committed.export_histories, ("Exports",)),
)
