"""What a call gave, and the first place where two such results differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require_kind
from specsim.conformance.backend import Backend, Outcome
from specsim.conformance.carrying import as_list, labelled
from specsim.conformance.plain_text import first_line
from specsim.conformance.stored_arrays import is_storable
from specsim.contracts.attended import attention_bounds
from specsim.contracts.binding import Bindings, bind, defined_mask, is_floating
from specsim.contracts.contract import ArraySpec, Unit
from specsim.contracts.rounding import largest_exponents, logprob_bound, probability_bound
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection


@dataclass(frozen=True)
class Observation:
    """Arrays, or the reason of a rejection, or the words of an error; the other two are empty.

    ``outputs`` holds the returned arrays and those arguments that the table lets the operation write.
    """

    outputs: dict[str, Any] = field(default_factory=dict)
    rejection: str = ""
    error: str = ""

    def in_words(self) -> str:
        """Return one line."""
        if self.rejection:
            return f"a rejection, {self.rejection}"
        return self.error or "arrays"


def observe(backend: Backend, operation: str, arguments: Mapping[str, Any]) -> Observation:
    """Call an operation on copies of the arguments and keep whatever comes of it."""
    try:
        outcome: Outcome = backend.run(operation, arguments)
    except SpecRejection as rejection:
        return Observation(rejection=rejection.reason.name)
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        return Observation(error=f"{type(error).__name__}: {first_line(error)}")
    for name, value in outcome.outputs.items():
        if value is not None and not all(map(is_storable, as_list(value))):
            return Observation(error=f"TypeError: {name} is no array of numbers")
    return Observation(outputs=outcome.outputs)


def first_difference(
    operation: str,
    arguments: Mapping[str, Any],
    expected: Observation,
    observed: Observation,
    left_out: NDArray[np.bool_] | None = None,
) -> str | None:
    """Say where two observations of one call differ, or None; entries without meaning are not compared.

    Nor is scratch memory that an implementation declares not to write: there is None of it.

    Parameters
    ----------
    operation, arguments : str, mapping
        The call.
    expected, observed : Observation
        Everything is compared bit for bit but probabilities, their logarithms, and attention that the operation
        returns: these may differ by rounding.
    left_out : bool [unit] or None
        Rows or requests that are not compared; the first axis of every output is cut into as many blocks.

    Returns
    -------
    difference : str or None
        ``num_accepted_drafts[1] = 2, but should be 3``.
    """
    if expected.rejection or expected.error or observed.rejection or observed.error:
        if (expected.rejection, expected.error) == (observed.rejection, observed.error):
            return None
        return f"{operation} = {observed.in_words()}, but should be {expected.in_words()}"
    contract = RECORDS[operation].contract
    bindings = bind(operation, contract, arguments)
    call = _Call({**arguments, **expected.outputs}, bindings, frozenset(contract.writes), left_out)
    for name in expected.outputs:
        if name in contract.scratch and observed.outputs.get(name) is None:
            continue
        spec = require_kind(name, contract.by_name[name], ArraySpec)
        difference = _differ(spec, expected.outputs[name], observed.outputs.get(name), call)
        if difference is not None:
            return difference
    return None


@dataclass(frozen=True)
class _Call:
    """What comparing an output needs: the arrays of the call, its axes, what it writes, and units to leave out."""

    arrays: Mapping[str, Any]
    bindings: Bindings
    writes: frozenset[str]
    left_out: NDArray[np.bool_] | None


@dataclass(frozen=True)
class Compared:
    """One array of what a call should give: which of its entries carry meaning, and by how much each may differ.

    ``label`` numbers the arrays of a list, ``kv_buffers.0``. Without a tolerance everything has to be equal.
    """

    label: str
    expected: Any
    defined: NDArray[np.bool_]
    tolerance: NDArray[np.float64] | None


def compared(operation: str, arguments: Mapping[str, Any], outputs: Mapping[str, Any]) -> Iterator[Compared]:
    """Yield what ``first_difference`` compares of a call that gives these outputs."""
    contract = RECORDS[operation].contract
    call = _Call({**arguments, **outputs}, bind(operation, contract, arguments), frozenset(contract.writes), None)
    for name, value in outputs.items():
        spec = require_kind(name, contract.by_name[name], ArraySpec)
        for label, array in labelled(name, value):
            mask = defined_mask(spec, array.shape, call.arrays, call.bindings)
            yield Compared(label, array, mask, _tolerance(spec, array, call))


def _differ(spec: ArraySpec, expected: Any, observed: Any, call: _Call) -> str | None:
    if isinstance(expected, list | tuple):
        if not isinstance(observed, list | tuple) or len(observed) != len(expected):
            return f"{spec.name} = {_form(observed)}, but should be a list of {len(expected)} arrays"
        for index, (wanted, got) in enumerate(zip(expected, observed, strict=True)):
            difference = _differ_in_array(spec, f"{spec.name}[{index}]", wanted, got, call)
            if difference is not None:
                return difference
        return None
    return _differ_in_array(spec, spec.name, expected, observed, call)


def _differ_in_array(spec: ArraySpec, label: str, expected: Any, observed: Any, call: _Call) -> str | None:
    if expected is None or not isinstance(observed, np.ndarray):
        return None if observed is expected else f"{label} = {_form(observed)}, but should be {_form(expected)}"
    if (expected.dtype, expected.shape) != (observed.dtype, observed.shape):
        return f"{label} = {_form(observed)}, but should be {_form(expected)}"
    differs: NDArray[np.bool_] = expected != observed
    if is_floating(expected.dtype):
        differs &= ~(np.isnan(expected) & np.isnan(observed))
        tolerance = _tolerance(spec, expected, call) if differs.any() else None
        if tolerance is not None:
            with np.errstate(invalid="ignore"):
                off = np.abs(observed.astype(np.float64) - expected.astype(np.float64))
            differs &= ~(off <= tolerance)
    if differs.any():
        differs &= defined_mask(spec, expected.shape, call.arrays, call.bindings)
    if differs.any() and call.left_out is not None:
        differs[np.repeat(call.left_out, len(differs) // len(call.left_out))] = False
    for place in np.argwhere(differs)[:1]:
        where = ", ".join(str(index) for index in place)
        return f"{label}[{where}] = {observed[tuple(place)]}, but should be {expected[tuple(place)]}"
    return None


def _tolerance(spec: ArraySpec, expected: Any, call: _Call) -> NDArray[np.float64] | None:
    """Return by how much each entry of an output may differ, or None where everything has to be equal.

    What is no finite number has to be equal in any case.
    """
    if not is_floating(expected.dtype):
        return None
    if spec.unit == Unit.PROBABILITY and spec.name not in call.writes:
        return probability_bound(expected, _exponents(call.arrays))
    if spec.unit == Unit.LOGPROB:
        is_finite = np.isfinite(expected.astype(np.float64))
        bound = logprob_bound(call.bindings["vocab"], np.where(is_finite, expected, 0.0))
        return np.where(is_finite, bound, 0.0)
    return attention_bounds(call.arrays)[spec.name] if spec.unit == Unit.ACTIVATION else None


def _exponents(arrays: Mapping[str, Any]) -> NDArray[np.float64] | float:
    """Return the largest exponents of the rows of a call that makes probabilities of logits, or 0."""
    if "logits" not in arrays or "temperature" not in arrays:
        return 0.0
    return largest_exponents(arrays["logits"], arrays["temperature"])[:, None]


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return "nothing" if value is None else type(value).__name__
