"""Laws of what leaves memory: committed tokens with what was written for them, whole pages, kept until they arrive."""

from collections import Counter
from functools import partial

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import refuses, require_same, state
from specsim.properties.memory.beside import play_beside
from specsim.properties.memory.exported import Known, Watched, require_committed
from specsim.properties.memory.exports_play import ExportsPlay
from specsim.properties.memory.play import empty, happen
from specsim.properties.memory.player import MemoryState, Player
from specsim.properties.memory.strategy import Event, MemoryHistory, memory_histories
from specsim.properties.memory.strategy_committed import (
    LoadCase,
    PageCase,
    PageHistory,
    export_histories,
    load_cases,
    page_cases,
)
from specsim.rejection import Reason
from specsim.simulation.memory import ExportLengths, Holding


def whole_pages_of_fed_tokens_leave(backend: Backend, cases: list[PageCase]) -> None:
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


def another_engine_loads_what_every_cache_has(backend: Backend, cases: list[LoadCase]) -> None:
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
        play = MemoryState(backend, history)
        watched = Watched(backend)
        play.part = watched.host
        for event in history.events:
            watched.leave = partial(_leave, play, event)
            happen(play, event)
            for player in play.players:
                _check(play, player, f"request {player.name} after {event.what}", player.text[: player.num_known + 1])
        watched.leave = partial(_leave, play, Event("abort", (), (0, 0)))
        empty(play)


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


def pages_stay_until_they_have_arrived(backend: Backend, histories: list[PageHistory]) -> None:
    """A page leaves once, the list of those that left ends where the text does, and none is free while it is read."""
    for history in histories:
        play_beside(ExportsPlay(backend.host("Exports")(history.page_size), history.page_size), history.events)


PROPERTIES = (
    state("committed", whole_pages_of_fed_tokens_leave, page_cases, ("exportable_pages",)),
    state(
        "committed",
        what_leaves_memory_is_committed_text,
        memory_histories,
        ("export_text", "exportable_pages"),
        least_examples=4,
    ),
    state("committed", another_engine_loads_what_every_cache_has, load_cases, ("loadable_positions",)),
    state("committed", pages_stay_until_they_have_arrived, export_histories, ("Exports",)),
)
