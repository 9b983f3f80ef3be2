"""The page of ``specsim bench``: what was timed as charts, and every row as a table."""

from collections.abc import Callable, Mapping
from typing import Any

from specsim.reports.charts import bars_of, lines_of
from specsim.reports.failures import Laws
from specsim.reports.tables import Table, table

Document = Mapping[str, Any]

COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("target_us", "target µs", lambda value: f"{value:,.1f}"),
    ("median_us", "median µs", lambda value: f"{value:,.2f}"),
    ("low_us", "5 % µs", lambda value: f"{value:,.2f}"),
    ("high_us", "95 % µs", lambda value: f"{value:,.2f}"),
    ("times_target", "times target", lambda value: f"{value:,.2f}"),
    ("engines_us", "engines today µs", str),
    ("floor_us", "floor µs", lambda value: f"{value:,.2f}"),
    ("times_floor", "times floor", lambda value: f"{value:,.2f}"),
    ("share_of_floor", "share of floor", lambda value: f"{value:.0%}"),
    ("num_launches", "launches", lambda value: f"{value:,.0f}"),
    ("num_bytes", "bytes", lambda value: f"{value:,.0f}"),
    ("share_of_copy", "of copy", lambda value: f"{value:.0%}"),
    ("eager_us", "eager µs", lambda value: f"{value:,.1f}"),
    ("torch_us", "torch µs", lambda value: f"{value:,.2f}"),
    ("host_us", "host µs", lambda value: f"{value:,.1f}"),
    ("prepared_us", "prepared µs", lambda value: f"{value:,.1f}"),
    ("peer_us", "peer µs", lambda value: f"{value:,.2f}"),
    ("peer_times_ours", "peer / ours", lambda value: f"{value:,.2f}"),
    ("times_baseline", "times baseline", lambda value: f"{value:,.2f}"),
)
"""What a row may have, its title, and how it is written; a column that no row has is left out."""


def view(document: Document, laws: Laws) -> dict[str, Any]:
    """Return what the template of latencies needs."""
    rows = document["rows"] if "rows" in document else document["latencies"]
    by_operation: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_operation.setdefault(row["operation"], []).append(row)
    of_shape = {(row["operation"], row["shape"]): row for row in rows}
    growths = [lines_of(growth, of_shape) for growth in document.get("growth", ())]
    lost = ((one["operation"], one["shape"], one["error"]) for one in document["unmeasured"])
    return {
        "bars": [bars_of(name, own) for name, own in by_operation.items()],
        "growths": [one for one in growths if one is not None],
        "rows": _rows(rows),
        "unmeasured": table("unmeasured-table", "Rows that could not be timed", ("operation", "shape", "why"), lost),
        "machine": [
            f"{words}: {document[key] / unit:,.2f} {name}"
            for key, words, unit, name in (
                ("launch_us", "The shortest launch", 1, "µs"),
                ("copy_bandwidth", "A large copy", 1e12, "TB/s"),
            )
            if key in document
        ],
    }


def _rows(rows: list[Mapping[str, Any]]) -> Table | None:
    columns = [column for column in COLUMNS if any(row.get(column[0]) not in (None, "") for row in rows)]

    def cell(row: Mapping[str, Any], key: str, write: Callable[[Any], str]) -> str:
        return "–" if row.get(key) is None else write(row[key])

    return table(
        "rows-table",
        "Every row",
        ("operation", "shape", *(f"#{title}" for _, title, _ in columns)),
        ([row["operation"], row["shape"], *(cell(row, key, write) for key, _, write in columns)] for row in rows),
    )
