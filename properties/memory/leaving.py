"""How requests leave in histories of an engine's memory, and calls that are refused."""

from dataclasses import replace
from typing import Any

from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.player import MemoryState, Player
from specsim.rejection import Reason, SpecRejection


def leave(play: MemoryState, player: Player, cut: int | None) -> None:
    """Release a request that ended after some output tokens, or for which nothing cuts the output."""
    num_output = player.num_known + 1 - len(player.prompt)
    former = player.num_fill - len(player.prompt)
    finished = None if cut is None or num_output <= former else max(former + 1, num_output - cut)
    owned = play.part("owned_length")(player.holding.books.num_committed, len(player.prompt), finished)
    expected = player.num_known if finished is None else min(player.num_known, len(player.prompt) + finished)
    require_same("positions of text", owned, expected)
    text, cache = player.text[: player.num_known + 1], play.memory.cache
    key = play.key(text[:owned])
    whole = len(key) // play.size * play.size
    expected = 0 if cache is None else cache.num_cached + whole - len(cache.match(key).slots)
    play.part("release_finished")(play.memory, player.holding, text, owned)
    play.players.remove(player)
    play.published.append(tuple(text[:owned]))
    if cache is not None:
        require_same("cached positions of a request that ended", len(cache.match(key).slots), whole)
        require_same("slots that are cached when it ended", cache.num_cached, expected)


def retract(play: MemoryState, player: Player) -> None:
    """Retract a request; what it has output stays."""
    before = player.holding.books.num_retractions
    play.part("release_retracted")(play.memory, player.holding)
    books = player.holding.books
    got = (books.num_protected, books.num_committed, books.num_allocated, books.row, books.is_retracted)
    require_same("books of a retracted request", got, (0, 0, 0, 0, True))
    require_same("num_retractions", books.num_retractions, before + 1)
    play.players.remove(player)
    del player.text[player.num_known + 1 :]
    player.num_true = player.num_known = player.num_filled = 0
    play.waiting.append(player)


def refused(play: MemoryState, reason: Reason, call: Any) -> None:
    """Make a call that has to be refused, with nothing changed but what the cache has forgotten."""
    books = [replace(one.holding.books) for one in play.players]
    try:
        call()
    except SpecRejection as refusal:
        require(refusal.reason is reason, "reason of the refusal", refusal.reason.name, reason.name)
    else:
        require(False, "a call that is to be refused", "taken", reason.name)
    require_same("books after a refusal", [one.holding.books for one in play.players], books)
