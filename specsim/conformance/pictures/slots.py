"""The slots of a request of a call, and of its batch: written, kept, moved, mapped and read."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from specsim.conformance.pictures.view import MOST_REQUESTS, View, at, path_of, width_of_block, written
from specsim.pictures.frame import Panel, stacked
from specsim.pictures.slots import Cell, Move, SlotRow, slots_panel
from specsim.pictures.states import State

BEFORE, AFTER = 4, 12
"""Positions that are drawn of a request's row before its length, and from there on."""


def draw_slots_of(view: View, request: int) -> Panel | None:
    """Return the slots of a request; None if the call has none."""
    drawn = [draw(view, request) for draw in (_of_verify, _of_beams, _of_eviction, _of_targets, _of_row, _of_reads)]
    panels = [panel for panel in drawn if panel is not None]
    return stacked(panels) if panels else None


def draw_batch_slots(view: View) -> Panel | None:
    """Return slots that are those of a whole batch: by step, of rows that are no requests, pairs; None without."""
    steps = view.output("step_cache_loc")
    if steps is not None:
        beams = [SlotRow("beams", tuple(Cell(f"row {row}") for row in range(steps.shape[1])))]
        return slots_panel([*beams, *(SlotRow(f"step {step}", _plain(row)) for step, row in enumerate(steps))])
    ends, slots = view.given("kv_indptr"), view.given("kv_indices")
    if not view.num_requests and ends is not None and slots is not None and ends.ndim == slots.ndim == 1:
        read = [slots[int(first) : int(last)].tolist() for first, last in pairwise(ends[: MOST_REQUESTS + 1])]
        return slots_panel([_clipped(f"row {row} reads", entries) for row, entries in enumerate(read)])
    panels = []
    for before in ("", "swa_"):
        sources, targets = view.given(f"{before}source_slots"), view.given(f"{before}target_slots")
        if sources is None or targets is None or sources.ndim != 1 or len(sources) != len(targets):
            continue
        rows = [SlotRow(f"{before}from", _plain(sources)), SlotRow(f"{before}to", _plain(targets))]
        panels.append(slots_panel(rows, [Move(0, place, 1, place) for place in range(len(sources))]))
    return stacked(panels) if panels else None


def _plain(entries: Any) -> tuple[Cell, ...]:
    return tuple(Cell(written(entry)) for entry in entries)


def _heading(entry: Any) -> str:
    return "row" if getattr(entry, "shape", ()) else written(entry)


def _of_verify(view: View, request: int) -> Panel | None:
    """Return what a verify wrote, and where the accepted entries are after they were brought to the front."""
    slots, values = view.argument("out_cache_loc"), view.argument("values")
    entries = slots if values is None else values
    num_nodes = width_of_block(entries, view.num_requests)
    if entries is None or not num_nodes:
        return None
    path, count = path_of(view, request, num_nodes), _count_of(view, request)
    if path is None and count is None:
        return None
    block = entries[request * num_nodes : (request + 1) * num_nodes]
    accepted = set(range(count or 0)) if path is None else set(path)
    evicted, num_freed = view.output("evict_mask"), at(view.given("to_free_num_slots"), request)

    def fate_of(node: int) -> tuple[str, ...]:
        if evicted is not None:
            return ("freed" if at(evicted, request * num_nodes + node) else "kept",)
        return () if num_freed is None else ("freed" if node >= num_nodes - num_freed else "kept",)

    def cell(node: int) -> Cell:
        state = State.ACCEPTED if node in accepted else State.REJECTED
        if path is None:
            return Cell(_heading(block[node]), (f"place {node}", *fate_of(node)), state if count else State.PLAIN)
        return Cell(_heading(block[node]), (f"node {node}", *fate_of(node)), state)

    before = SlotRow("slots written" if values is None else "before", tuple(map(cell, range(num_nodes))))
    if path is None or evicted is not None:
        return slots_panel([before])
    kept = [node for node in path if 0 <= node < num_nodes]
    moved = view.output("compacted") if values is not None else None

    def front(place: int, node: int) -> Cell:
        entry = block[place] if values is None else at(moved, request * num_nodes + place)
        return Cell("?" if entry is None else _heading(entry), (f"node {node}",), State.ACCEPTED)

    after = SlotRow(
        "after" if values is not None else "slots after", tuple(front(place, node) for place, node in enumerate(kept))
    )
    return slots_panel([before, after], [Move(0, node, 1, place) for place, node in enumerate(kept)])


def _count_of(view: View, request: int) -> int | None:
    """Return how many tokens of a request are accepted, the bonus token included, or None."""
    tokens, drafts = (at(view.given(f"num_accepted_{one}"), request) for one in ("tokens", "drafts"))
    return int(tokens) if tokens is not None else None if drafts is None else int(drafts) + 1


def _of_beams(view: View, request: int) -> Panel | None:
    """Return the slots that each beam of a draft writes, step by step."""
    slots, topk, steps = view.output("out_cache_loc"), view.number("topk"), view.number("num_steps")
    if slots is None or not topk or not steps or len(slots) != view.num_requests * topk * steps:
        return None
    beams = slots.reshape(view.num_requests, topk, steps)[request]
    return slots_panel([SlotRow(f"beam {beam}", _plain(row)) for beam, row in enumerate(beams)])


def _of_eviction(view: View, request: int) -> Panel | None:
    """Return which slots of a verify are freed, before and after that is rounded to pages."""
    before, after, num_nodes = view.argument("evict_mask"), view.output("evict_mask"), view.number("num_draft_tokens")
    if before is None or not num_nodes:
        return None

    def row(label: str, mask: Any) -> SlotRow:
        block = mask[request * num_nodes : (request + 1) * num_nodes].tolist()
        return SlotRow(
            label, tuple(Cell(f"node {node}", ("freed" if one else "kept",)) for node, one in enumerate(block))
        )

    return slots_panel([row("before", before), *([] if after is None else [row("after", after)])])


def _of_targets(view: View, request: int) -> Panel | None:
    """Return the targets of a request, and whether it goes on with them."""
    targets, drafts = view.argument("target_slots"), view.argument("num_accepted_drafts")
    going_on = at(view.argument("num_unfinished_tokens"), request)
    if targets is None or drafts is None or going_on is None:
        return None
    first, last = int(drafts[:request].sum()) + request, int(drafts[: request + 1].sum()) + request + 1
    return slots_panel([SlotRow("goes on with" if going_on else "ended with", _plain(targets[first:last]))])


def _of_row(view: View, request: int) -> Panel | None:
    """Return a request's row of the map from positions to slots, before and after where it was written."""
    table, rows = view.argument("req_to_token"), view.given("req_pool_indices")
    number = at(rows, request)
    row = None if number is None else at(table, int(number))
    if row is None or row.ndim != 1:
        return None
    begin = at(view.given("start_offsets", "seq_lens", "kv_lens"), request)
    first = max(int(begin or 0) - BEFORE, 0)
    end = at(view.argument("end_offsets"), request)
    after = at(view.output("req_to_token"), int(number))

    def cells(label: str, entries: Any, is_marked: Callable[[int], bool], mark: str) -> SlotRow:
        drawn = enumerate(entries[first : first + BEFORE + AFTER].tolist(), first)
        marked = [Cell(str(slot), (f"pos {place}", *([mark] if is_marked(place) else []))) for place, slot in drawn]
        more = len(entries) - first - len(marked)
        return SlotRow(label, (*marked, *([Cell("…", (f"+{more}",))] if more > 0 else [])))

    if after is None:
        given = range(int(begin or 0), 0 if end is None else int(end))
        return slots_panel([cells(f"row {int(number)}", row, lambda place: place in given, "listed")])
    before = cells(f"row {int(number)} before", row, lambda place: False, "")
    return slots_panel(
        [before, cells(f"row {int(number)} after", after, lambda place: row[place] != after[place], "written")]
    )


def _of_reads(view: View, request: int) -> Panel | None:
    """Return the slots or pages that a request reads."""
    ends, slots = view.given("kv_indptr"), view.given("kv_indices")
    if ends is not None and slots is not None:
        if ends.ndim == 2 and slots.ndim == 2 and view.num_requests:
            return _of_steps(ends, slots, request, (ends.shape[1] - 1) // view.num_requests)
        first, last = at(ends, request), at(ends, request + 1)
        if first is None or last is None or ends.ndim != 1 or slots.ndim != 1:
            return None
        return slots_panel([_clipped("reads", slots[int(first) : int(last)].tolist())])
    pages, length = at(view.given("page_table"), request), at(view.given("cache_seqlens"), request)
    if pages is None or length is None or pages.ndim != 1:
        return None
    page_size = view.number("page_size") or 1
    used = pages[: -(-int(length) // page_size)].tolist()
    return slots_panel([_clipped("reads pages" if page_size > 1 else "reads", used)])


def _of_steps(ends: Any, slots: Any, request: int, topk: int) -> Panel:
    """Return what each beam of a request reads in the last step, which reads most."""
    rows = []
    for beam in range(topk):
        place = request * topk + beam
        read = slots[-1][int(ends[-1][place]) : int(ends[-1][place + 1])].tolist() if len(ends) else []
        rows.append(_clipped(f"beam {beam} reads", read))
    return slots_panel(rows)


def _clipped(label: str, entries: Sequence[int]) -> SlotRow:
    """Return the last entries of what is read, which are those that differ from step to step."""
    more = len(entries) - AFTER
    front = (Cell(f"+{more}"),) if more > 0 else ()
    return SlotRow(label, (*front, *(Cell(str(entry)) for entry in entries[-AFTER:])))
