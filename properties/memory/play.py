"""An engine's memory without an engine: requests come, decode and go, and tags say what their slots hold."""

from dataclasses import replace

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.checks import check_memory
from specsim.properties.memory.leaving import leave, refused, retract
from specsim.properties.memory.player import MemoryState, Player
from specsim.properties.memory.steps import resolve, step
from specsim.properties.memory.strategy import MOST_PROMPT, Event, MemoryHistory
from specsim.rejection import Reason
from specsim.simulation.memory import Holding


class MemoryPlay:
    """An engine's memory beside players whose texts lie in slots of a device."""

    def __init__(self, backend: Backend, history: MemoryHistory) -> None:
        self.state = MemoryState(backend, history)

    def happen(self, event: Event) -> None:
        """Do what an event says, if it can be done."""
        happen(self.state, event)

    def compare(self, when: str) -> None:
        """Raise AssertionError unless everything has one owner and holds its text."""
        check_memory(self.state, when)

    def end(self) -> None:
        """Let all go, and find the pool whole."""
        empty(self.state)


def empty(play: MemoryState) -> None:
    """Let all go, and find the pool whole."""
    while play.players:
        leave(play, play.players[-1], None)
    allocator, cache = play.memory.allocator, play.memory.cache
    cached = () if cache is None else sorted(cache.slots)
    swa = play.memory.swa
    left = (allocator if swa is None else swa.full).num_free + len(cached)
    if swa is not None:
        seen = swa.swa.num_free + len(cached) - swa.swa_slots(cached).count(0)
        require(seen == play.history.num_swa_pages * play.size, "free and cached SWA slots at the end", seen, "all")
    require(left == play.history.num_pages * play.size, "free and cached slots at the end", left, "all")
    if cache is not None:
        require_same("evictable slots", cache.num_evictable, cache.num_cached)
    require_same("free rows at the end", play.memory.rows.num_free, play.history.num_rows - 1)


def happen(play: MemoryState, event: Event) -> None:
    """Do what an event says, if it can be done."""
    number = event.counts[0]
    chosen = play.running[number % len(play.running)] if play.running else None
    match event.what:
        case "admit" | "join":
            _admit(play, number + 7 * event.counts[1])
            if event.what == "join":
                _chunk(play, MOST_PROMPT * 9)
        case "chunk":
            _chunk(play, 1 + number * (1 + event.counts[1]))
        case "step":
            step(play, event.counts)
        case "finish" if chosen is not None:
            leave(play, chosen, event.counts[1])
        case "abort" if chosen is not None:
            leave(play, chosen, None)
        case "retract" if chosen is not None:
            retract(play, chosen)
        case "evict" if play.memory.cache is not None:
            evicted = play.memory.cache.evict(number)
            play.memory.allocator.free(evicted)
        case "late":
            resolve(play)
        case "resize":
            shorter = max(1, play.history.sizes.num_steps - number % 3)
            play.sizes = replace(play.sizes, num_steps=shorter)


def _admit(play: MemoryState, number: int) -> None:
    """Admit the first who waits, or somebody for one of the prompts, while no one else fills."""
    if any(one.is_filling for one in play.players):
        return
    if play.waiting:
        player = play.waiting[0]
    else:
        prompt = _prompt(play, number)
        player = Player(play.num_names, prompt, Holding(play.part("Books")()), list(prompt))
    fill, cache = player.text, play.memory.cache
    units = play.key(fill[:-1])
    expected = () if cache is None else cache.match(units).slots
    expected = expected[: play.reachable(expected)]
    if not play.memory.rows.num_free:
        refused(play, Reason.OUT_OF_SLOTS, lambda: play.part("admit_request")(play.memory, player.holding, fill))
        return
    given = play.part("admit_request")(play.memory, player.holding, fill)
    require(given.slots == tuple(expected), "cached slots of an admitted request", given.slots, expected)
    play.assign(given)
    play.num_names += not play.waiting
    play.waiting = play.waiting[1:]
    play.players.append(player)
    player.num_fill, player.num_filled = len(fill), len(expected)
    player.num_true = player.num_known = len(expected)


def _prompt(play: MemoryState, number: int) -> tuple[int, ...]:
    """Return one of the prompts; where there is a window, often what somebody left to the cache, and a token more."""
    if not play.history.window or not play.published or number % 3 == 0:
        return play.history.prompts[number % len(play.history.prompts)]
    longest = sorted(set(play.published), key=lambda text: (len(text), text))[-3:]
    text = longest[number % len(longest)]
    return (*text[: max(1, len(text) - number // 7)], number % 3)


def _chunk(play: MemoryState, length: int) -> None:
    """Run a chunk of the prompt that is being filled; one that is not the last ends with a page."""
    player = next((one for one in play.players if one.is_filling), None)
    if player is None:
        return
    end = min(player.num_filled + length, player.num_fill)
    if end < player.num_fill:
        end = max(end // play.size * play.size, player.num_filled)
    if end == player.num_filled:
        return
    play.evict(player)
    if not _fits(play, end, player):
        leave(play, player, None)
        return
    given = play.part("allocate_chunk")(play.memory, player.holding, end)
    play.assign(given)
    play.device.require_window(
        f"request {player.name} before a chunk", player.holding.books.row, player.num_filled, player.text
    )
    if end == player.num_fill:
        player.text.append(player.next_token())
    play.device.write(player.holding.books.row, player.num_filled, end, player.text)
    player.num_filled = player.num_true = player.num_known = end
    play.assign(play.part("publish_prefix")(play.memory, player.holding, player.text[:end]))
    play.published.append(tuple(player.text[:end]))
    whole = 0 if play.memory.cache is None else len(play.key(player.text[:end])) // play.size * play.size
    require_same("positions that the cache has of a filled chunk", player.holding.books.num_protected, whole)


def _fits(play: MemoryState, end: int, player: Player) -> bool:
    """Return whether a prompt can grow so far; if not, the attempt is refused and changes nothing."""
    need = (-(-end // play.size) - -(-player.num_filled // play.size)) * play.size
    reason = Reason.ROW_TOO_SHORT if end > play.memory.row_width else Reason.OUT_OF_SLOTS
    if need <= play.num_obtainable and end <= play.memory.row_width:
        return True
    refused(play, reason, lambda: play.part("allocate_chunk")(play.memory, player.holding, end))
    return False
