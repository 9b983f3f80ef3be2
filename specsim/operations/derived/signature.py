"""The signature that an operation has in every layer, and arguments put to the names of its parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.contracts.contract import ArraySpec, ScalarSpec
from specsim.operations.record import Operation
from specsim.rejection import Reason, SpecRejection


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

    An optional array defaults to None where everything after it has a default, too; Python allows no other.
    """
    parameters: list[Parameter] = []
    for spec in reversed(operation.contract.parameters):
        is_last = all(parameter.default is not None for parameter in parameters)
        default = _default_of_array(spec, is_last) if isinstance(spec, ArraySpec) else _default_of_scalar(spec)
        parameters.append(Parameter(spec.name, annotation_of(spec), default))
    return parameters[::-1]


def name_arguments(operation: Operation, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return every argument of a call by the name of its parameter, in call order, defaults filled in.

    An optional array that is left out is None, whatever stands after it.

    Raises
    ------
    SpecRejection
        UNKNOWN_ARGUMENT: a name is no parameter, a parameter is given twice, or there are more arguments than
        parameters; MISSING_ARGUMENT.
    """
    names, defaults = operation.contract.names, operation.contract.defaults
    if len(positional) > len(names):
        given, most = f"{len(positional)} arguments", f"at most {len(names)}"
        raise SpecRejection(Reason.UNKNOWN_ARGUMENT, f"call of {operation.name}", given, most, _takes(operation))
    arguments = dict(zip(names, positional, strict=False))
    for name in named:
        if name not in names:
            expected = " or ".join(nearest(name, names)) or "a parameter"
            raise SpecRejection(Reason.UNKNOWN_ARGUMENT, name, "no parameter", expected, _takes(operation))
        if name in arguments:
            raise SpecRejection(Reason.UNKNOWN_ARGUMENT, name, "given twice", "once", _takes(operation))
    arguments.update(named)
    for name in names:
        if name not in arguments and name not in defaults:
            expected = "an array" if isinstance(operation.contract.by_name[name], ArraySpec) else "a number"
            raise SpecRejection(Reason.MISSING_ARGUMENT, name, "absent", expected, _takes(operation))
    return {name: arguments[name] if name in arguments else defaults[name] for name in names}


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that are spelt nearly like a name that is not one of them."""
    # NOTE: imported here, because only mistakes need it.
    import difflib

    return difflib.get_close_matches(name, list(names), n=3)


def outputs_class_of(operation: Operation) -> str:
    """Return the name of the named tuple that an operation with several outputs returns."""
    return operation.name.title().replace("_", "") + "Outputs"


def returns_of(operation: Operation) -> str:
    """Return the type of what an operation returns, with ``ArrayT`` for an array."""
    outputs: Sequence[ArraySpec] = operation.contract.outputs
    if len(outputs) > 1:
        return f"{outputs_class_of(operation)}[ArrayT]"
    return annotation_of(outputs[0]) if outputs else "None"


def annotation_of(spec: ArraySpec | ScalarSpec) -> str:
    """Return the type of a parameter or an output, with ``ArrayT`` for an array."""
    if not isinstance(spec, ArraySpec):
        return "bool" if spec.flag else "int"
    annotation = "ArrayT" if spec.each is None else "Sequence[ArrayT]"
    return f"{annotation} | None" if spec.optional else annotation


def _takes(operation: Operation) -> str:
    return f"{operation.name} takes {', '.join(operation.contract.names)}"


def _default_of_array(spec: ArraySpec, is_last: bool) -> str | None:
    return "None" if spec.optional and is_last else None


def _default_of_scalar(spec: ScalarSpec) -> str | None:
    if spec.default is None:
        return None
    return str(bool(spec.default) if spec.flag else int(spec.default))
