"""The smallest case of a failure that bytes came to, as a case file."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np

import specsim
from specsim.conformance.backend import Backend
from specsim.conformance.cases import write_case
from specsim.conformance.stored import Provenance
from specsim.properties.property import Property
from specsim.properties.suite.conformance.running import failure_of
from specsim.properties.suite.conformance.saving import case_of
from specsim.properties.suite.conformance.smaller import weigh
from specsim.properties.suite.conformance.units import NOT_KEPT
from specsim.rejection import SpecRejection

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
    case, error = min(reversed(found), key=lambda failed: weigh(failed[0]))
    smallest = failure_of(one, backend, error, case)
    if smallest.case is None:
        return "its case is no call of one operation"
    # NOTE: of a call outside the domain not every argument can be written.
    versions = {one.__name__: str(one.__version__) for one in (specsim, np, hypothesis)}
    try:
        kept, _ = case_of(smallest, backend, Provenance(backend.name, 0, versions))
        return f"smallest case: {write_case(kept, folder)}"
    except OSError as error:
        return f"{NOT_KEPT}: {folder}: {error.strerror}"
    except SpecRejection as refusal:
        return f"{NOT_KEPT}: {refusal}"
