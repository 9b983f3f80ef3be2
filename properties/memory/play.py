"""An engine's memory without an engine: requests come, decode and go, and tags say what their slots hold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.player import MemoryState, Player, check_memory
from specsim.properties.memory.strategy import MOST_PROMPT, Event
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.request_pairs import free_at_rest
from specsim.simulation.memory import Holding, SlotRange


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


def step(play: MemoryState, counts: Sequence[int]) -> None:
    """Make room, run one iteration of all that decode, and let results arrive."""
    for player in [one for one in play.running if not _fits_row(play, one)]:
        leave(play, player, None)
    for player in play.running:
        play.evict(player)
    _make_room(play)
    batch = play.running
    if play.sizes.allocates_ahead:
        _prepare(play, batch)
        late = [(one, len(one.results)) for one in batch]
        for place, player in enumerate(batch):
            _run_v2(play, player, counts[place % len(counts)])
        for player, count in late if play.history.is_overlapped else [(one, len(one.results)) for one in batch]:
            _resolve(play, player, count)
    else:
        for place, player in enumerate(batch):
            _run_v1(play, player, counts[place % len(counts)])


def resolve(play: MemoryState) -> None:
    """Let all results arrive, those of requests that were retracted since, too."""
    for player in (*play.players, *play.waiting):
        _resolve(play, player, len(player.results))


def reach(play: MemoryState) -> int:
    """Return how many positions after the text an iteration touches at most."""
    sizes, size = play.history.sizes, play.size
    if size == 1 or sizes.topk == 1:
        return max(sizes.topk * play.sizes.num_steps, sizes.num_draft_tokens)
    most = max(-(-(last + play.sizes.num_steps) // size) for last in range(size))
    return max(sizes.topk * most * size, sizes.num_draft_tokens)


def _fits_row(play: MemoryState, player: Player) -> bool:
    ahead = 2 * reach(play) if play.sizes.allocates_ahead else reach(play) + play.size
    end = max(player.num_known + ahead, player.holding.books.num_allocated)
    return -(-end // play.size) * play.size <= play.memory.row_width


def _make_room(play: MemoryState) -> None:
    """Let requests go until the others find room; no one goes while there is any."""
    batch, memory = play.running, play.memory
    by_holding = {id(one.holding): one for one in batch}

    def demand(holdings: Sequence[Holding]) -> int:
        books = [one.books for one in holdings]
        return int(play.part("new_tokens_required_next_decode")(books, play.sizes, play.size))

    gone: list[int] = []

    def pop(holding: Holding) -> None:
        kept = len(batch) - len(gone)
        place = [id(one.holding) for one in batch].index(id(holding))
        require_same("place of the retracted request", place, kept - 1)
        room, need = play.num_obtainable, demand([one.holding for one in batch[:kept]])
        require(room < need, "slots that could be free when a request is retracted", room, f"below {need}")
        retract(play, by_holding[id(holding)])
        gone.append(place)

    room = play.part("make_room")(memory, [one.holding for one in batch], demand, pop)
    require_same("retracted places", list(room.retracted), gone)
    if room.aborted is not None:
        require(
            (room.num_kept, len(gone)) == (0, len(batch) - 1), "kept requests", room.num_kept, "0 of one that is left"
        )
        need = demand([batch[0].holding])
        require(memory.allocator.num_free < need, "free slots when the last gives up", memory.allocator.num_free, need)
        leave(play, batch[room.aborted], None)
        return
    require_same("kept requests", room.num_kept, len(batch) - len(gone))
    need = demand([one.holding for one in batch[: room.num_kept]])
    require(memory.allocator.num_free >= need, "free slots for a decode", memory.allocator.num_free, f"at least {need}")


def _prepare(play: MemoryState, batch: Sequence[Player]) -> None:
    """Allocate ahead: two iterations' worth after what the host knows, in whole pages, and no more."""
    free, size = play.memory.allocator.num_free, play.size
    books = [one.holding.books for one in batch]
    need = play.part("new_tokens_required_next_decode")(books, play.sizes, size)
    ends = [-(-max(one.num_allocated, one.num_committed + 2 * reach(play)) // size) * size for one in books]
    expected = [
        (one.row, one.num_allocated, end) for one, end in zip(books, ends, strict=True) if end > one.num_allocated
    ]
    prepare, holdings = play.part("prepare_for_decode"), [one.holding for one in batch]
    if expected:
        narrow = replace(play.memory, row_width=max(end for _, _, end in expected) - 1)
        refused(play, Reason.ROW_TOO_SHORT, lambda: prepare(narrow, holdings, play.sizes))
        require_same("free slots after a refusal", play.memory.allocator.num_free, free)
    ranges: list[SlotRange] = prepare(play.memory, holdings, play.sizes)
    got = [(one.row, one.start, one.end) for one in ranges]
    require_same("(row, start, end) of what is allocated ahead", got, expected)
    for one in ranges:
        play.assign(one)
    taken = free - play.memory.allocator.num_free
    require(taken == need, "slots that were allocated ahead", taken, f"{need}, as was foretold")


def _run_v2(play: MemoryState, player: Player, count: int) -> None:
    """Run an iteration on the device, which knows all earlier results."""
    row, start = player.holding.books.row, player.num_true
    end = start + reach(play)
    require(
        end <= player.holding.books.num_allocated,
        f"positions that request {player.name} may touch",
        end,
        f"at most {player.holding.books.num_allocated}",
    )
    play.device.require_window(f"request {player.name} before an iteration", row, start, player.text)
    play.device.scribble(row, start, end)
    _accept(play, player, 1 + count % (play.sizes.num_steps + 1))
    player.results.append((player.holding.books.num_retractions, player.num_true - start))


def _run_v1(play: MemoryState, player: Player, count: int) -> None:
    """Borrow slots for drafts, allocate those of the nodes, and free what was not accepted."""
    holding, size, start = player.holding, play.size, player.num_true
    allocator, books = play.memory.allocator, holding.books
    play.device.require_window(f"request {player.name} before an iteration", books.row, start, player.text)
    before = allocator.backup()
    drafts = allocator.extend([start], [start + reach(play)], [holding.last_slot])[0]
    play.assign(SlotRange(books.row, start, start + reach(play), tuple(drafts)))
    play.device.scribble(books.row, start, start + reach(play))
    allocator.restore(before)
    num_nodes = play.sizes.num_draft_tokens
    nodes = allocator.extend([start], [start + num_nodes], [holding.last_slot])[0]
    play.assign(SlotRange(books.row, start, start + num_nodes, tuple(nodes)))
    play.device.scribble(books.row, start, start + num_nodes)
    num_kept = 1 + count % (play.sizes.num_steps + 1)
    if size == 1:
        nodes = [*nodes[:1], *nodes[num_nodes - num_kept + 1 :], *nodes[1 : num_nodes - num_kept + 1]]
        play.assign(SlotRange(books.row, start, start + num_nodes, tuple(nodes)))
    keep_end = min(-(-(start + num_kept) // size) * size, start + num_nodes)
    if nodes[keep_end - start :]:
        allocator.free(nodes[keep_end - start :])
    _accept(play, player, num_kept)
    holding.slots.extend(nodes[:num_kept])
    holding.books = holding.books.fill(start + num_kept)
    player.num_known = player.num_true


def _accept(play: MemoryState, player: Player, num_tokens: int) -> None:
    start = player.num_true
    for _ in range(num_tokens):
        player.text.append(player.next_token())
    player.num_true = start + num_tokens
    play.device.write(player.holding.books.row, start, player.num_true, player.text)


def _resolve(play: MemoryState, player: Player, count: int) -> None:
    """Let the first results of a request arrive; those of a time before it was retracted mean nothing."""
    arrived, player.results = player.results[:count], player.results[count:]
    for num_retractions, num_tokens in arrived:
        is_stale = num_retractions != player.holding.books.num_retractions
        player.holding.books = player.holding.books.resolve(num_tokens, num_retractions, False)
        player.num_known += 0 if is_stale else num_tokens
        require_same(f"num_committed of request {player.name}", player.holding.books.num_committed, player.num_known)


class MemoryPlay(MemoryState):
    """An engine's memory beside players whose texts lie in slots of a device."""

    def compare(self, when: str) -> None:
        """Raise AssertionError unless everything has one owner and holds its text."""
        check_memory(self, when)

    def end(self) -> None:
        """Let all go, and find the pool whole."""
        while self.players:
            leave(self, self.players[-1], None)
        free, cache = free_at_rest(self.memory), self.memory.cache
        for kind, num_pages in ((" SWA", self.history.num_swa_pages), ("", self.history.num_pages)):
            left = free.get(f"free{kind} slots", num_pages * self.size)
            require(left == num_pages * self.size, f"free and cached{kind} slots at the end", left, "all")
        if cache is not None:
            require_same("evictable slots", cache.num_evictable, cache.num_cached)
        require_same("free rows at the end", free["free rows"], self.history.num_rows - 1)

    def happen(self, event: Event) -> None:
        """Do what an event says, if it can be done."""
        number = event.counts[0]
        chosen = self.running[number % len(self.running)] if self.running else None
        match event.what:
            case "admit" | "join":
                _admit(self, number + 7 * event.counts[1])
                if event.what == "join":
                    _chunk(self, MOST_PROMPT * 9)
            case "chunk":
                _chunk(self, 1 + number * (1 + event.counts[1]))
            case "step":
                step(self, event.counts)
            case "finish" if chosen is not None:
                leave(self, chosen, event.counts[1])
            case "abort" if chosen is not None:
                leave(self, chosen, None)
            case "retract" if chosen is not None:
                retract(self, chosen)
            case "evict" if self.memory.cache is not None:
                evicted = self.memory.cache.evict(number)
                self.memory.allocator.free(evicted)
            case "late":
                resolve(self)
            case "resize":
                shorter = max(1, self.history.sizes.num_steps - number % 3)
                self.sizes = replace(self.sizes, num_steps=shorter)


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
