"""Input that the contract refuses and an engine meets: rows of NaN, no mass, ids out of range, lengths of 0."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.contracts.contract import ArraySpec, Unit
from specsim.contracts.kinds import is_floating
from specsim.operations import RECORDS
from specsim.properties.strategies.arrays import Array, Bulk
from specsim.properties.strategies.malformed.arguments import Arguments, array_at, num_arrays, with_array

IDS = (Unit.TOKEN, Unit.NODE, Unit.CANDIDATE, Unit.SLOT, Unit.ROW, Unit.POSITION, Unit.STATE, Unit.OFFSET)
LENGTHS = (Unit.COUNT, Unit.OFFSET)
ROWS = {Unit.PROBABILITY: 0.0, Unit.LOGIT: -np.inf}
"""What a row without mass holds."""

FAR = 5
"""How far beyond what an array holds an id lies that is a little too large; another one is as large as its type has."""


@dataclass(frozen=True)
class Unpromised:
    """A call with one thing wrong, in words: ``NaN in target_probs``."""

    words: str
    arguments: Arguments


def unpromised_calls(operation: str, case: Arguments, source: Bulk) -> Iterator[Unpromised]:
    """Yield calls with one array of a well-formed one changed: each array once in every way that it can be.

    Element types, shapes and scalars stay as they are. What happens to be well-formed still is among them.
    """
    for spec in RECORDS[operation].contract.arrays:
        for index in range(num_arrays(spec, case)):
            values = array_at(case, spec, index)
            if values.size:
                for words, changed in _changes(spec, values, source):
                    yield Unpromised(f"{words} in {spec.name}", with_array(case, spec, index, changed))


def _changes(spec: ArraySpec, values: Array, source: Bulk) -> Iterator[tuple[str, Array]]:
    row = source.integer(0, max(values.size // values.shape[-1], 1) - 1) if values.ndim else 0

    def with_row(value: Any) -> Array:
        changed = np.array(values)
        changed.reshape(-1, changed.shape[-1] if changed.ndim > 1 else 1)[row] = value
        return changed

    if is_floating(values.dtype):
        yield "NaN", with_row(np.nan)
        if spec.unit in ROWS and spec.axes[-1] == "vocab":
            yield "a row without mass", with_row(ROWS[spec.unit])
    if values.dtype.kind in "iu" and spec.unit in IDS:
        # NOTE: indices by which a kernel reads past its arrays by little, by much, and before them.
        numbers = int(values.max()) + FAR, np.iinfo(values.dtype).max, -2
        for words, number in zip(("an id too large", "the largest id", "a negative id"), numbers, strict=True):
            if np.iinfo(values.dtype).min <= number <= np.iinfo(values.dtype).max:
                yield words, _with_entry(values, source, number)
    if values.dtype.kind in "iu" and spec.unit in LENGTHS:
        yield "lengths of 0", np.zeros_like(values)
        yield "a length of 0", _with_entry(values, source, 0)


def _with_entry(values: Array, source: Bulk, number: int) -> Array:
    changed = np.array(values)
    changed.reshape(-1)[source.integer(0, changed.size - 1)] = number
    return changed
