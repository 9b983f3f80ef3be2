"""The operations in torch's library, ``torch.ops.specsim.*``: what is called in code that torch compiles or exports.

Everything follows from the record of an operation: the schema with what is written, and what a tracer is given in the
place of outputs, which is what a call allocates. The kernel is the plain function, which stays the fast way of code
that is not traced. A list of buffers arrives as a list, so that ``KVBuffers`` lose their table on the way.

No operation has a gradient: a call that would need one is refused, and does not return what is cut off in silence.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from specsim.contracts.axes import evaluate, names_of
from specsim.contracts.contract import ArraySpec, Contract
from specsim.contracts.equations import equations_of
from specsim.contracts.faults import SCALAR_BITS
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.records import record_of
from specsim.operations import RECORDS
from specsim.operations.derived.signature import Parameter, parameters_of
from specsim.operations.record import Operation

LIBRARY: Any = torch.library.Library("specsim", "FRAGMENT")  # type: ignore[no-untyped-call]
LEAST, MOST = -(1 << (SCALAR_BITS - 1)), (1 << (SCALAR_BITS - 1)) - 1

Function = Callable[..., Any]


def register(functions: Mapping[str, Function], library: Any = LIBRARY) -> None:
    """Make an operator of every operation of which each output has a size that arguments state."""
    for name, function in functions.items():
        if name in NOT_REGISTERED:
            continue
        operation = record_of(name)
        library.define(name + schema_of(operation), tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, function, "CompositeExplicitAutograd")
        library.impl(name, _above_kernels(operation, library.ns), "Autograd", with_keyset=True)
        torch.library.register_fake(f"{library.ns}::{name}", _fake_of(operation), lib=library)


def schema_of(operation: Operation) -> str:
    """Return the schema of an operation without its name: scalars are sizes that may be symbols, or truth values."""
    contract = operation.contract
    parameters = ", ".join(_declared(parameter, contract) for parameter in parameters_of(operation))
    outputs = ", ".join(f"Tensor {spec.name}" for spec in contract.outputs)
    return f"({parameters}) -> {outputs if len(contract.outputs) == 1 else f'({outputs})'}"


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
        arguments = {**contract.defaults, **dict(zip(contract.names, given, strict=False))}
        _limit_unknown(contract, arguments)
        with launching(runs=False):
            return prepare(operation.name, arguments).outputs

    return fake


def _limit_unknown(contract: Contract, arguments: Mapping[str, Any]) -> None:
    """State the numbers between which a scalar lies that is an entry of a tensor, of which a trace knows nothing."""
    for spec in contract.scalars:
        value = arguments[spec.name]
        if isinstance(value, torch.SymInt) and _is_unknown(value):
            low, high = (None if bound is None else _number_of(bound) for bound in (spec.low, spec.high))
            for is_within in (value >= (LEAST if low is None else low), value <= (MOST if high is None else high)):
                torch._check(is_within)  # type: ignore[no-untyped-call]


def _number_of(bound: str) -> int | None:
    return None if names_of(bound) else int(evaluate(bound, {}))


def _is_unknown(size: torch.SymInt) -> bool:
    # NOTE: it takes as long to import as this layer, and only traces need it.
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(size))


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
