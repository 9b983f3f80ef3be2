"""What a case expects beside what was observed, entry by entry."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.cases import Case
from specsim.contracts.binding import bind, defined_mask
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection

MOST_ENTRIES = 96
"""Entries of an array that is shown whole; of a larger one the places that differ are."""

MOST_PLACES = 12


class Piece(NamedTuple):
    """A part of a line: what it says, whether it differs, and whether it has no meaning."""

    text: str
    differs: bool = False
    is_undefined: bool = False


Line = tuple[Piece, ...]


@dataclass(frozen=True)
class Compared:
    """An output, or how a call ended: what is expected, and what was got, in lines.

    ``form`` is element type and shape, where both have the same.
    """

    name: str
    form: str
    expected: tuple[Line, ...]
    got: tuple[Line, ...]
    differs: bool

    @property
    def pieces(self) -> tuple[Line, ...]:
        """All lines."""
        return self.expected + self.got


def compared(case: Case) -> list[Compared]:
    """Return every output of a case; how the call ended, where one of the two has none."""
    expected, observed = case.expected, case.observed
    if not (expected.outputs and observed.outputs):
        wanted, got = expected.in_words(), observed.in_words()
        return [Compared("outcome", "", (_line(wanted),), (_line(got),), wanted != got)]
    return [
        _compared(label, wanted, got, mask)
        for name in expected.outputs
        for label, wanted, got, mask in _entries(case, name)
    ]


def _entries(case: Case, name: str) -> Iterator[tuple[str, Any, Any, NDArray[np.bool_] | None]]:
    """Yield an output with what was got and which of its entries have a meaning; of a list each of its arrays."""
    wanted, got = case.expected.outputs[name], case.observed.outputs.get(name)
    if not isinstance(wanted, list):
        yield name, wanted, got, _mask(case, name, wanted)
        return
    entries = got if isinstance(got, list) else []
    for place, one in enumerate(wanted):
        other = entries[place] if place < len(entries) else None
        yield f"{name}[{place}]", one, other, _mask(case, name, one)


def _mask(case: Case, name: str, wanted: Any) -> NDArray[np.bool_] | None:
    """Return which entries the contract defines; None where it cannot be said of this call."""
    contract = RECORDS[case.operation].contract
    spec = contract.by_name[name]
    arrays: Mapping[str, Any] = {**case.arguments, **case.expected.outputs}
    if not (isinstance(spec, ArraySpec) and isinstance(wanted, np.ndarray)):
        return None
    try:
        return defined_mask(spec, wanted.shape, arrays, bind(case.operation, contract, case.arguments))
    except (SpecRejection, ValueError, IndexError):  # NOTE: a call outside of the domain defines nothing.
        return None


def _compared(name: str, wanted: Any, got: Any, mask: NDArray[np.bool_] | None) -> Compared:
    is_alike = all(isinstance(one, np.ndarray) for one in (wanted, got)) and _form(wanted) == _form(got)
    if not is_alike:
        forms = _form(wanted), _form(got)
        expected, observed = (
            (_line(form), *_lines(one, None, None)) for form, one in zip(forms, (wanted, got), strict=True)
        )
        return Compared(name, "", expected, observed, forms[0] != forms[1])
    differs = _unequal(wanted, got)
    if mask is not None:
        differs &= mask
    is_any = bool(differs.any())
    if wanted.size <= MOST_ENTRIES:
        expected, observed = (_lines(one, differs, mask) for one in (wanted, got))
        return Compared(name, _form(wanted), expected, observed, is_any)
    places = np.argwhere(differs)[:MOST_PLACES]
    more = int(differs.sum()) - len(places)
    rest = [_line(f"and {more:,} more")] if more else [] if is_any else [_line("the same")]
    expected, observed = ((*(_at(one, tuple(map(int, place))) for place in places), *rest) for one in (wanted, got))
    return Compared(name, _form(wanted), expected, observed, is_any)


def _unequal(wanted: NDArray[Any], got: NDArray[Any]) -> NDArray[np.bool_]:
    if wanted.dtype.kind in "iub":
        return np.asarray(wanted != got)
    # NOTE: floats of a case may differ by rounding, which the message of the failure has judged already.
    return ~np.isclose(wanted.astype(np.float64), got.astype(np.float64), rtol=1e-5, atol=1e-7, equal_nan=True)


def _at(value: NDArray[Any], place: tuple[int, ...]) -> Line:
    where = ", ".join(map(str, place))
    return (Piece(f"[{where}] = "), Piece(_number(value[place]), differs=True))


def _lines(value: Any, differs: NDArray[np.bool_] | None, mask: NDArray[np.bool_] | None) -> tuple[Line, ...]:
    """Return an array with one innermost row a line."""
    if not isinstance(value, np.ndarray):
        return ()
    if value.size > MOST_ENTRIES:
        return (_line(f"{value.reshape(-1)[:MOST_ENTRIES].tolist()} …"),)
    rows = value.reshape(-1, value.shape[-1]) if value.ndim and value.size else value.reshape(1, -1)
    marks = [None if one is None else one.reshape(rows.shape) for one in (differs, mask)]
    return tuple(_row(row, *(None if one is None else one[place] for one in marks)) for place, row in enumerate(rows))


def _row(row: NDArray[Any], differs: NDArray[np.bool_] | None, mask: NDArray[np.bool_] | None) -> Line:
    pieces = [Piece("[")]
    for place, entry in enumerate(row):
        is_undefined = mask is not None and not mask[place]
        word = f"({_number(entry)})" if is_undefined else _number(entry)
        pieces += [Piece(", ")] * (place > 0)
        pieces.append(Piece(word, differs is not None and bool(differs[place]), is_undefined))
    return (*pieces, Piece("]"))


def _number(entry: Any) -> str:
    value = entry.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} {list(value.shape)}"
    return "nothing" if value is None else type(value).__name__


def _line(text: str) -> Line:
    return (Piece(text),)
