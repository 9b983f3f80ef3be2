"""The slots of a request of a call: written, moved, mapped and read."""

from collections.abc import Sequence
from typing import Any

from specsim.conformance.pictures.view import View, at, path_of, width_of_block, written
from specsim.pictures.frame import Panel, stacked
from specsim.pictures.slots import Cell, Move, SlotRow, slots_panel
from specsim.pictures.tree import State

BEFORE = 4
"""Positions before the length of a request that are drawn of its row."""


def draw_slots_of(view: View, request: int) -> Panel | None:
    """Return the slots of a request; None if the call has none."""
    panels = [panel for draw in (_compacted, _mapped, _read, _paired) if (panel := draw(view, request)) is not None]
    return stacked(panels) if panels else None


def _compacted(view: View, request: int) -> Panel | None:
    """Return what verify wrote, and where the accepted entries are after they were brought to the front."""
    slots, values = view.argument("out_cache_loc"), view.argument("values")
    entries = slots if values is None else values
    num_nodes = width_of_block(entries, view.num_requests)
    if entries is None or not num_nodes:
        return None
    path = path_of(view, request, num_nodes)
    count = at(view.given("num_accepted_tokens"), request)
    if path is None and count is None:
        return None
    block = entries[request * num_nodes : (request + 1) * num_nodes]
    evicted = view.given("evict_mask")
    accepted = set(range(int(count or 0)) if path is None else path)

    def cell(node: int) -> Cell:
        is_kept = node in accepted
        lines = [f"node {node}"]
        if at(evicted, request * num_nodes + node) is not None and evicted is not None:
            lines.append("freed" if evicted[request * num_nodes + node] else "kept")
        return Cell(_heading(block[node]), tuple(lines), State.ACCEPTED if is_kept else State.REJECTED)

    before = SlotRow("written" if values is None else "before", tuple(cell(node) for node in range(num_nodes)))
    if path is None or evicted is not None:
        return slots_panel([before])
    kept = [node for node in path if 0 <= node < num_nodes]
    if values is None:
        after = [Cell(_heading(block[place]), (f"node {node}",), State.ACCEPTED) for place, node in enumerate(kept)]
    else:
        moved = view.output("compacted")
        fronts = [at(moved, request * num_nodes + place) for place in range(len(kept))]
        after = [
            Cell("?" if front is None else _heading(front), (f"place {place}",), State.ACCEPTED)
            for place, front in enumerate(fronts)
        ]
    moves = [Move(0, node, 1, place) for place, node in enumerate(kept)]
    return slots_panel([before, SlotRow("after", tuple(after))], moves)


def _heading(entry: Any) -> str:
    return written(entry) if not getattr(entry, "shape", ()) else "row"


def _mapped(view: View, request: int) -> Panel | None:
    """Return a request's row of the map from positions to slots, before and after where it was written."""
    table, rows = view.argument("req_to_token"), view.given("req_pool_indices")
    row = at(table, *(() if at(rows, request) is None else (int(rows[request]),)))
    if rows is None or row is None or row.ndim != 1:
        return None
    start = at(view.given("start_offsets", "seq_lens", "kv_lens"), request)
    first = max(int(start or 0) - BEFORE, 0)
    after = at(view.output("req_to_token"), int(rows[request]))
    label = f"row {int(rows[request])}"
    if after is None:
        return slots_panel([_positions(label, row, first)])
    changed = {place for place, (old, new) in enumerate(zip(row.tolist(), after.tolist(), strict=False)) if old != new}
    return slots_panel([_positions(f"{label} before", row, first), _positions(f"{label} after", after, first, changed)])


def _positions(label: str, row: Any, first: int, changed: set[int] = frozenset()) -> SlotRow:  # type: ignore[assignment]
    cells = [
        Cell(written(slot), (f"pos {first + place}", *(("written",) if first + place in changed else ())))
        for place, slot in enumerate(row[first:].tolist())
    ]
    return SlotRow(label, tuple(cells))


def _read(view: View, request: int) -> Panel | None:
    """Return the slots or pages that a request reads."""
    ends, slots = view.given("kv_indptr"), view.given("kv_indices")
    if ends is not None and slots is not None and ends.ndim == 1 and slots.ndim == 1:
        first, last = at(ends, request), at(ends, request + 1)
        if first is None or last is None:
            return None
        return slots_panel([SlotRow("reads", _plain(slots[max(int(first), 0) : int(last)].tolist()))])
    pages, length = at(view.given("page_table"), request), at(view.given("cache_seqlens"), request)
    if pages is None or length is None or pages.ndim != 1:
        return None
    page_size = view.number("page_size") or 1
    used = pages[: -(-int(length) // page_size)].tolist()
    return slots_panel([SlotRow("reads pages" if page_size > 1 else "reads", _plain(used))])


def _plain(entries: Sequence[Any]) -> tuple[Cell, ...]:
    return tuple(Cell(str(entry)) for entry in entries)


def _paired(view: View, request: int) -> Panel | None:
    """Return lists of slots that belong together; they are a batch's, and stand with its first request."""
    sources, targets = view.given("source_slots"), view.given("target_slots")
    if request or sources is None or targets is None or sources.ndim != 1 or len(sources) != len(targets):
        return None
    rows = [SlotRow("from", _plain(sources.tolist())), SlotRow("to", _plain(targets.tolist()))]
    return slots_panel(rows, [Move(0, place, 1, place) for place in range(len(sources))])
