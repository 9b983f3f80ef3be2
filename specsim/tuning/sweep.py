"""Ranges of sizes, what each combination accepts, and which of them no other one beats."""

import csv
import io
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import msgspec

from specsim.counts import path_width
from specsim.rejection import SpecRejection
from specsim.tuning.counted import Cell, Figures, figures_of
from specsim.tuning.ranges import check_cells

Count = Callable[[Cell], Cell]
"""Runs a configuration, and returns it with what was counted."""


@dataclass(frozen=True)
class Ranges:
    """What is combined.

    Parameters
    ----------
    topk, steps, draft_tokens : tuple of int
        Sizes; a chain has one node a level, whatever ``draft_tokens`` says.
    has_depth : bool
        Whether ``steps`` are something that a user chooses.
    has_breadth : bool
        Whether ``topk`` is.
    """

    topk: tuple[int, ...]
    steps: tuple[int, ...]
    draft_tokens: tuple[int, ...]
    has_depth: bool = True
    has_breadth: bool = True

    @property
    def num_cells(self) -> int:
        """How many combinations there are at most."""
        return len(self.topk) * len(self.steps) * len(self.draft_tokens)

    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Yield branching factor, steps and nodes of each combination; each chain once."""
        if not self.has_depth:
            for topk in self.topk if self.has_breadth else (1,):
                yield from ((topk, 0, nodes) for nodes in self.draft_tokens)
            return
        for topk in self.topk:
            for steps in self.steps:
                yield from (
                    (topk, steps, nodes) for nodes in ((path_width(steps),) if topk == 1 else self.draft_tokens)
                )


def combine(drafters: Sequence[tuple[str, Ranges]], temperature: float) -> list[Cell]:
    """Return the configurations of a sweep, before any of them is run.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: there are more than a million.
    """
    check_cells(sum(ranges.num_cells for _, ranges in drafters))
    return [Cell(name, *sizes, temperature=temperature) for name, ranges in drafters for sizes in ranges.sizes()]


def count_all(
    cells: Sequence[Cell], count: Count, on_progress: Callable[[str, int, int], None] | None = None, jobs: int = 1
) -> Iterator[Cell]:
    """Yield configurations in their order, with what was counted, or with the reason why one cannot run.

    With several jobs each runs in one of so many processes, which ``count`` is sent to.
    """
    with ExitStack() as stack:
        run: Callable[..., Iterator[Cell]] = map
        if jobs > 1:
            pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_ignore_interrupts)
            stack.callback(pool.shutdown, cancel_futures=True)
            run = pool.map
        counted = run(partial(_counted, count), cells)
        for done, cell in enumerate(cells):
            if on_progress is not None:
                on_progress(str(cell), done, len(cells))
            yield next(counted)


def _counted(count: Count, cell: Cell) -> Cell:
    try:
        return count(cell)
    except SpecRejection as rejection:
        return msgspec.structs.replace(cell, reason=str(rejection).partition(": ")[2])


def _ignore_interrupts() -> None:
    """Leave an interrupt to the process that waits: it prints what has run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class Row:
    """A configuration with its figures; None where it cannot run. ``is_frontier`` says that no other one beats it."""

    cell: Cell
    figures: Figures | None
    is_frontier: bool = False


def rows_of(cells: Sequence[Cell], seed: int) -> list[Row]:
    """Return configurations with figures, and mark those that are on the frontier."""
    rows = [Row(cell, None if cell.reason else figures_of(cell.requests, seed)) for cell in cells]
    costs = [(row.cell.draft_tokens, row.cell.draft_forwards) for row in rows]
    worth = [None if row.figures is None else row.figures.accepted_per_verify.value for row in rows]
    return [Row(row.cell, row.figures, _is_unbeaten(place, costs, worth)) for place, row in enumerate(rows)]


def _is_unbeaten(place: int, costs: Sequence[tuple[int, int]], worth: Sequence[float | None]) -> bool:
    """Return whether no other configuration accepts as much with as few nodes and forwards, and one of them better."""
    own = worth[place]
    if own is None:
        return False
    nodes, forwards = costs[place]
    return not any(
        other is not None
        and (cost[0] <= nodes and cost[1] <= forwards and other >= own)
        and (cost[0] < nodes or cost[1] < forwards or other > own)
        for cost, other in zip(costs, worth, strict=True)
    )


COLUMNS = (
    "drafter",
    "topk",
    "steps",
    "draft_tokens",
    "temperature",
    "worker",
    "requests",
    "verifies",
    "accepted_per_verify",
    "accepted_low",
    "accepted_high",
    "tokens_per_verify",
    "tokens_low",
    "tokens_high",
    "draft_forwards",
    "frontier",
    "reason",
)


def flat(row: Row) -> dict[str, Any]:
    """Return a row as a line of a table has it, None where there is no figure."""
    cell, figures = row.cell, row.figures
    names = ("drafter", "topk", "steps", "draft_tokens", "temperature", "worker", "draft_forwards", "reason")
    line: dict[str, Any] = {**dict.fromkeys(COLUMNS), **{name: getattr(cell, name) for name in names}}
    line["frontier"] = row.is_frontier
    if figures is None:
        return line | {"draft_forwards": None}
    accepted, tokens = figures.accepted_per_verify, figures.tokens_per_verify
    return line | {
        "requests": figures.num_requests,
        "verifies": figures.num_verifies,
        "accepted_per_verify": accepted.value,
        "accepted_low": accepted.low,
        "accepted_high": accepted.high,
        "tokens_per_verify": tokens.value,
        "tokens_low": tokens.low,
        "tokens_high": tokens.high,
    }


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as a CSV file, a line each under the names of the columns."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(flat, rows))
    return written.getvalue()
