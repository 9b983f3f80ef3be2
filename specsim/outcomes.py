"""What a call gave, and the first place where two such results differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.backend import Backend, Outcome
from specsim.binding import Bindings, bind, defined_mask
from specsim.contract import ArraySpec
from specsim.operations import TABLE
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
    return Observation(outputs=outcome.outputs)


def first_difference(
    operation: str, arguments: Mapping[str, Any], expected: Observation, observed: Observation
) -> str | None:
    """Say where two observations of one call differ, or None; entries without meaning are not compared.

    Returns
    -------
    difference : str or None
        ``num_accepted_drafts[1] = 2, but should be 3``.
    """
    if expected.rejection or expected.error or observed.rejection or observed.error:
        if (expected.rejection, expected.error) == (observed.rejection, observed.error):
            return None
        return f"{operation} = {observed.in_words()}, but should be {expected.in_words()}"
    contract = TABLE[operation].contract
    bindings = bind(operation, contract, arguments)
    arrays = {**arguments, **expected.outputs}
    for name in expected.outputs:
        spec = contract.by_name[name]
        assert isinstance(spec, ArraySpec)
        difference = _differ(spec, expected.outputs[name], observed.outputs.get(name), arrays, bindings)
        if difference is not None:
            return difference
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [""])[0]


def _differ(spec: ArraySpec, expected: Any, observed: Any, arrays: Mapping[str, Any], bindings: Bindings) -> str | None:
    if isinstance(expected, list | tuple):
        if not isinstance(observed, list | tuple) or len(observed) != len(expected):
            return f"{spec.name} = {_form(observed)}, but should be a list of {len(expected)} arrays"
        for index, (wanted, got) in enumerate(zip(expected, observed, strict=True)):
            difference = _differ_in_array(spec, f"{spec.name}[{index}]", wanted, got, arrays, bindings)
            if difference is not None:
                return difference
        return None
    return _differ_in_array(spec, spec.name, expected, observed, arrays, bindings)


def _differ_in_array(
    spec: ArraySpec, label: str, expected: Any, observed: Any, arrays: Mapping[str, Any], bindings: Bindings
) -> str | None:
    if expected is None or not isinstance(observed, np.ndarray):
        return None if observed is expected else f"{label} = {_form(observed)}, but should be {_form(expected)}"
    if (expected.dtype, expected.shape) != (observed.dtype, observed.shape):
        return f"{label} = {_form(observed)}, but should be {_form(expected)}"
    differs: NDArray[np.bool_] = expected != observed
    if expected.dtype.kind == "f":
        differs &= ~(np.isnan(expected) & np.isnan(observed))
    if differs.any():
        differs &= defined_mask(spec, expected.shape, arrays, bindings)
    for place in np.argwhere(differs)[:1]:
        where = ", ".join(str(index) for index in place)
        return f"{label}[{where}] = {observed[tuple(place)]}, but should be {expected[tuple(place)]}"
    return None


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return "nothing" if value is None else type(value).__name__
