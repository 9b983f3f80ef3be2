"""The page of ``specsim mutants``: the kill matrix as a grid."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.reports.failures import Laws
from specsim.reports.tables import Link, Status, Table, count, table

Document = Mapping[str, Any]

GENERATED = ("agreement", "strided", "mutation", "empty", "poison", "rejection", "anything", "given", "apart")
"""Kinds of properties that every operation has; the others are laws."""

LAWS = "laws"
MOST_OPEN = 100
"""Mutants whose grids stand open; of more, those stand open in which one lives."""

FIRST, TOO = "1", "+"
"""In a grid, the property that kills a mutant first, and those that kill it too."""


@dataclass(frozen=True)
class Grid:
    """The mutants of an operation, a row each, and the properties that kill any of them, a column each."""

    key: str
    operation: str
    num_killed: int
    properties: Sequence[str]
    rows: Sequence[Mapping[str, Any]]


def view(document: Document, laws: Laws) -> dict[str, Any]:
    """Return what the template of a kill matrix needs."""
    by_operation: dict[str, list[Mapping[str, Any]]] = {}
    for row in document["mutants"]:
        by_operation.setdefault(row["operation"], []).append(row)
    grids = [_grid(number, name, rows) for number, (name, rows) in enumerate(by_operation.items(), 1)]
    summaries = {row["id"]: row["summary"] for row in document["mutants"]}
    return {
        "overview": _overview(grids),
        "grids": grids,
        "survivors": _survivors(document, summaries, grids),
        "powerless": document["powerless"],
        "busiest": _busiest(document),
        "survives": Status("SURVIVES"),
        "is_small": len(document["mutants"]) <= MOST_OPEN,
    }


def _grid(number: int, operation: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    counted = Counter(name for row in rows for name in row["killed_by"])
    names = [name for name, _ in counted.most_common()]
    shown = [
        {
            "id": row["id"],
            "summary": row["summary"],
            "seeds": row["seeds"],
            "first": _first_example(row),
            "is_killed": bool(row["killed_by"]),
            "marks": _marks(names, row["killed_by"]),
        }
        for row in rows
    ]
    return Grid(f"grid-{number}", operation, sum(bool(row["killed_by"]) for row in rows), names, shown)


def _marks(names: Sequence[str], killed_by: Sequence[str]) -> list[str]:
    marks = dict.fromkeys(killed_by, TOO) | dict.fromkeys(killed_by[:1], FIRST)
    return [marks.get(name, "") for name in names]


def _first_example(row: Mapping[str, Any]) -> str:
    examples = [example for example in row["first_examples"] if example is not None]
    span = " to ".join(dict.fromkeys(str(bound(examples)) for bound in (min, max) if examples))
    middle = row["median"] if len(row["first_examples"]) > 1 else None
    return span if middle is None else f"{span}, median {middle:g}"


def _overview(grids: Sequence[Grid]) -> Table | None:
    """Return which kinds of properties kill first, by operation."""

    def cells(grid: Grid) -> list[str]:
        firsts = Counter(
            _kind(name)
            for row in grid.rows
            for name, mark in zip(grid.properties, row["marks"], strict=True)
            if mark == FIRST
        )
        return [count(firsts[kind]) if firsts[kind] else "" for kind in (*GENERATED, LAWS)]

    columns = ("operation", "#mutants", "#killed", *(f"#{kind}" for kind in (*GENERATED, LAWS)))
    rows = (
        [Link(grid.operation, grid.key), count(len(grid.rows)), count(grid.num_killed), *cells(grid)] for grid in grids
    )
    return table("overview-table", "Mutants of each operation, by the kind of property that kills first", columns, rows)


def _kind(name: str) -> str:
    kind = name.partition(".")[0]
    return kind if kind in GENERATED else LAWS


def _survivors(document: Document, summaries: Mapping[str, str], grids: Sequence[Grid]) -> Table | None:
    places = {row["id"]: grid.key for grid in grids for row in grid.rows}
    unseen = set(document.get("unseen", ()))
    seeds: dict[str, list[str]] = {}
    for one in document["survived"]:
        seeds.setdefault(one["id"], []).append(str(one["seed"]))
    rows = (
        (
            Link(name, places[name]),
            ", ".join(lived),
            "not seen under the limits" if name in unseen else "SURVIVES",
            summaries[name],
        )
        for name, lived in seeds.items()
    )
    return table("survivors-table", "Mutants that live", ("mutant", "seeds", "judged as", "what is wrong"), rows)


def _busiest(document: Document) -> Table | None:
    kills, firsts = Counter[str](), Counter[str]()
    for row in document["mutants"]:
        kills.update(row["killed_by"])
        firsts.update(row["killed_by"][:1])
    rows = ((name, count(number), count(firsts[name])) for name, number in kills.most_common())
    return table("killers-table", "Properties that kill", ("property", "#kills", "#kills first"), rows)
