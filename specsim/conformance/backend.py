"""An implementation under test: one namespace of functions, called with NumPy arrays whatever it computes on."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from specsim.conformance.catalogue import HOST_TABLE
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS
from specsim.operations.without_coins import WITHOUT_COINS

CALLABLE = {**RECORDS, **WITHOUT_COINS}
"""What a backend can be called with: the operations, and the samplers that draw their own coins."""

ARRAY_MODULES = {"numpy": "specsim.conformance.arrays", "torch": "specsim.gpu.arrays"}


class BackendUnavailable(RuntimeError):
    """The implementation does not import, or says it computes on arrays that are not known."""


@dataclass(frozen=True)
class Outcome:
    """What a call returned and what it left in its arguments, all on the host.

    ``outputs`` holds the outputs and the arguments that the table lets the operation write; ``arguments`` holds every
    argument as it was after the call.
    """

    outputs: dict[str, Any]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Backend:
    """Functions by operation name, and the module that carries arrays to and from them.

    ``arrays`` has ``from_numpy(array)`` and ``to_numpy(array)``. ``from_numpy`` of the NumPy module returns the very
    same array; of any other it copies. Its context managers ``poisoned_outputs(pattern)`` and ``debugging()`` switch
    the checks of the layer on, where it has any. ``rejects`` says that bad input raises ``SpecRejection``. ``worker``
    builds the implementation's own worker from a configuration, a model and pool sizes, if it has one. ``max_samples``
    is the most outcomes that a statistical law may ask of it, None for as many as the law needs.
    """

    name: str
    functions: Mapping[str, Callable[..., Any]]
    arrays: ModuleType
    rejects: bool = False
    worker: Callable[..., Any] | None = None
    max_samples: int | None = None

    def has(self, operation: str) -> bool:
        """Return whether the implementation defines the operation."""
        return operation in self.functions

    def with_function(self, operation: str, function: Callable[..., Any], name: str) -> "Backend":
        """Return a copy in which one operation is replaced."""
        return replace(self, name=name, functions={**self.functions, operation: function})

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host.

        Raises
        ------
        NotImplementedError
            The implementation lacks it.
        """
        if name not in self.functions:
            raise NotImplementedError(f"{self.name} does not define {name}")
        return self.functions[name]

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation on NumPy arrays; what the table lets it write is written into the arguments.

        Returns
        -------
        outputs : array, tuple of arrays, or None
            As the reference function returns them.

        Raises
        ------
        NotImplementedError
            The implementation lacks the operation.
        """
        outcome = self.run(operation, arguments)
        contract = CALLABLE[operation].contract
        for name in contract.writes:
            written, given = outcome.outputs[name], arguments[name]
            for target, source in zip(_as_list(given), _as_list(written), strict=True):
                target[...] = source
        outputs = tuple(outcome.outputs[spec.name] for spec in contract.outputs)
        if len(outputs) == 1:
            return outputs[0]
        return outputs or None

    def run(self, operation: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call an operation on copies of NumPy arrays and report what it returned and what it wrote."""
        if operation not in self.functions:
            group = CALLABLE[operation].group
            raise NotImplementedError(f"{self.name} does not define {operation}; write it beside {group}.py")
        contract = CALLABLE[operation].contract
        carried = self.carry(operation, arguments)
        try:
            returned = self.functions[operation](**carried)
        except SystemExit as left:
            raise RuntimeError(f"{operation} exits with {left.code}") from left
        values = returned if isinstance(returned, tuple) else (returned,) if contract.outputs else ()
        if len(values) != len(contract.outputs):
            raise AssertionError(
                f"{operation} returned {len(values)} arrays, but should return {len(contract.outputs)}"
            )
        after = self.fetch(operation, carried)
        outputs = {spec.name: self._fetch(value) for spec, value in zip(contract.outputs, values, strict=True)}
        outputs.update({name: after[name] for name in contract.writes})
        return Outcome(outputs=outputs, arguments=after)

    def carry(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of the arguments in the arrays of this backend, defaults filled in."""
        carried: dict[str, Any] = {}
        for spec in CALLABLE[operation].contract.parameters:
            value = arguments.get(spec.name)
            carried[spec.name] = self._carry(value) if isinstance(spec, ArraySpec) else value
            if not isinstance(spec, ArraySpec) and value is None:
                carried[spec.name] = spec.default
        return carried

    def fetch(self, operation: str, carried: Mapping[str, Any]) -> dict[str, Any]:
        """Bring carried arguments back to the host."""
        return {
            spec.name: self._fetch(carried[spec.name]) if isinstance(spec, ArraySpec) else carried[spec.name]
            for spec in CALLABLE[operation].contract.parameters
        }

    def _carry(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._carry(entry) for entry in value]
        return self.arrays.from_numpy(_copy_in_place(value))

    def _fetch(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._fetch(entry) for entry in value]
        return self.arrays.to_numpy(value)


@dataclass(frozen=True)
class Completed:
    """An implementation whose missing operations another one supplies."""

    first: Backend
    other: Backend

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation where it is defined."""
        return (self.first if self.first.has(operation) else self.other).call(operation, **arguments)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host from where it is defined."""
        return (self.first if self.first.has(name) else self.other).host(name)


def load(name: str) -> Backend:
    """Import ``package.module`` and take its functions that are named like operations or like host functions.

    A module that computes on torch tensors says ``ARRAYS = "torch"``; without the attribute it gets NumPy arrays. One
    that raises ``SpecRejection`` for bad input says ``REJECTS = True``. One with a worker of its own names the class,
    ``WORKER = "package.module.Class"``. One whose host functions stand in another module names it, ``HOST``. One that
    is slow to sample from says ``MAX_SAMPLES = 1000``.

    Raises
    ------
    BackendUnavailable
        The module does not import.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise BackendUnavailable(f"{name!r} does not import: name a module as in an import, without slashes and .py")
    try:
        module = importlib.import_module(name)
        kind = str(vars(module).get("ARRAYS", "numpy"))
        if kind not in ARRAY_MODULES:
            raise BackendUnavailable(f"{name}.ARRAYS is {kind!r}, but should be one of {sorted(ARRAY_MODULES)}")
        arrays = importlib.import_module(ARRAY_MODULES[kind])
        worker = _import_class(vars(module).get("WORKER"))
        host = importlib.import_module(str(vars(module).get("HOST", name)))
    except BackendUnavailable:
        raise
    except Exception as error:  # NOTE: a foreign module may raise anything at all when it is imported.
        raise BackendUnavailable(f"{name} does not import: {type(error).__name__}: {error}") from error
    places = {**dict.fromkeys(CALLABLE, (module,)), **dict.fromkeys(HOST_TABLE, (module, host))}
    functions = {
        name: vars(place)[name]
        for name, where in places.items()
        for place in reversed(where)
        if callable(vars(place).get(name))
    }
    rejects = bool(vars(module).get("REJECTS", False))
    most = vars(module).get("MAX_SAMPLES")
    return Backend(
        name=name,
        functions=functions,
        arrays=arrays,
        rejects=rejects,
        worker=worker,
        max_samples=None if most is None else int(most),
    )


def _import_class(path: str | None) -> Callable[..., Any] | None:
    if path is None:
        return None
    module, _, name = path.rpartition(".")
    loaded: Callable[..., Any] = vars(importlib.import_module(module))[name]
    return loaded


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _copy_in_place(value: Any) -> Any:
    """Copy an array with its strides and offset, so that views stay views; share one that nobody can write."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return value
    if not isinstance(value, np.ndarray) or value.base is None or not isinstance(value.base, np.ndarray):
        return np.array(value, copy=True, order="K")
    base = value.base.copy(order="K")
    offset = value.__array_interface__["data"][0] - value.base.__array_interface__["data"][0]
    # NOTE: the buffer protocol knows no bfloat16, so the memory is handed over as words of the same size.
    words = base.view(np.dtype(f"u{base.itemsize}"))
    return np.ndarray(value.shape, value.dtype, buffer=words.data, offset=offset, strides=value.strides)
