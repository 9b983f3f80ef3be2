"""The signature that an operation has in every layer."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.contracts.contract import ArraySpec, ScalarSpec
from specsim.operations.record import Operation


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, its type with ``ArrayT`` for an array, and its default as source text, if it has one."""

    name: str
    annotation: str
    default: str | None = None

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.name}: {self.annotation}{default}"


def parameters_of(operation: Operation) -> list[Parameter]:
    """Return the parameters in call order.

    An optional array defaults to None where everything behind it has a default, too; Python allows no other.
    """
    parameters: list[Parameter] = []
    for spec in reversed(operation.contract.parameters):
        is_last = all(parameter.default is not None for parameter in parameters)
        default = _default_of_array(spec, is_last) if isinstance(spec, ArraySpec) else _default_of_scalar(spec)
        parameters.append(Parameter(spec.name, _annotation(spec), default))
    return parameters[::-1]


def outputs_class_of(operation: Operation) -> str:
    """Return the name of the named tuple that an operation with several outputs returns."""
    return operation.name.title().replace("_", "") + "Outputs"


def returns_of(operation: Operation) -> str:
    """Return the type of what an operation returns, with ``ArrayT`` for an array."""
    outputs: Sequence[ArraySpec] = operation.contract.outputs
    if len(outputs) > 1:
        return f"{outputs_class_of(operation)}[ArrayT]"
    return "ArrayT" if outputs else "None"


def _annotation(spec: ArraySpec | ScalarSpec) -> str:
    if not isinstance(spec, ArraySpec):
        return "bool" if spec.flag else "int"
    annotation = "ArrayT" if spec.each is None else "Sequence[ArrayT]"
    return f"{annotation} | None" if spec.optional else annotation


def _default_of_array(spec: ArraySpec, is_last: bool) -> str | None:
    return "None" if spec.optional and is_last else None


def _default_of_scalar(spec: ScalarSpec) -> str | None:
    if spec.default is None:
        return None
    return str(bool(spec.default) if spec.flag else int(spec.default))
