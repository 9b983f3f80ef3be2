"""A picture for operations of ``docs/reference``, of a worked example or of a call that is kept beside the pages.

``python -m specsim.vectors.pictures docs/reference`` writes them.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from specsim.conformance.backend import load
from specsim.conformance.cases import case_arguments
from specsim.conformance.outcomes import observe
from specsim.conformance.pictures import draw_call
from specsim.vectors.worked import read_calls, worked_calls

MOST_ENTRIES = 200
CALLS = "calls.toml"
"""Calls of operations that no worked example makes, beside the pages."""


def pictures(reference: Path) -> dict[Path, str]:
    """Return the picture of each operation that has a call, by its path."""
    calls = {**worked_calls(), **read_calls(reference / CALLS)}
    found = {}
    for operation, of_operation in sorted(calls.items()):
        arguments = max(of_operation, key=_size_of)
        observed = observe(load("specsim.reference"), operation, case_arguments(operation, arguments))
        found[reference / "pictures" / f"{operation}.svg"] = draw_call(operation, arguments, observed.outputs) + "\n"
    return found


def _size_of(arguments: Mapping[str, Any]) -> int:
    """Return how many entries the arrays of a call have, of those that a reader can take in."""
    size = sum(value.size for value in arguments.values() if isinstance(value, np.ndarray))
    return size if size <= MOST_ENTRIES else 0


if __name__ == "__main__":
    for _path, _text in pictures(Path(sys.argv[1])).items():
        _path.parent.mkdir(exist_ok=True)
        _path.write_text(_text, encoding="utf-8")
