"""The stub files of the tables: ``python -m specsim.operations.stub`` writes ``outputs.pyi`` and ``protocol.pyi``."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from specsim.operations import MODEL_TABLE, RECORDS, TABLE
from specsim.operations.record import Operation
from specsim.operations.signature import outputs_class_of, parameters_of, returns_of

GENERATED = "# Written by python -m specsim.operations.stub; edit the table instead.\n"
LINE_LENGTH = 120


def stubs() -> dict[str, str]:
    """Return the text of each stub file by its name."""
    return {"outputs.pyi": outputs_stub(), "protocol.pyi": protocol_stub()}


def outputs_stub() -> str:
    """Return the named tuples of operations with several outputs."""
    parts = [
        GENERATED,
        "from collections.abc import Mapping\nfrom typing import Any, Generic, NamedTuple, TypeVar\n",
        'ArrayT = TypeVar("ArrayT")\n\nOUTPUTS: Mapping[str, type[tuple[Any, ...]]]\n',
    ]
    for operation in _with_several_outputs(RECORDS.values()):
        lines = [f"class {outputs_class_of(operation)}(NamedTuple, Generic[ArrayT]):"]
        lines.append(f'    """What ``{operation.name}`` returns."""\n')
        lines += [f"    {spec.name}: ArrayT" for spec in operation.contract.outputs]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def protocol_stub() -> str:
    """Return one protocol class for each table."""
    imported = sorted(outputs_class_of(operation) for operation in _with_several_outputs(RECORDS.values()))
    names = "".join(f"    {name},\n" for name in imported)
    return "\n".join(
        [
            GENERATED,
            "from collections.abc import Sequence\nfrom typing import Protocol, TypeVar\n",
            f"from specsim.operations.outputs import (\n{names})\n",
            'ArrayT = TypeVar("ArrayT")\n',
            _protocol("Operations", "The public operations.", TABLE),
            _protocol("ModelOperations", "The operations of the toy models.", MODEL_TABLE),
        ]
    )


def _protocol(name: str, summary: str, table: Mapping[str, Operation]) -> str:
    methods = "\n".join(_method(operation) for operation in table.values())
    return f'class {name}(Protocol[ArrayT]):\n    """{summary}"""\n\n{methods}'


def _method(operation: Operation) -> str:
    parameters = ["self", *map(str, parameters_of(operation))]
    returns = returns_of(operation)
    head = f"    def {operation.name}({', '.join(parameters)}) -> {returns}:"
    if len(head) > LINE_LENGTH:
        lines = "".join(f"        {parameter},\n" for parameter in parameters)
        head = f"    def {operation.name}(\n{lines}    ) -> {returns}:"
    return f'{head}\n        """{operation.summary}"""\n'


def _with_several_outputs(operations: Iterable[Operation]) -> list[Operation]:
    return [operation for operation in operations if len(operation.contract.outputs) > 1]


if __name__ == "__main__":
    for file, text in stubs().items():
        (Path(__file__).parent / file).write_text(text, encoding="utf-8")
