"""The calls of the worked examples, semantics K.1 to K.12 and Q, kept in ``worked.toml``; files of calls in its form.

The tests of these examples make the calls and know what they give. They write the file, too:
``SPECSIM_WRITE_WORKED=1 pytest tests/worked_examples``; without the variable they fail where it lacks a call.
"""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from specsim.conformance.cases import case_arguments, case_id
from specsim.conformance.stored_arrays import store_array

FILE = Path(__file__).with_name("worked.toml")


@cache
def worked_calls() -> Mapping[str, tuple[dict[str, Any], ...]]:
    """Return the arguments of every call of a worked example, by operation."""
    return read_calls(FILE)


def read_calls(file: Path) -> Mapping[str, tuple[dict[str, Any], ...]]:
    """Return the arguments of every call of a file, by operation."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["call"]:
        arguments = {name: _read(value) for name, value in entry["arguments"].items()}
        found.setdefault(entry["operation"], []).append(arguments)
    return {operation: tuple(calls) for operation, calls in found.items()}


def call_id(operation: str, arguments: Mapping[str, Any]) -> str:
    """Return what tells the calls of an operation apart."""
    return case_id(operation, "", case_arguments(operation, arguments))


def write_calls(file: Path, calls: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Write calls, each by its id an operation and its arguments, in a stable order."""
    lines = []
    for _, (operation, arguments) in sorted(calls.items(), key=lambda call: (call[1][0], call[0])):
        lines += ["[[call]]", f'operation = "{operation}"']
        lines += [f"arguments.{name} = {_in_toml(value)}" for name, value in arguments.items() if value is not None]
        lines.append("")
    file.write_text("\n".join(lines), encoding="utf-8")


def _in_toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_in_toml, value))}]"
    if not isinstance(value, np.ndarray):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {json.dumps(one)}' for name, one in store_array(value, '').items())} }}"


def _read(value: Any) -> Any:
    """Return an argument; numbers that JSON lacks are texts, which NumPy reads as well."""
    if isinstance(value, list):
        return [_read(one) for one in value]
    if not isinstance(value, dict):
        return value
    return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
