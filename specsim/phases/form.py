"""What all phase objects share: their form is checked when they are built."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

import numpy as np

from specsim.contracts.binding import bind
from specsim.contracts.contract import Contract
from specsim.phases.tags import PhaseTag
from specsim.rejection import Reason, SpecRejection

Zeros = Callable[[tuple[int, ...], str], Any]
"""Makes an array of zeros of a shape and a dtype name, in any array library."""


class Tagged(Protocol):
    """A frozen dataclass whose arrays obey a contract."""

    tag: ClassVar[PhaseTag]
    contract: ClassVar[Contract]
    __dataclass_fields__: ClassVar[dict[str, Any]]


def check_form(phase: Tagged) -> Mapping[str, Any]:
    """Check shapes and dtypes of a phase object and return what its axes are bound to.

    Raises
    ------
    SpecRejection
        WRONG_SHAPE, WRONG_DTYPE, MISSING_ARGUMENT.
    """
    return bind(
        type(phase).__name__, phase.contract, {field.name: getattr(phase, field.name) for field in fields(phase)}
    )


def reject_form(phase: Tagged, reason: Reason, what: str, got: object, expected: str, because: str) -> SpecRejection:
    """Return the rejection of a fault in a phase object."""
    return SpecRejection(reason, f"{type(phase).__name__}.{what}", got, expected, because)


def numpy_zeros(shape: tuple[int, ...], dtype: str) -> Any:
    """Return NumPy zeros."""
    return np.zeros(shape, dtype=dtype)


def library_of(array: Any) -> Any:
    """Return the library whose functions make arrays of this kind, NumPy's or torch's."""
    roots = [kind.__module__.partition(".")[0] for kind in type(array).__mro__]
    return sys.modules[next(root for root in roots if root in ("numpy", "torch"))]
