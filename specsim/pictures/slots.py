"""Rows of slots one below another, and lines that say which entry moves where."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.pictures.frame import Panel, draw_panels, moved
from specsim.pictures.markup import FONT_SIZE, LINE, element, number, shown, text, width_of
from specsim.pictures.states import State, box

PADDING, BETWEEN_CELLS, BETWEEN_ROWS, MOVE_ROOM = 7, 4, 12, 40
"""Pixels beside the text of a cell, between two cells, and between two rows, without and with moves."""

MOST_CELLS = 24
"""Cells of a row that are drawn."""


@dataclass(frozen=True)
class Cell:
    """One entry: a heading, further lines, and what became of it."""

    heading: str
    lines: tuple[str, ...] = ()
    state: State = State.PLAIN


@dataclass(frozen=True)
class SlotRow:
    """A row of entries after its label."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Move:
    """An entry of a row that is moved or copied to one of a later row; all four are places from 0 on."""

    row: int
    cell: int
    to_row: int
    to_cell: int


def draw_slots(rows: Sequence[SlotRow], moves: Sequence[Move] = (), title: str = "slots", *, prefix: str = "") -> str:
    """Return rows of slots as a document of SVG, as before and after accepted entries are moved to the front.

    Parameters
    ----------
    rows : sequence of SlotRow
        From the top down; of a long row the first entries are drawn.
    moves : sequence of Move
        Drawn as lines with a head.
    title : str
        Drawn above.
    prefix : str
        As for ``draw_panels``.

    Raises
    ------
    ValueError
        A move leads from or to no entry, or up.
    """
    return draw_panels([slots_panel(rows, moves)], title, prefix=prefix)


def slots_panel(rows: Sequence[SlotRow], moves: Sequence[Move] = ()) -> Panel:
    """Return rows of slots as a panel; see ``draw_slots``."""
    _check(rows, moves)
    cells = [cell for row in rows for cell in row.cells[:MOST_CELLS]]
    width = max((width_of(line) for cell in cells for line in (cell.heading, *cell.lines)), default=0) + 2 * PADDING
    width = max(width, 30)
    has_marks = any(cell.state in (State.ACCEPTED, State.REJECTED) for cell in cells)
    width += 12 if has_marks else 0
    label_width = max((width_of(row.label) for row in rows), default=0) + 14
    tops, heights, top = [], [], 0.0
    for place, row in enumerate(rows):
        heights.append(8 + LINE * max((1 + len(cell.lines) for cell in row.cells[:MOST_CELLS]), default=1))
        tops.append(top)
        has_moves = any(move.row <= place < move.to_row for move in moves)
        top += heights[-1] + (MOVE_ROOM if has_moves else BETWEEN_ROWS)
    parts, right = [], 0.0
    for row, row_top, height in zip(rows, tops, heights, strict=True):
        parts.append(text(0, row_top + FONT_SIZE + 3, row.label, "faint"))
        left = label_width
        for cell in row.cells[:MOST_CELLS]:
            parts.append(moved(_cell(cell, width, height), left, row_top))
            left += width + BETWEEN_CELLS
        more = len(row.cells) - MOST_CELLS
        if more > 0:
            parts.append(text(left, row_top + FONT_SIZE + 3, f"… {more} more", "faint"))
            left += width_of(f"… {more} more")
        right = max(right, left - BETWEEN_CELLS, width_of(row.label))

    def middle(cell: int) -> float:
        return label_width + cell * (width + BETWEEN_CELLS) + width / 2

    for move in moves:
        if max(move.cell, move.to_cell) < MOST_CELLS:
            start, end = (
                (middle(move.cell), tops[move.row] + heights[move.row]),
                (middle(move.to_cell), tops[move.to_row]),
            )
            parts.append(_arrow(*start, *end))
    bottom = tops[-1] + heights[-1] if rows else 0.0
    # NOTE: most slots have no state, and need no word for that.
    states = {cell.state for cell in cells} - {State.PLAIN}
    return Panel(right, bottom, "".join(parts), _in_words(rows, moves), frozenset(states))


def _cell(cell: Cell, width: float, height: float) -> str:
    parts = [box(cell.state, width, height)]
    for place, line in enumerate((cell.heading, *cell.lines)):
        parts.append(text(PADDING, FONT_SIZE + 3 + LINE * place, line, "faint" if place else "ink"))
    return element("g", "", "".join(parts), data_state=cell.state.name.lower())


def _arrow(left: float, top: float, right: float, bottom: float) -> str:
    end = bottom - 5
    bend = number((top + end) / 2)
    path = f"M{number(left)},{number(top)}C{number(left)},{bend} {number(right)},{bend} {number(right)},{number(end)}"
    head = f"M{number(right - 4)},{number(bottom - 7)}h8l-4,6Z"
    return element("path", "edge", d=path, data_move="") + element("path", "faint", d=head)


def _check(rows: Sequence[SlotRow], moves: Sequence[Move]) -> None:
    for place, move in enumerate(moves):
        ends = [(move.row, move.cell), (move.to_row, move.to_cell)]
        if move.row >= move.to_row or not all(
            0 <= row < len(rows) and 0 <= cell < len(rows[row].cells) for row, cell in ends
        ):
            raise ValueError(f"moves[{place}] = {move}, but should lead from an entry to one of a later row")


def _in_words(rows: Sequence[SlotRow], moves: Sequence[Move]) -> str:
    sentences = []
    for row in rows:
        cells = [
            " ".join([cell.heading, *cell.lines, *([] if cell.state is State.PLAIN else [cell.state.value])])
            for cell in row.cells[:MOST_CELLS]
        ]
        more = len(row.cells) - MOST_CELLS
        cells += [f"{more} more"] if more > 0 else []
        sentences.append(shown(f"{row.label}: ") + ", ".join(map(shown, cells)))
    for move in moves:
        source, target = rows[move.row].cells[move.cell], rows[move.to_row].cells[move.to_cell]
        sentences.append(
            shown(f"{source.heading} of {rows[move.row].label} goes to {target.heading} of {rows[move.to_row].label}")
        )
    return "; ".join(sentences)
