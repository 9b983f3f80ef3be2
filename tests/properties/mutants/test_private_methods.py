"""No class of the suite overrides a private method of what it tests: faults are edits, or wrap what is public."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import specsim

ROOT = Path(specsim.__file__).parent
TESTED = [path for folder in (ROOT, ROOT / "reference", ROOT / "gpu") for path in folder.resolve().rglob("*.py")]
SUITE_ROOT = (ROOT / "properties").resolve()
SUITE = sorted(SUITE_ROOT.rglob("*.py"))


def is_private(name: str) -> bool:
    """Return whether a name has one underscore in front."""
    return name.startswith("_") and not name.startswith("__")


def private_methods(source: ast.ClassDef) -> set[str]:
    """Return the private methods that a class statement defines."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in source.body if isinstance(one, functions) and is_private(one.name)}


def classes_of(source: ast.AST) -> Iterator[ast.ClassDef]:
    """Yield all class statements, nested ones too."""
    return (one for one in ast.walk(source) if isinstance(one, ast.ClassDef))


def methods_tested() -> set[str]:
    """Return the names of private methods that any class of the tested layers has."""
    found: set[str] = set()
    for path in TESTED:
        for one in classes_of(ast.parse(path.read_text(encoding="utf-8"))):
            found |= private_methods(one)
    return found


def overridden(source: str, names: dict[str, Any], tested: set[str]) -> Iterator[str]:
    """Yield what classes of a source override: ``Class.method``; those that ``overriding`` makes are classes as well.

    A base that is no name of the module, such as a parameter of a function, may be any class that is tested.
    """
    tree = ast.parse(source)
    local = {one.name: one for one in classes_of(tree)}

    def inherited(bases: list[ast.expr]) -> set[str]:
        found: set[str] = set()
        for base in bases:
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            if name in local:
                found |= inherited(local[name].bases)
            elif inspect.isclass(names.get(name)):
                tested_ones = (one for one in names[name].__mro__ if _is_tested(one.__module__))
                found |= {method for one in tested_ones for method in vars(one)}
            else:
                found |= tested
        return found

    for one in local.values():
        yield from (f"{one.name}.{method}" for method in sorted(private_methods(one) & inherited(one.bases)))
    for call in (one for one in ast.walk(tree) if isinstance(one, ast.Call)):
        if ast.unparse(call.func) == "overriding":
            yield from (f"overriding.{one.arg}" for one in call.keywords if is_private(one.arg or ""))


def _is_tested(module: str) -> bool:
    return module.startswith("specsim.") and not module.startswith("specsim.properties.")


def test_no_class_of_the_suite_overrides_a_private_method():
    tested, found = methods_tested(), []
    assert {"_project", "_insert", "_evict", "_committed"} <= tested
    for path in SUITE:
        source = path.read_text(encoding="utf-8")
        if "class " in source or "overriding(" in source:
            name = ".".join(("specsim.properties", *path.relative_to(SUITE_ROOT).with_suffix("").parts))
            module = importlib.import_module(name.removesuffix(".__init__"))
            found += [f"{name}: {one}" for one in overridden(source, vars(module), tested)]
    assert found == []


DERIVED = """
class One(Side):
    def _insert(self, texts): ...

class Two(One):
    def _end(self, text): ...
    def _own(self): ...

def _made(side):
    class Three(side):
        def _continue(self, texts): ...
    class Four:
        def _continue(self, texts): ...

ONE = overriding(_insert=None, draft=None)
"""


def test_classes_are_found_through_their_bases():
    from specsim.reference.worker.sides.ngram import NgramSide

    found = overridden(DERIVED, {"Side": NgramSide}, {"_continue"})
    assert [*found] == ["One._insert", "Two._end", "Three._continue", "overriding._insert"]


@pytest.mark.parametrize("name", ["_x", "_draw_all"])
def test_names_with_one_underscore_are_private(name):
    assert is_private(name) and not is_private(f"_{name}") and not is_private(name[1:])
