"""The page of ``specsim matrix``: cells, laws, what is refused, and which values failing cells share."""

from collections.abc import Mapping
from typing import Any

from specsim.reports.check import ran_in_words
from specsim.reports.failures import Laws, shown_failures
from specsim.reports.tables import Status, Table, count, table

Document = Mapping[str, Any]

NOT_COUNTED = ("name", "mode", "verdict", "histories", "failures", "short")
"""Keys of a cell that are neither factors nor counts."""


def view(document: Document, laws: Laws) -> dict[str, Any]:
    """Return what the template of a matrix needs."""
    shown = shown_failures(
        document["failure_records"], laws, num_rows=len(document["cells"]) + len(document["laws"]), unit="history"
    )
    places = {one.record["property"]: one.key for one in reversed(shown)}
    return {
        "failures": shown,
        "values": _values(document),
        "covered": [f"{_share(document[what])} allowed {what} of values are covered" for what in ("pairs", "triples")],
        "cells": _cells(document, places),
        "laws": _laws(document, places),
        "refused": _refused(document),
        "ran": ran_in_words(document),
    }


def _share(covered: Mapping[str, int]) -> str:
    return f"{covered['covered']:,} of {covered['allowed']:,}"


def _cells(document: Document, places: Mapping[str, str]) -> Table | None:
    factors = list(document["factors"])
    first: Mapping[str, Any] = next(iter(document["cells"]), {})
    counts = [key for key in first if key not in (*factors, *NOT_COUNTED)]
    has_modes = len({one["mode"] for one in document["cells"]}) > 1

    def row(one: Mapping[str, Any]) -> list[Any]:
        place = places.get(f"cells.{one['mode']}.{one['name']}", "")
        numbers = [count(one[key]) for key in ("histories", *counts)]
        return [one["name"], *[one["mode"]] * has_modes, Status(one["verdict"], place), *numbers]

    words = [f"#{key.replace('_', ' ')}" for key in ("histories", *counts)]
    columns = ("cell", *["mode"] * has_modes, "verdict", *words)
    return table("cells-table", "Cells", columns, map(row, document["cells"]))


def _values(document: Document) -> Table | None:
    """Return how many cells have each value of a factor, and how many of these fail."""
    rows = []
    for factor, values in document["factors"].items():
        for value in values:
            having = [one for one in document["cells"] if one[factor] == value]
            failing = sum(one["verdict"] == "fails" for one in having)
            rows.append((f"{factor.replace('_', ' ')} {_word(value)}", count(len(having)), count(failing)))
    return table("values-table", "Values of the factors", ("value", "#cells", "#cells that fail"), rows)


def _word(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _laws(document: Document, places: Mapping[str, str]) -> Table | None:
    def row(one: Mapping[str, Any]) -> list[Any]:
        place = places.get(f"laws.{one['mode']}.{one['cell']}", "")
        verdict = Status("not run" if one["verdict"] == "not tried" else one["verdict"], place)
        counts = [count(one[key]) for key in ("runs", "outcomes", "runs_with_accepted_drafts", "seeded_runs")]
        return [one["cell"], one["algorithm"], one["shape"], verdict, *counts, one["refused"]]

    counts = ("#ways to go", "#outcomes", "#with accepted drafts", "#by a seed")
    columns = ("cell", "algorithm", "shape", "verdict", *counts, "refused because")
    return table("laws-table", "Exact distributions of a sampled output", columns, map(row, document["laws"]))


def _refused(document: Document) -> Table | None:
    rows = [
        (_combination(one["combination"]), count(one["cells"]), reason["by"], reason["because"])
        for one in document["refused"]
        for reason in one["reasons"]
    ]
    return table("refused-table", "What no cell may have together", ("values", "#cells", "refused by", "because"), rows)


def _combination(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in values.items())
