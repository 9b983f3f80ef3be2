"""A saved document of ``specsim bench``, and how many times as long its rows take now."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.cli.output import Exit, Failed
from specsim.installation import versions_of

Row = Mapping[str, Any]
TOLERANCE = 0.1
"""How much longer than in a baseline a row may take."""


def versions_here() -> dict[str, str]:
    """Return the versions on which times depend."""
    return {"python": platform.python_version(), **versions_of(("torch", "triton"))}


@dataclass(frozen=True)
class Baseline:
    """Medians of a saved document by operation and shape, and what they were measured with."""

    path: Path
    device: str
    versions: Mapping[str, str]
    medians: Mapping[tuple[str, str], float]

    def beside(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return rows with how many times their median of the baseline they take, None for those that it lacks."""
        known = [self.medians.get((row["operation"], row["shape"])) for row in rows]
        return [
            {**row, "times_baseline": None if median is None else row["median_us"] / median}
            for row, median in zip(rows, known, strict=True)
        ]

    def what_differs(self, device: str, versions: Mapping[str, str]) -> str:
        """Return what was measured with another device or another version, and with which; empty if nothing was."""
        then, now = {"device": self.device, **self.versions}, {"device": device, **versions}
        names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        differ = [f"{name} {then.get(name, 'unknown')} there and {now.get(name, 'none')} here" for name in names]
        return ", ".join(differ)


def read_baseline(path: Path) -> Baseline:
    """Read a document that ``--save`` or ``--json`` has written.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or is none.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = document["rows"] if "rows" in document else document["latencies"]
        medians = {(str(row["operation"]), str(row["shape"])): float(row["median_us"]) for row in rows}
        versions = {str(name): str(version) for name, version in document.get("versions", {}).items()}
        if not all(0 < median < float("inf") for median in medians.values()):
            raise ValueError("a median is no positive number")
        return Baseline(path, str(document["device"]), versions, medians)
    except OSError as error:
        raise Failed(f"--baseline {path}: {error.strerror}", Exit.USAGE) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Failed(f"--baseline {path}: it is no document of specsim bench", Exit.USAGE) from error


def open_to_save(path: Path) -> None:
    """Check that a document can be saved, before anything is run.

    Raises
    ------
    Failed
        USAGE: it cannot.
    """
    try:
        path.open("a").close()
    except OSError as error:
        raise Failed(f"--save {path}: {error.strerror}", Exit.USAGE) from error
