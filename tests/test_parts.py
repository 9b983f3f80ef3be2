"""What takes long is cut into parts: every part of it is run by one of them, and every name is that of a test."""

import ast
from pathlib import Path

import pytest

from tests.parts import LONG, Part

ROOT = Path(__file__).parents[1]
NAMES = LONG.read_text(encoding="utf-8").split()


def test_every_long_test_exists_and_is_named_once():
    assert sorted(set(NAMES)) == NAMES
    functions = {
        path: {node.name for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body if is_function(node)}
        for path in {name.partition("::")[0] for name in NAMES}
    }
    assert [name for name in NAMES if name.partition("::")[2] not in functions[name.partition("::")[0]]] == []


def is_function(node):
    return isinstance(node, ast.FunctionDef)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_name_belongs_to_one_part(count):
    parts = [Part.parse(f"{number}/{count}") for number in range(1, count + 1)]
    assert {sum(part.takes(name) for part in parts) for name in NAMES} == {1}
    assert all(any(map(part.takes, NAMES)) for part in parts)


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "a/b", "-1/4", ""])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(pytest.UsageError, match="should be NUMBER/COUNT"):
        Part.parse(text)
