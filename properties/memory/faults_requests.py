"""Faults in what requests take from an engine's memory, leave in it and give back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.counts import ceil_to
from specsim.properties.mutants.record import Function, Mutant, Named, answering, overriding, with_arguments
from specsim.rejection import SpecRejection
from specsim.simulation.memory import Books, Holding, Memory, Room
from specsim.simulation.memory.keys import key_units


def _before(change: Callable[[Named], None]) -> Callable[[Function], Function]:
    """Inject a fault that happens before the correct function."""

    def ask(correct: Function, named: Named) -> Any:
        change(named)
        return correct(**named)

    return answering(ask)


def _after(change: Callable[[Named, Any], Any]) -> Callable[[Function], Function]:
    """Inject a fault in what the correct function left; ``change`` returns what is returned."""
    return answering(lambda correct, named: change(named, correct(**named)))


class _Blind:
    """A cache that does not do some of what it is asked to."""

    def __init__(self, cache: Any, **instead: Callable[..., Any]) -> None:
        self._cache, self._instead = cache, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead.get(name) or getattr(self._cache, name)


def _with_cache(**instead: Callable[..., Any]) -> Callable[[Function], Function]:
    """Inject a fault that leaves out calls of the cache."""

    def ask(correct: Function, named: Named) -> Any:
        memory: Memory = named["memory"]
        blind: Any = None if memory.cache is None else _Blind(memory.cache, **instead)
        return correct(**{**named, "memory": replace(memory, cache=blind)})

    return answering(ask)


def _nothing(*arguments: Any) -> None:
    return None


def _keeps_its_books(correct: Function, named: Named) -> Any:
    before = [(one, one.books) for one in named["batch"]]
    ranges = correct(**named)
    for one, books in before:
        one.books, one.slots = books, one.slots[: books.num_allocated]
    return ranges


def _claims_the_root(named: Named, ranges: Any) -> Any:
    for one in named["batch"]:
        one.books = replace(one.books, num_committed=one.books.num_committed + 1)
    return ranges


def _grows_one_by_one(correct: Function, named: Named) -> Any:
    """Let the first of a batch keep what they got when the others find no row or slot."""
    return [given for one in named["batch"] for given in correct(**{**named, "batch": [one]})]


def _last_range_lost(named: Named, ranges: Any) -> Any:
    return ranges[:-1]


def _range_one_late(named: Named, ranges: Any) -> Any:
    return [replace(one, start=one.start + 1, end=one.end + 1) for one in ranges]


def _all_get_the_slots_of_the_first(named: Named, ranges: Any) -> Any:
    return [replace(one, slots=(ranges[0].slots * len(one.slots))[: len(one.slots)]) for one in ranges]


def _hit_a_page_short(correct: Function, named: Named) -> Any:
    return correct(**{**named, "fill": named["fill"][: -named["memory"].page_size] or named["fill"][:1]})


def _committed_later(named: Named, given: Any) -> Any:
    books = named["holding"].books
    named["holding"].books = replace(books, num_committed=given.start)
    return given


def _allocated_ahead(correct: Function, named: Named) -> Any:
    holding, memory = named["holding"], named["memory"]
    given = correct(**named)
    if len(holding.slots) % memory.page_size == 0 and memory.allocator.num_free >= memory.page_size:
        holding.slots.extend(memory.allocator.allocate(memory.page_size))
        holding.books = holding.books.allocate(len(holding.slots))
    return given


def _row_is_not_written(correct: Function, named: Named) -> Any:
    """Point the host at the cache's slots and leave the map as it is."""
    given = correct(**named)
    return replace(given, end=given.start, slots=())


def _duplicates_stay(correct: Function, named: Named) -> Any:
    memory: Memory = named["memory"]
    kept = _Blind(memory.allocator, free=_nothing)
    allocator: Any = kept
    return correct(**{**named, "memory": replace(memory, allocator=allocator)})


def _not_protected(named: Named, given: Any) -> Any:
    named["holding"].books = replace(named["holding"].books, num_protected=given.start)
    return given


def _never_left(correct: Function, named: Named) -> Any:
    start = named["holding"].books.num_protected
    return correct(**{**named, "text": named["text"][:start]}) if start else correct(**{**named, "text": []})


def _scratch_stays(named: Named) -> None:
    holding: Holding = named["holding"]
    end = min(ceil_to(holding.books.num_committed, named["memory"].page_size), holding.books.num_allocated)
    holding.books, holding.slots = replace(holding.books, num_allocated=end), holding.slots[:end]


def _shared_part_is_freed(named: Named) -> None:
    named["holding"].books = replace(named["holding"].books, num_protected=0)


def _shared_part_of_an_abort_is_freed(correct: Function, named: Named) -> Any:
    """Free from the front, and insert nothing."""
    memory: Memory = named["memory"]
    if memory.cache is not None:
        _shared_part_is_freed(named)
    return correct(**named)


def _one_more_is_owned(correct: Function, named: Named) -> Any:
    books = named["holding"].books
    owned = min(named["num_owned"] + 1, books.num_allocated, len(named["text"]))
    return correct(**{**named, "num_owned": owned})


def _all_is_owned(correct: Function, named: Named) -> Any:
    books = named["holding"].books
    text = [*named["text"], *([0] * books.num_allocated)][: books.num_allocated]
    return correct(**{**named, "num_owned": books.num_allocated, "text": text})


def _nothing_is_left(correct: Function, named: Named) -> Any:
    return correct(**{**named, "memory": replace(named["memory"], cache=None)})


def _count_is_kept(named: Named, returned: Any) -> Any:
    books = named["holding"].books
    named["holding"].books = replace(books, num_retractions=books.num_retractions - 1)
    return returned


def _text_is_left(correct: Function, named: Named) -> Any:
    """Insert the text of a retracted request, whose slots go back to the free list."""
    memory, holding = named["memory"], named["holding"]
    if memory.cache is not None and holding.books.num_committed > holding.books.num_protected:
        key = key_units([0] * holding.books.num_committed, memory.has_pair_keys)
        memory.cache.insert(key, holding.slots[: len(key)])
    return correct(**named)


def _cache_is_not_asked(correct: Function, named: Named) -> Any:
    return correct(**{**named, "memory": replace(named["memory"], cache=None)})


def _one_too_many(named: Named, room: Room) -> Any:
    if room.retracted and room.num_kept > 1:
        named["retract"](named["batch"][room.num_kept - 1])
        return replace(room, num_kept=room.num_kept - 1, retracted=(*room.retracted, room.num_kept - 1))
    return room


def _one_too_few(correct: Function, named: Named) -> Any:
    """Go on after one retraction, however little it has brought."""
    batch: Sequence[Holding] = named["batch"]
    calls: list[int] = []

    def demand(some: Sequence[Holding]) -> int:
        calls.append(len(some))
        return int(named["demand"](some)) if len(calls) == 1 or len(some) == 1 else 0

    return correct(**{**named, "batch": batch, "demand": demand})


def _last_goes_on(named: Named, room: Room) -> Any:
    return room if room.aborted is None else replace(room, num_kept=1, aborted=None)


def _last_is_lost(named: Named, room: Room) -> Any:
    return replace(room, retracted=room.retracted[:-1])


def _resolved_anyway(correct: Any, self: Books, num_tokens: int, num_retractions: int, is_finished: bool) -> Books:
    try:
        return self.commit(num_tokens)
    except SpecRejection:
        return self


def _drafts_alone(correct: Any, self: Books, num_tokens: int, num_retractions: int, is_finished: bool) -> Any:
    return correct(self, num_tokens - 1, num_retractions, is_finished)


def _counted_from_zero(correct: Any, self: Books) -> Any:
    return replace(correct(self), num_retractions=0)


def _lengths_stay(correct: Any, self: Books) -> Any:
    return replace(correct(self), num_committed=self.num_committed, num_allocated=self.num_allocated)


def _unseen(correct: Any, self: Any, *arguments: Any) -> None:
    return None


_PREPARE, _ADMIT, _CHUNK, _PUBLISH = "prepare_for_decode", "admit_request", "allocate_chunk", "publish_prefix"
_FINISH, _RETRACT, _ROOM = "release_finished", "release_retracted", "make_room"


def _too_early(correct: Function, named: Named) -> Any:
    text, ahead = named["text"], named["num_ahead"]
    return [tuple(text[place : place + ahead + 1]) for place in range(len(text))] if named["has_pair_keys"] else text


def _plain_units(correct: Function, named: Named) -> Any:
    return [unit[0] if named["has_pair_keys"] else unit for unit in correct(**named)]


_ROWS: tuple[tuple[str, str, str, Callable[[Function], Function]], ...] = (
    ("K01", _PREPARE, "What is allocated ahead is not written into the books.", answering(_keeps_its_books)),
    ("K12", _PREPARE, "The root's position is committed before it is known.", _after(_claims_the_root)),
    ("S01", _RETRACT, "A retracted request keeps its scratch.", _before(_scratch_stays)),
    ("S13", _FINISH, "What a request shares is freed with it.", answering(_shared_part_of_an_abort_is_freed)),
    ("OWN-1150", _PREPARE, "The last of a batch is not written into the map.", _after(_last_range_lost)),
    ("OWN-1151", _PREPARE, "Rows are written one position late.", _after(_range_one_late)),
    ("OWN-1152", _PREPARE, "All of a batch are pointed at one slot.", _after(_all_get_the_slots_of_the_first)),
    (
        "OWN-1153",
        _PREPARE,
        "The first of a batch keep what they got when the others are refused.",
        answering(_grows_one_by_one),
    ),
    ("OWN-1154", _ADMIT, "A hit is not locked.", _with_cache(lock=_nothing)),
    ("OWN-1155", _ADMIT, "Nothing of a cached prompt is computed again.", with_arguments(fill=lambda fill: [*fill, 0])),
    ("OWN-1156", _ADMIT, "A hit is a page short.", answering(_hit_a_page_short)),
    ("OWN-1157", _ADMIT, "The row of a hit is not written.", answering(_row_is_not_written)),
    ("OWN-1158", _CHUNK, "A chunk counts as text one chunk late.", _after(_committed_later)),
    ("OWN-1159", _CHUNK, "A chunk allocates a page ahead.", answering(_allocated_ahead)),
    ("OWN-1160", _PUBLISH, "The map keeps slots that were freed.", answering(_row_is_not_written)),
    ("OWN-1161", _PUBLISH, "Duplicates are not freed.", answering(_duplicates_stay)),
    ("OWN-1162", _PUBLISH, "What was published is not locked.", _with_cache(lock=_nothing)),
    ("OWN-1163", _PUBLISH, "The lock stays where the chunk began.", _with_cache(unlock=_nothing)),
    ("OWN-1164", _PUBLISH, "What was published still counts as the request's own.", _after(_not_protected)),
    ("OWN-1165", _PUBLISH, "Prompts are not left to the cache.", answering(_never_left)),
    ("OWN-1166", _FINISH, "A request that ends stays locked.", _with_cache(unlock=_nothing)),
    ("OWN-1167", _FINISH, "A request that ends leaves one position too many.", answering(_one_more_is_owned)),
    ("OWN-1168", _FINISH, "A request that ends leaves its scratch to the cache.", answering(_all_is_owned)),
    ("OWN-1169", _FINISH, "A request that ends leaves nothing to the cache.", answering(_nothing_is_left)),
    ("OWN-1170", _FINISH, "A request that ends keeps its scratch.", _before(_scratch_stays)),
    ("OWN-1171", _RETRACT, "A retracted request stays locked.", _with_cache(unlock=_nothing)),
    ("OWN-1172", _RETRACT, "What a retracted request shares is freed.", _before(_shared_part_is_freed)),
    ("OWN-1173", _RETRACT, "A retraction is not counted.", _after(_count_is_kept)),
    ("OWN-1174", _RETRACT, "A retracted request leaves its text to the cache.", answering(_text_is_left)),
    ("OWN-1175", _ROOM, "The first of a batch is retracted first.", with_arguments(batch=lambda batch: batch[::-1])),
    ("OWN-1176", _ROOM, "Requests are retracted before the cache is asked.", answering(_cache_is_not_asked)),
    ("OWN-1177", _ROOM, "One request more is retracted than has to be.", _after(_one_too_many)),
    ("OWN-1178", _ROOM, "One retraction is taken for enough.", answering(_one_too_few)),
    ("OWN-1179", _ROOM, "The last request goes on without room.", _after(_last_goes_on)),
    ("OWN-1180", _ROOM, "The last retracted request is forgotten.", _after(_last_is_lost)),
    ("OWN-1181", "Books", "A result of a time before the retraction is taken.", overriding(resolve=_resolved_anyway)),
    ("OWN-1182", "Books", "The bonus token is not committed.", overriding(resolve=_drafts_alone)),
    ("OWN-1183", "Books", "Retractions are counted from the last one.", overriding(retract=_counted_from_zero)),
    ("OWN-1184", "Books", "A retracted request keeps its lengths.", overriding(retract=_lengths_stay)),
    ("OWN-1185", "Ledger", "Pages are not counted.", overriding(_check_pages=_unseen)),
    ("OWN-1186", "Ledger", "Rows are not counted.", overriding(_check_rows=_unseen)),
    (
        "OWN-1188",
        "key_units",
        "The last positions are keyed before their next tokens are there.",
        answering(_too_early),
    ),
    ("OWN-1189", "key_units", "A position is keyed by its own token alone.", answering(_plain_units)),
    ("OWN-1187", "Ledger", "Lengths are not compared.", overriding(_check_lengths=_unseen)),
)

MUTANTS = tuple(Mutant(*row) for row in _ROWS)
