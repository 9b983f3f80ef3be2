"""Files that follow from the tables; ``python -m specsim.operations.derived.stub`` writes them.

These are the stubs ``outputs.pyi`` and ``protocol.pyi``, and the exports of each layer. Those of the reference are
imports, because editors and type checkers follow imports that they can read. Functions of the GPU get their signatures
from the table, so that ``exports.pyi`` says them, and its imports need not be written out.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import indent

from specsim.operations import MODEL_TABLE, RECORDS, TABLE
from specsim.operations.derived.signature import annotation_of, outputs_class_of, parameters_of, returns_of
from specsim.operations.record import Operation

GENERATED = "# Written by python -m specsim.operations.derived.stub; edit the table instead.\n"
LINE_LENGTH = 120
ROOT = Path(__file__).parents[2]


def generated_files() -> dict[str, str]:
    """Return the text of each file by its path inside specsim."""
    return {
        "operations/outputs.pyi": outputs_stub(),
        "operations/protocol.pyi": protocol_stub(),
        "reference/exports.py": exports_of("reference"),
        "gpu/exports.pyi": signatures_stub(),
    }


def exports_of(layer: str) -> str:
    """Return the module that imports every operation of a layer from the module of its group."""
    modules: dict[str, list[str]] = {}
    for name, record in RECORDS.items():
        room = "models." if name in MODEL_TABLE else ""
        modules.setdefault(f"specsim.{layer}.{room}{record.group}", []).append(name)
    imports = "".join(_import(module, sorted(names)) for module, names in sorted(modules.items()))
    docstring = f'"""Every operation of ``specsim.{layer}``, from the module of its group."""\n'
    return f"{GENERATED}{docstring}\n{imports}\n{_all_names()}"


def signatures_stub() -> str:
    """Return the signature of every operation of the GPU, whose arrays are tensors of torch."""
    imported = sorted(outputs_class_of(operation) for operation in _with_several_outputs(RECORDS.values()))
    functions = [_function(RECORDS[name], array="torch.Tensor") for name in sorted(RECORDS)]
    return "\n".join(
        [
            GENERATED,
            "from collections.abc import Sequence\n\nimport torch\n",
            f"from specsim.operations.outputs import (\n{_lines(imported)})\n",
            *functions,
            _all_names(),
        ]
    )


def outputs_stub() -> str:
    """Return the named tuples of operations with several outputs."""
    parts = [
        GENERATED,
        "from typing import Any, Generic, NamedTuple, TypeVar\n",
        'ArrayT = TypeVar("ArrayT")\n\ndef outputs_of(operation: str) -> type[Any]: ...\n',
    ]
    for operation in _with_several_outputs(RECORDS.values()):
        lines = [f"class {outputs_class_of(operation)}(NamedTuple, Generic[ArrayT]):"]
        lines.append(f'    """What ``{operation.name}`` returns."""\n')
        lines += [f"    {spec.name}: {annotation_of(spec)}" for spec in operation.contract.outputs]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def protocol_stub() -> str:
    """Return one protocol class for each table."""
    imported = sorted(outputs_class_of(operation) for operation in _with_several_outputs(RECORDS.values()))
    return "\n".join(
        [
            GENERATED,
            "from collections.abc import Sequence\nfrom typing import Protocol, TypeVar\n",
            f"from specsim.operations.outputs import (\n{_lines(imported)})\n",
            'ArrayT = TypeVar("ArrayT")\n',
            _protocol("Operations", "The public operations.", TABLE),
            _protocol("ModelOperations", "The operations of the toy models.", MODEL_TABLE),
        ]
    )


def _protocol(name: str, summary: str, table: Mapping[str, Operation]) -> str:
    methods = "\n".join(_method(operation) for operation in table.values())
    return f'class {name}(Protocol[ArrayT]):\n    """{summary}"""\n\n{methods}'


def _method(operation: Operation) -> str:
    return indent(_function(operation, "self", width=LINE_LENGTH - 4), "    ")


def _function(operation: Operation, *first: str, array: str = "ArrayT", width: int = LINE_LENGTH) -> str:
    parameters = [*first, *(str(parameter).replace("ArrayT", array) for parameter in parameters_of(operation))]
    returns = returns_of(operation).replace("ArrayT", array)
    head = f"def {operation.name}({', '.join(parameters)}) -> {returns}:"
    if len(head) > width:
        lines = "".join(f"    {parameter},\n" for parameter in parameters)
        head = f"def {operation.name}(\n{lines}) -> {returns}:"
    return f'{head}\n    """{operation.summary}"""\n'


def _all_names() -> str:
    exported = "".join(f'    "{name}",\n' for name in sorted(RECORDS))
    return f"__all__ = [\n{exported}]\n"


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= LINE_LENGTH + 1:
        return line
    return f"from {module} import (\n{_lines(names)})\n"


def _lines(names: list[str]) -> str:
    return "".join(f"    {name},\n" for name in names)


def _with_several_outputs(operations: Iterable[Operation]) -> list[Operation]:
    return [operation for operation in operations if len(operation.contract.outputs) > 1]


if __name__ == "__main__":
    for file, text in generated_files().items():
        (ROOT / file).write_text(text, encoding="utf-8")
