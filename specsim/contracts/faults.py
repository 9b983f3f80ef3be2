"""The words of every rejection that a compiled contract can raise."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from specsim.contracts.axes import UnboundAxis, evaluate, names_of
from specsim.contracts.contract import Contract
from specsim.contracts.kinds import ArrayKind, Form, Scattered
from specsim.rejection import Reason, SpecRejection

MOST_OUTPUT_BYTES = 1 << 36
"""The most that the outputs of one call may take, 64 GiB: four times the largest that engines ask for (probabilities of
512 trees of 64 nodes over 128,256 tokens), and more than any device has left beside the inputs of such a call."""

SCALAR_BITS = 64
"""Kernels and NumPy compute sizes in signed integers of that width."""

_NUMBERS = re.compile(r"bool|u?int\d+|b?float\d+\w*")


def is_number(dtype: str) -> bool:
    """Return whether an element type is one of real numbers or truth values, which every layer can copy."""
    return _NUMBERS.fullmatch(dtype) is not None


def reject(
    reason: Reason, what: str, got: object, expected: str, name: str, because: str | None = None
) -> SpecRejection:
    """Return a rejection that cites the contract of ``name`` unless a better cause is given."""
    return SpecRejection(reason, what, got, expected, because or f"the contract of {name} says so")


@dataclass(frozen=True)
class Faults:
    """Rejections of one contract; ``bound`` is what the names of an expression are bound to, None where unbound."""

    name: str
    contract: Contract

    def no_integer(self, scalar: str, value: object) -> SpecRejection:
        """Return the rejection of a scalar that is none."""
        return reject(Reason.MISSING_ARGUMENT, scalar, value, "an integer", self.name, "it is a size")

    def absent(self, array: str) -> SpecRejection:
        """Return the rejection of a missing argument."""
        return reject(Reason.MISSING_ARGUMENT, array, None, "an array", self.name, "it is not optional")

    def no_list(self, array: str, form: Form) -> SpecRejection:
        """Return the rejection of something else than a list."""
        return reject(Reason.MISSING_ARGUMENT, array, form[0].__name__, "a list of arrays", self.name)

    def no_array(self, label: str, form: Form | None) -> SpecRejection:
        """Return the rejection of something else than a plain array."""
        given = type(None) if form is None else form[0]
        if issubclass(given, np.ndarray):
            because = "subclasses of an array compute by rules of their own"
            return reject(Reason.WRONG_KIND, label, given.__name__, "a plain ndarray", self.name, because)
        return reject(Reason.MISSING_ARGUMENT, label, given.__name__, "an array", self.name)

    def rank(self, label: str, shape: Sequence[int], axes: str) -> SpecRejection:
        """Return the rejection of a number of axes."""
        return reject(Reason.WRONG_SHAPE, f"{label}.shape", tuple(shape), axes, self.name)

    def not_divisible(self, label: str, size: int, axis: str, bound: Mapping[str, Any]) -> SpecRejection:
        """Return the rejection of a size that no whole number explains."""
        return reject(Reason.NOT_DIVISIBLE, label, size, _in_words(axis, bound), self.name)

    def size(self, label: str, size: int, expected: Any, axis: str) -> SpecRejection:
        """Return the rejection of a size that other arguments contradict."""
        return reject(Reason.WRONG_SHAPE, label, size, f"{expected} ('{axis}')", self.name)

    def rest(self, label: str, shape: Sequence[int], first: int, expected: Sequence[int], model: str) -> SpecRejection:
        """Return the rejection of trailing sizes that another argument has otherwise."""
        because = f"{model} has these in the contract of {self.name}"
        what = f"{label}.shape[{first}:]"
        return reject(Reason.WRONG_SHAPE, what, tuple(shape[first:]), str(tuple(expected)), self.name, because)

    def bounds(self, scalar: str, value: int, least: int | None, most: int | None) -> SpecRejection:
        """Return the rejection of a scalar outside its bounds."""
        return reject(Reason.SCALAR_OUT_OF_RANGE, scalar, value, in_bounds(least, most), self.name)

    def overflow(self, scalar: str, value: int) -> SpecRejection:
        """Return the rejection of a scalar that sizes cannot be computed from."""
        because = f"sizes are computed in {SCALAR_BITS} bits"
        return reject(Reason.SCALAR_OUT_OF_RANGE, scalar, value, "-2**63 to 2**63-1", self.name, because)

    def requirement(self, place: int, bound: Mapping[str, Any]) -> SpecRejection:
        """Return the rejection of sizes between which a relation does not hold."""
        broken = self.contract.requires[place]
        what = _in_words(broken.expression, bound)
        return reject(broken.reason, what, False, "true", self.name, broken.because)

    def dtype(self, label: str, got: str, allowed: Sequence[str]) -> SpecRejection:
        """Return the rejection of an element type."""
        return reject(Reason.WRONG_DTYPE, f"{label}.dtype", got, " or ".join(allowed), self.name)

    def undetermined(self, bound: Mapping[str, Any]) -> SpecRejection:
        """Return the rejection of a call whose arguments do not say how large an output is."""
        names = " and ".join(f"'{name}'" for name in sorted(bound) if bound[name] is None)
        because = "an output has it"
        return reject(Reason.MISSING_ARGUMENT, f"size of {names}", None, "stated by an argument", self.name, because)

    def foreign(self, label: str, array: object, kind: ArrayKind) -> SpecRejection:
        """Return the rejection of an array of another library."""
        return reject(Reason.WRONG_DEVICE, label, type(array).__name__, kind.name, self.name, kind.because)

    def unreachable(self, label: str, place: object, kind: ArrayKind) -> SpecRejection:
        """Return the rejection of an array in a place where the layer cannot compute."""
        return reject(Reason.WRONG_DEVICE, f"{label}.{kind.attribute}", place, kind.reachable, self.name, kind.because)

    def scattered(self, found: Scattered, attribute: str) -> SpecRejection:
        """Return the rejection of arrays in different places."""
        because = f"{found.first} of the same {self.name} call is there"
        label = f"{found.other}.{attribute}"
        return reject(Reason.WRONG_DEVICE, label, found.elsewhere, str(found.place), self.name, because)

    def too_large(self, forms: Sequence[tuple[tuple[int, ...], str] | None], num_bytes: int) -> SpecRejection:
        """Return the rejection of outputs that do not fit in memory."""
        because = f"more than {MOST_OUTPUT_BYTES} bytes do not fit beside the inputs of a call"
        named = zip(self.contract.outputs, forms, strict=True)
        sizes = ", ".join(f"{spec.name} {list(form[0])}" for spec, form in named if form is not None)
        return reject(
            Reason.OUTPUT_TOO_LARGE, sizes, f"{num_bytes} bytes", f"at most {MOST_OUTPUT_BYTES}", self.name, because
        )


def late_size(axis: str, bound: Mapping[str, Any], index: int | None) -> tuple[Any, str | None]:
    """Return an axis that no equation could solve, with 0 for what is unbound, and the first unbound name that it uses.

    Parameters
    ----------
    index : int or None
        The place in a list argument.
    """
    known = {name: value for name, value in bound.items() if value is not None}
    if index is not None:
        known["index"] = index
    try:
        return evaluate(axis, known), None
    except UnboundAxis as unbound:
        return evaluate(axis, {**dict.fromkeys(names_of(axis), 0), **known}), str(unbound.args[0])


def num_bytes_of(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of an output; an axis without entries counts as one of length 1.

    NOTE: an empty output with another axis of 2**40 entries is no output that anybody asks for.
    """
    return _itemsize(dtype) * math.prod([max(size, 1) for size in shape])


@lru_cache(maxsize=256)
def _itemsize(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1


def in_bounds(least: Any, most: Any) -> str:
    """Return bounds in words."""
    return f"{'-inf' if least is None else least} to {'inf' if most is None else most}"


def _in_words(expression: str, bound: Mapping[str, Any]) -> str:
    used = ", ".join(f"{name}={bound[name]}" for name in sorted(bound) if bound[name] is not None)
    return f"'{expression}' with {used}" if used else f"'{expression}'"
