"""Which statements of a module define a name: read from its syntax, with nothing executed."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ANNOTATIONS = ("annotation", "returns")
"""Fields of a syntax tree that are not evaluated where a file imports ``annotations`` from ``__future__``."""


@dataclass(frozen=True)
class Source:
    """The top level of a file.

    A statement *binds* names and *needs* names; what a name stands for is the statements that bind it and, in turn,
    those after all that they need.
    """

    path: Path

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements of the module's top level."""
        return ast.parse(self.path.read_text(encoding="utf-8"), filename=str(self.path)).body

    @cached_property
    def binders(self) -> dict[str, list[int]]:
        """The statements that bind each name, by number."""
        found: dict[str, list[int]] = {}
        for number, statement in enumerate(self.statements):
            for name in _bound(statement):
                found.setdefault(name, []).append(number)
        return found

    @cached_property
    def methods(self) -> dict[str, ast.FunctionDef]:
        """The methods of the classes, as ``Class.method``."""
        return {
            f"{statement.name}.{inner.name}": inner
            for statement in self.statements
            if isinstance(statement, ast.ClassDef)
            for inner in statement.body
            if isinstance(inner, ast.FunctionDef)
        }

    @cached_property
    def star_imports(self) -> list[tuple[str, int]]:
        """The modules, and how many packages up, all of whose names are imported."""
        return [
            (statement.module or "", statement.level)
            for statement in self.statements
            if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names)
        ]

    @cached_property
    def futures(self) -> list[ast.ImportFrom]:
        """What the file imports from ``__future__``."""
        return [
            statement
            for statement in self.statements
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        ]

    def after(self, name: str, given: Collection[str]) -> list[int]:
        """Return the numbers of the statements that a name stands for, in the order of the file.

        For a method they are those that its body needs; its class is none of them. What is given needs none.
        """
        chosen: set[int] = set()
        waiting = self._needed(self.methods[name]) if name in self.methods else [name]
        while waiting:
            needed = waiting.pop()
            for number in () if needed in given else self.binders.get(needed, ()):
                if number not in chosen:
                    chosen.add(number)
                    waiting += self._needed(self.statements[number])
        return sorted(chosen)

    def _needed(self, statement: ast.stmt) -> list[str]:
        """Return the names in a statement; those of annotations are not, where the file puts them off."""
        is_lazy = any(alias.name == "annotations" for one in self.futures for alias in one.names)
        found: list[str] = []
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name):
                found.append(node.id)
            for field, value in ast.iter_fields(node):
                if not (is_lazy and field in ANNOTATIONS):
                    entries = value if isinstance(value, list) else [value]
                    waiting += [entry for entry in entries if isinstance(entry, ast.AST)]
        return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases) if module != "__future__":
            yield from (alias.asname or alias.name for alias in aliases if alias.name != "*")
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            for inner in ast.iter_child_nodes(statement):
                yield from _bound_inside(inner)


def _bound_inside(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.stmt):
        yield from _bound(node)
    elif isinstance(node, ast.ExceptHandler):
        for statement in node.body:
            yield from _bound(statement)
