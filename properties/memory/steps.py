"""Decode iterations of histories of an engine's memory: V2 allocates ahead, V1 inside."""

from collections.abc import Sequence
from dataclasses import replace

from specsim.properties.laws.checks import require, require_same
from specsim.properties.memory.leaving import leave, refused, retract
from specsim.properties.memory.player import MemoryState, Player
from specsim.rejection import Reason
from specsim.simulation.memory import Holding, SlotRange


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
