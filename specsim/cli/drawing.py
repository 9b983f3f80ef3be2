"""Arrays of a call as a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from specsim.cli.output import plain_table
from specsim.cli.screen import Table
from specsim.conformance.drawing import strides_of

SHOWN_CHARACTERS = 300


def arrays_table(title: str, arrays: Mapping[str, Any]) -> Table:
    """Return a table of arrays: name, dtype, shape, entries."""
    table = plain_table("name", "dtype", "shape", "entries", title=title)
    for name, value in arrays.items():
        if isinstance(value, list):
            for index, entry in enumerate(value):
                table.add_row(f"{name}[{index}]", *_cells(entry))
        else:
            table.add_row(name, *_cells(value))
    return table


def _cells(value: Any) -> tuple[str, str, str]:
    if not isinstance(value, np.ndarray):
        return "", "", "not given" if value is None else str(value)
    entries = str(value.tolist())
    if len(entries) > SHOWN_CHARACTERS:
        entries = entries[:SHOWN_CHARACTERS] + " …"
    layout = strides_of(value)
    return value.dtype.name, f"{list(value.shape)}{f' {layout}' if layout else ''}", entries
