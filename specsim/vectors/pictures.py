"""A picture for operations of ``docs/reference``, of a worked example or of a call that is kept beside the pages.

``python -m specsim.vectors.pictures docs/reference`` writes them.
"""

import sys
from pathlib import Path

from specsim.conformance.backend import load
from specsim.conformance.cases import case_arguments
from specsim.conformance.outcomes import observe
from specsim.conformance.pictures import draw_call
from specsim.vectors.worked import read_calls, worked_calls

CALLS = "calls.toml"
"""Calls of operations that no worked example makes, beside the pages."""


def pictures(reference: Path) -> dict[Path, str]:
    """Return the picture of each operation that has a call, by its path."""
    calls = {**worked_calls(), **read_calls(reference / CALLS)}
    found = {}
    for operation, (arguments, *_) in sorted(calls.items()):
        observed = observe(load("specsim.reference"), operation, case_arguments(operation, arguments))
        found[reference / "pictures" / f"{operation}.svg"] = draw_call(operation, arguments, observed.outputs) + "\n"
    return found


if __name__ == "__main__":
    for _path, _text in pictures(Path(sys.argv[1])).items():
        _path.parent.mkdir(exist_ok=True)
        _path.write_text(_text, encoding="utf-8")
