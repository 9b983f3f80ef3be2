"""The operations in torch's library, ``torch.ops.specsim.*``: what is called in code that torch compiles or exports.

Everything follows from the record of an operation: the schema with what is written, and what a tracer is given in the
place of outputs, which is what a call allocates. The kernel is the plain function, which stays the fast way of code that
is not traced. A list of buffers arrives as a list, so that ``KVBuffers`` lose their table on the way.

No operation has a gradient: a call that would need one is refused, and does not return what is cut off in silence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from specsim.contracts.axes import names_of
from specsim.contracts.contract import ArraySpec, Contract
from specsim.contracts.equations import equations_of
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS
from specsim.operations.derived.signature import Parameter, parameters_of
from specsim.operations.record import Operation

NAMESPACE = "specsim"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")

Function = Callable[..., Any]


def register(functions: Mapping[str, Function], library: torch.library.Library = LIBRARY) -> None:
    """Make an operator of every operation whose outputs have sizes that follow from its arguments."""
    for name, function in functions.items():
        if name not in NOT_REGISTERED:
            _register(RECORDS[name], function, library)


def _register(operation: Operation, function: Function, library: torch.library.Library) -> None:
    name = f"{library.ns}::{operation.name}"
    library.define(operation.name + schema_of(operation), tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(operation.name, function, "CompositeExplicitAutograd")
    library.impl(operation.name, _above_kernels(operation, library.ns), "Autograd", with_keyset=True)
    torch.library.register_fake(name, _fake_of(operation), lib=library)


def schema_of(operation: Operation) -> str:
    """Return the schema of an operation without its name: scalars are sizes that may be symbols, or truth values."""
    contract = operation.contract
    parameters = ", ".join(_declared(parameter, contract) for parameter in parameters_of(operation))
    return f"({parameters}) -> ({', '.join(f'Tensor {spec.name}' for spec in contract.outputs)})"


def _declared(parameter: Parameter, contract: Contract) -> str:
    spec = contract.by_name[parameter.name]
    default = "" if parameter.default is None else f"={parameter.default}"
    if not isinstance(spec, ArraySpec):
        return f"{'bool' if spec.flag else 'SymInt'} {spec.name}{default}"
    # NOTE: arguments of one letter would share memory, which those that are written never do.
    letter = "abcdefghijklmnopqrstuvwxyz"[contract.writes.index(spec.name)] if spec.name in contract.writes else ""
    written = f"({letter}!)" if letter else ""
    listed = "[]" if spec.each is not None else ""
    return f"Tensor{written}{listed}{'?' if spec.optional else ''} {spec.name}{default}"


def undetermined_names(contract: Contract) -> frozenset[str]:
    """Return the names in sizes and element types of outputs that neither an argument nor another name settles."""
    known = {name for equation in equations_of(contract) for name in equation.names}
    known |= {name for spec in contract.scalars for name in (spec.name, spec.axis) if name is not None}
    for axis, expression in contract.derived:
        known |= {axis} if names_of(expression) <= known else set()
    used = [axis for spec in contract.outputs for axis in spec.axes if axis != "..."]
    used += [spec.dtype for spec in contract.outputs if spec.has_dependent_dtype]
    return frozenset[str]().union(*map(names_of, used)) - known


def reasons_against(operations: Mapping[str, Operation]) -> dict[str, str]:
    """Return the operations that cannot be traced, each with what no argument states."""
    found = {name: undetermined_names(operation.contract) for name, operation in operations.items()}
    return {name: f"no argument states {' and '.join(sorted(names))}" for name, names in found.items() if names}


NOT_REGISTERED = reasons_against(RECORDS)
"""Operations that are no operators, and why. Each output of the table has a size that arguments state, so it is empty;
a record of which that is not true would stand here."""


def _fake_of(operation: Operation) -> Function:
    """Return what stands for an operation in a trace: its checks, and outputs without entries."""
    contract = operation.contract

    def fake(*given: Any) -> Any:
        arguments = dict(zip(contract.names, given, strict=False))
        with launching(runs=False):
            return prepare(operation.name, {**contract.defaults, **arguments}).outputs

    return fake


def _above_kernels(operation: Operation, namespace: str) -> Function:
    """Return what autograd calls: it refuses gradients, and counts what is written as a new version of a tensor."""
    names, writes = operation.contract.names, operation.contract.writes
    written = [names.index(name) for name in writes]
    overload: Any = None

    def call(keyset: Any, *given: Any) -> Any:
        nonlocal overload
        if torch.is_grad_enabled():
            for name, value in zip(names, given, strict=False):
                if any(tensor.requires_grad for tensor in _tensors_of(value)):
                    raise RuntimeError(_without_gradient(operation.name, name))
        for place in written:
            torch.autograd.graph.increment_version(given[place])
        overload = overload or getattr(getattr(torch.ops, namespace), operation.name).default
        return overload.redispatch(keyset & torch._C._after_autograd_keyset, *given)

    return call


def _tensors_of(value: Any) -> Sequence[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return (value,)
    return value if isinstance(value, list) else ()


def _without_gradient(operation: str, argument: str) -> str:
    return (
        f"{operation} has no gradient, but {argument} requires one: call it under torch.no_grad(), or pass"
        f" {argument}.detach()"
    )
