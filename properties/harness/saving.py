"""The smallest case of a failure that bytes came to, as a case file."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np

import specsim
from specsim.conformance.backend import Backend
from specsim.conformance.carrying import as_list
from specsim.conformance.cases import write_case
from specsim.conformance.stored import Provenance
from specsim.properties.conformance.running import failure_of
from specsim.properties.conformance.saving import case_of
from specsim.properties.property import Property

Found = tuple[Any, Exception]
"""A case that fails, and why."""


def save_smallest(
    one: Property, backend: Backend, found: list[Found], folder: Path, shrink: Callable[[], object]
) -> str:
    """Make a case that fails smaller and write it; return a line that says where, or why not.

    Parameters
    ----------
    found : list of (case, error)
        What failed first, then what does while it is made smaller.
    shrink : callable
        Makes it smaller, and raises what the smallest one raises.
    """
    # NOTE: an implementation may fail in any way, or no more; what is known then is what was found.
    with suppress(Exception):
        shrink()
    case, error = min(reversed(found), key=lambda failed: num_entries(failed[0]))
    smallest = failure_of(one, backend, error, case)
    if smallest.case is None:
        return "its case is no call of one operation"
    versions = {one.__name__: str(one.__version__) for one in (specsim, np, hypothesis)}
    kept, _ = case_of(smallest, backend, Provenance(backend.name, 0, versions))
    try:
        return f"smallest case: {write_case(kept, folder)}"
    except OSError as error:
        return f"its case is not kept: {folder}: {error.strerror}"


def num_entries(case: Any) -> int:
    """Return the number of entries of all arrays of a call; of another case nothing is known."""
    if not isinstance(case, dict):
        return 0
    return sum(np.size(array) for value in case.values() for array in as_list(value) if array is not None)
