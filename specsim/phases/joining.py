"""Filter and merge: what a batch carries between iterations, when requests leave it and join it.

Which entries belong to a request is read from the contract of the class, so that no field can be forgotten.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from typing import Any, TypeVar

from specsim.assertion import require_kind
from specsim.contracts.binding import dtype_name
from specsim.contracts.contract import ArraySpec
from specsim.phases.draft import DraftInput
from specsim.phases.extend import EagleDraftExtendInput
from specsim.phases.form import library_of, reject_form
from specsim.rejection import Reason, SpecRejection

Joinable = TypeVar("Joinable", DraftInput, EagleDraftExtendInput)
Take = Callable[[Any, list[int]], Any]


def filter_batch(
    phase: Joinable,
    indices: Sequence[int],
    has_been_filtered: bool = False,
    strict: bool = True,
    take: Take | None = None,
) -> Joinable:
    """Keep some requests of a batch, in the order given.

    Parameters
    ----------
    phase : DraftInput or EagleDraftExtendInput
        What the batch carries; it is left as it is.
    indices : sequence of int
        Places of the requests that stay; of a ragged input their segments stay whole.
    has_been_filtered : bool
        The object holds those requests already, because verify dropped the others: only their number is compared.
    strict : bool
        Whether a wrong number is an error; otherwise it is a warning and the first so many requests stay.
    take : callable or None
        Takes an array and the places of entries, and returns these entries; None to index with them. An array on a
        device waits for a list of indices, but not for indices that are there.

    Returns
    -------
    filtered : like phase
        Every array and every copy on the host, of those requests only. An object whose rows still lie in relay buffers
        keeps their places.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a place outside the batch; INCONSISTENT_LENGTHS: already filtered, and to another number.
    TypeError
        The object is not carried between iterations.

    Notes
    -----
    Source: semantics D.8.
    """
    _require_joinable(phase)
    places = [int(place) for place in indices]
    is_relayed = isinstance(phase, DraftInput) and phase.future_indices is not None
    if has_been_filtered and not is_relayed:
        places = _already_filtered(phase, len(places), strict)
    for place in places:
        if not 0 <= place < phase.num_requests:
            expected = f"0 to {phase.num_requests - 1}"
            raise reject_form(phase, Reason.COUNT_OUT_OF_RANGE, "indices", place, expected, "it names a request")
    rows = {"request": places, "token": _rows_of_segments(phase, places)}
    changed: dict[str, Any] = {}
    for name, value in _carried(phase):
        changed[name] = tuple(value[place] for place in places) if isinstance(value, tuple) else None
        if changed[name] is None:
            kept = rows[_first_axis(phase, name)]
            changed[name] = value[kept] if take is None else take(value, kept)
    return replace(phase, **changed)


def merge_batch(one: Joinable, other: Joinable) -> Joinable:
    """Put the requests of another batch after those of this one.

    Parameters
    ----------
    one, other : DraftInput or EagleDraftExtendInput
        What the two batches carry, of one class; both are left as they are.

    Returns
    -------
    merged : like one
        ``other`` if ``one`` is empty, ``one`` if ``other`` is; else every array of ``one`` followed by that of
        ``other``.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: two classes; MISSING_ARGUMENT: one side lacks an array that the other has; WRONG_SHAPE,
        WRONG_DTYPE: entries of different forms; INCONSISTENT_LENGTHS: different tokens per request.
    TypeError
        One of the objects is not carried between iterations.

    Notes
    -----
    Source: semantics D.8.
    """
    _require_joinable(one)
    _require_joinable(other)
    if type(one) is not type(other):
        because = "a batch carries one class"
        raise SpecRejection(Reason.WRONG_PHASE, "merged phase input", type(other).__name__, type(one).__name__, because)
    if one.num_requests == 0:
        return other
    if other.num_requests == 0:
        return one
    changed: dict[str, Any] = {}
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        changed[field.name] = _join(one, field.name, left, right)
    return replace(one, **changed)


def _join(phase: Joinable, name: str, left: Any, right: Any) -> Any:
    if (left is None) != (right is None):
        because = "all requests of a batch carry the same"
        raise reject_form(phase, Reason.MISSING_ARGUMENT, name, "on one side only", "on both or on neither", because)
    if left is None:
        return None
    if isinstance(left, tuple):
        return left + right
    if isinstance(left, int):
        if left != right:
            because = "the extend of a batch has one width"
            raise reject_form(phase, Reason.INCONSISTENT_LENGTHS, name, right, str(left), because)
        return left
    if tuple(left.shape[1:]) != tuple(right.shape[1:]):
        expected = str(tuple(left.shape[1:]))
        because = "both sides have the same entries"
        raise reject_form(phase, Reason.WRONG_SHAPE, name, tuple(right.shape[1:]), expected, because)
    if dtype_name(left) != dtype_name(right):
        because = "both sides have the same entries"
        raise reject_form(phase, Reason.WRONG_DTYPE, name, dtype_name(right), dtype_name(left), because)
    return _concatenate(left, right)


def _concatenate(left: Any, right: Any) -> Any:
    """Concatenate two arrays with the function of their own library."""
    return library_of(left).concatenate([left, right])


def _already_filtered(phase: Joinable, count: int, strict: bool) -> list[int]:
    if count != phase.num_requests:
        wrong = reject_form(
            phase,
            Reason.INCONSISTENT_LENGTHS,
            "num_requests",
            phase.num_requests,
            str(count),
            "verify has dropped the requests that ended, and only those",
        )
        if strict:
            raise wrong
        warnings.warn(str(wrong), stacklevel=3)
    return list(range(min(count, phase.num_requests)))


def _rows_of_segments(phase: Joinable, places: Iterable[int]) -> list[int]:
    if not isinstance(phase, EagleDraftExtendInput):
        return []
    ends = list(accumulate(phase.num_accepted_tokens_cpu))
    return [row for place in places for row in range(ends[place] - phase.num_accepted_tokens_cpu[place], ends[place])]


def _carried(phase: Joinable) -> list[tuple[str, Any]]:
    """Return the fields that hold something of each request."""
    pairs = [(field.name, getattr(phase, field.name)) for field in fields(phase)]
    return [(name, value) for name, value in pairs if value is not None and not isinstance(value, int)]


def _first_axis(phase: Joinable, name: str) -> str:
    return require_kind(name, phase.contract.by_name[name], ArraySpec).axes[0]


def _require_joinable(phase: object) -> None:
    if not isinstance(phase, DraftInput | EagleDraftExtendInput):
        raise TypeError(f"{type(phase).__name__} is not carried between iterations: it has neither filter nor merge")
