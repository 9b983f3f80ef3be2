"""What laws share: assertions whose message says what, got and expected, and ways to take a batch apart."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from operator import ne
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from specsim.assertion import require as require
from specsim.assertion import require_kind as require_kind
from specsim.assertion import require_present as require_present
from specsim.conformance.backend import Backend
from specsim.contracts.contract import ArraySpec
from specsim.contracts.rounding import is_rounded
from specsim.operations import RECORDS
from specsim.properties.property import OF_EAGLE, Property
from specsim.properties.strategies import for_operation
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.validation.checking import check_call

Case = dict[str, Any]
Array = NDArray[Any]
Counts = Mapping[str, Sequence[int]]


def for_each(law: Callable[[Backend, Any], None]) -> Callable[[Backend, Sequence[Any]], None]:
    """Return a law of the same name that takes several cases and asks the same of each."""

    @wraps(law)
    def holds(backend: Backend, cases: Sequence[Any]) -> None:
        for case in cases:
            law(backend, case)

    return holds


def require_same(what: str, got: Any, expected: Any) -> None:
    """Raise AssertionError unless two values of any kind are equal, as a whole."""
    require(got == expected, what, got, expected)


def require_equal(what: str, got: Any, expected: Any) -> None:
    """Raise AssertionError unless two arrays, lists or numbers agree in shape and in every entry."""
    _require_nowhere(ne, what, np.asarray(got), np.asarray(expected))


def require_rounded(what: str, got: Any, expected: Any, exponents: Any = 0.0) -> None:
    """Raise AssertionError unless two arrays of probabilities agree but for rounding of rows and exponents."""
    got, expected = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    _require_nowhere(lambda one, other: ~is_rounded(other, one, exponents), what, got, expected)


def _require_nowhere(differs: Callable[[Array, Array], Any], what: str, got: Array, expected: Array) -> None:
    """Raise AssertionError unless two arrays have one shape and no entry that differs."""
    if got.shape != expected.shape:
        raise AssertionError(f"{what} has shape {got.shape}, but should have {expected.shape}")
    for place in map(tuple, np.argwhere(differs(got, expected)).tolist()[:1]):
        index = f"[{', '.join(map(str, place))}]" if place else ""
        raise AssertionError(f"{what}{index} = {got[place]}, but should be {expected[place]}")


def refuses(reason: Reason, call: Callable[[], Any]) -> None:
    """Raise AssertionError unless a call is refused for a reason."""
    try:
        call()
    except SpecRejection as refusal:
        if isinstance(refusal, WorkerRefusal) and refusal.reason is not reason:
            raise
        require(refusal.reason is reason, "reason of the refusal", refusal.reason.name, reason.name)
    else:
        require(False, "a call that is to be refused", "taken", reason.name)


def outcome_of(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    """Return what a call returns, the reason if it is refused, or which of some errors it raises."""
    try:
        return call()
    except SpecRejection as refusal:
        return refusal.reason
    except errors as error:
        return next(kind for kind in errors if isinstance(error, kind))


def outputs_of(backend: Backend, operation: str, case: Case) -> dict[str, Any]:
    """Call an operation on copies of the case and return what it returned and wrote, by name."""
    return backend.run(operation, case).outputs


def block(values: Array, num_requests: int, request: int) -> Array:
    """Return the entries of one request of a flat, request-major array."""
    width = len(values) // num_requests
    return values[request * width : (request + 1) * width]


def take_blocks(values: Array, num_requests: int, requests: Sequence[int]) -> Array:
    """Return the blocks of some requests of a flat, request-major array, in the order given."""
    return np.concatenate([values[:0], *(block(values, num_requests, request) for request in requests)])


def cut(values: Array, counts: Sequence[int]) -> list[Array]:
    """Return the segments of a flat array, of which each request has so many entries, one after another."""
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


def joined(parts: Sequence[Array]) -> Array:
    """Return arrays of numbers one after another; without any of them, no number."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def arrangements(num_requests: int) -> list[list[int]]:
    """Return batches to compare with the whole: reversed, rotated, and each request alone."""
    everyone = list(range(num_requests))
    return [everyone[::-1], everyone[1:] + everyone[:1], *([request] for request in everyone)]


def batch_of(operation: str, case: Case, requests: Sequence[int], counts: Counts | None = None) -> Case:
    """Return the call of some requests of a batch, in the order given; nodes that are numbered in it are renumbered.

    What belongs to a request is what the table says: entries, or blocks, of an axis that begins with that of requests.
    ``counts`` is how many entries each request has of those flat arrays, by name, of which not all have as many.
    """
    return _Taking.of(operation, case, requests, counts).batch(operation, case)


@dataclass(frozen=True)
class _Taking:
    """Which requests are taken of a batch of so many, what is ragged, the axis of requests, and nodes of each."""

    requests: Sequence[int]
    num_requests: int
    counts: Counts
    axis: str
    num_nodes: int

    @classmethod
    def of(
        cls, operation: str, case: Case, requests: Sequence[int], counts: Counts | None = None, axis: str = "request"
    ) -> "_Taking":
        """Return what takes requests of a call."""
        axes = check_call(operation, case, values=False)
        return cls(requests, axes[axis], counts or {}, axis, axes.get("node", 0))

    def batch(self, operation: str, case: Case) -> Case:
        """Return the call of the requests alone."""
        arrays = RECORDS[operation].contract.arrays
        return {**case, **{spec.name: self.part(spec, case[spec.name]) for spec in arrays if spec.name in case}}

    def part(self, spec: ArraySpec, values: Any) -> Any:
        """Return the part of an argument or an output that belongs to the requests."""
        places = [place for place, axis in enumerate(spec.axes) if re.fullmatch(rf"{self.axis}(\*.*)?", axis)]
        if values is None or not (places or spec.name in self.counts):
            return values
        if spec.each is not None:
            return [entries[self.requests] for entries in values]
        along = places[0] if places else 0
        width = values.shape[along] // max(self.num_requests, 1)
        owned = cut(np.arange(values.shape[along]), self.counts.get(spec.name, [width] * self.num_requests))
        taken = np.take(values, joined([owned[request] for request in self.requests]), axis=along)
        if spec.high != f"{self.axis}*node-1":
            return taken
        moves = [(new - old) * self.num_nodes for new, old in enumerate(self.requests)]
        by_entry = np.repeat(moves, [len(owned[request]) for request in self.requests]).astype(taken.dtype)
        return np.where(taken < 0, taken, taken + by_entry.reshape(-1, *[1] * (taken.ndim - 1)))


def require_one_by_one(
    backend: Backend,
    operation: str,
    case: Case,
    outputs: Sequence[str],
    compare: Callable[[str, Any, Any], None] = require_equal,
    counts: Counts | None = None,
    axis: str = "request",
    is_right: Callable[[str, Case, Case, Case], bool] | None = None,
) -> None:
    """Raise AssertionError unless outputs of a request are the same alone, and in any order of the batch.

    Parameters
    ----------
    outputs : sequence of str
        Those that are compared.
    compare : callable
        Compares a part of the whole output with that of a batch.
    counts : mapping or None
        How many entries each request has of those flat arrays, by name, of which not all have as many.
    axis : str
        What the table calls requests.
    is_right : callable or None
        Takes the operation, a batch, the outputs that are expected of it and those that it has, and returns whether it
        is right although they differ.
    """
    whole, specs = outputs_of(backend, operation, case), {one.name: one for one in RECORDS[operation].contract.outputs}
    for requests in arrangements(check_call(operation, case, values=False)[axis]):
        taking = _Taking.of(operation, case, requests, counts, axis)
        batch = taking.batch(operation, case)
        got = outputs_of(backend, operation, batch)
        expected = {name: taking.part(specs[name], whole[name]) for name in outputs if whole[name] is not None}
        for name in () if is_right is not None and is_right(operation, batch, expected, got) else expected:
            compare(f"{name} of batch {requests}", got[name], expected[name])


def state(
    group: str,
    law: Callable[[Backend, Any], None],
    strategy: Callable[[], SearchStrategy[Any]],
    operations: Sequence[str],
    catalogue: str = "",
    **options: Any,
) -> Property:
    """Return the property that a law states, named after its function; ``options`` are further fields of it."""
    return Property(f"{group}.{law.__name__}", catalogue, tuple(operations), strategy, law, **options)


def states(group: str, *stated: tuple[Any, ...]) -> tuple[Property, ...]:
    """Return the properties of a group.

    Of each there is its law; its strategy, where that is not the one of its first operation; its operations, or the
    name of the only one; and its number if it has one.
    """
    properties = []
    for law, *rest in stated:
        drawn, operations, *number = rest if callable(rest[0]) else (None, *rest)
        names = (operations,) if isinstance(operations, str) else operations
        properties.append(state(group, law, drawn or partial(for_operation, names[0]), names, *number))
    return tuple(properties)


def states_of_runs(group: str, *stated: tuple[Any, ...], **options: Any) -> tuple[Property, ...]:
    """Return the properties of a group that laws state of whole runs, on an implementation's own worker if it has one.

    Of each there is its law, its strategy, its operations, its number, which may be empty, and further fields of it if
    it has any. ``options`` are further fields of all.
    """
    options = {"is_slow": True, "fills_missing": True, "plays": OF_EAGLE, **options}
    return tuple(
        state(group, law, strategy, operations, number, **{**options, **dict(*own)})
        for law, strategy, operations, number, *own in stated
    )


def local_path(accept_index: Array, request: int, num_nodes: int) -> list[int]:
    """Return the accepted nodes of a request, numbered within it."""
    return [node - request * num_nodes for node in accept_index[request].tolist() if node >= 0]
