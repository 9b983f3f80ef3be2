"""Faults as edits: the correct source of a function, in which one expression or some statements are others."""

import ast
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from operator import attrgetter, setitem
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np

Function = Callable[..., Any]
Place = tuple[Callable[[Any], None], Any]


class DoesNotFitError(ValueError):
    """What an edit replaces does not stand in its function exactly once."""


@dataclass(frozen=True)
class Edit:
    """Injects a fault into a correct function, as `edited` describes it."""

    pairs: tuple[str, ...]
    within: Function | ModuleType | str
    names: Mapping[str, Any]

    def __call__(self, correct: Function) -> Function:
        """Return the function with the fault."""
        faulty: Function = edit(correct, *self.pairs, within=self.within, **self.names)
        return faulty

    def place(self) -> str:
        """Return the name of what has the pieces, empty for the correct function itself."""
        return (
            self.within if isinstance(self.within, str) else getattr(self.within, "__qualname__", self.within.__name__)
        )

    def lines(self) -> list[str]:
        """Return what stands in the correct source, each line after ``- ``, and what instead, after ``+ ``."""
        signed = [
            (sign, piece)
            for pair in zip(self.pairs[::2], self.pairs[1::2], strict=True)
            for sign, piece in zip("-+", pair, strict=True)
        ]
        return [f"{sign} {line}" for sign, piece in signed for line in dedent(piece).strip("\n").splitlines()]


def edited(*pairs: str, within: Function | ModuleType | str = "", **names: Any) -> Edit:
    """Inject the source of the correct function with pieces replaced: each piece, and what stands there instead.

    Parameters
    ----------
    *pairs : str
        A piece and its replacement, as often as wanted: an expression, or statements in a row. A piece has to stand
        in the function exactly once, however it is laid out; an empty replacement leaves statements out.
    within : callable, module or str
        Function, method, class or module that has the pieces: a name in the module of the correct function
        (``"_helper"``, ``"Side.method"``), defined there or imported, one of a module beside (``"walks.draw"``), or one
        of any other (``"specsim.counts.ceil_to"``, with a method after its class), which the correct function then
        meets edited. The correct function itself by default.
    **names : Any
        What replacements name beside what stands in the module, and ``np``, which they always have; has to be hashable.

    Raises
    ------
    DoesNotFitError
        When the fault is injected: a piece does not stand there once, or the correct function does not meet it.
    """
    return Edit(pairs, within, names)


def faults_in(diffs: str) -> list[list[str]]:
    """Return what a text of diffs says: of each fault operation, place in it, number, what is wrong, and pieces.

    ``@@ operation in place`` begins the faults of one operation; ``in place`` is what `edited` takes as ``within``, and
    may lack. A line that begins with a number begins a fault. Below it, a line after ``- `` stands in the correct
    source alone, one after ``+ `` in the faulty one alone, and one after two blanks in both. The next piece begins
    where another line follows one after ``+ ``, or after three dots. ``- old => new`` is a piece of one line.
    """
    faults: list[list[str]] = []
    operation = place = last = ""
    for line in filter(None, dedent(diffs).splitlines()):
        sign, (old, arrow, new) = line[:2], line[2:].partition(" => ")
        if arrow:
            faults[-1] += [old, new]
            sign = "+ "
        elif sign in ("- ", "+ ", "  "):
            if last not in ("- ", "  ", sign):
                faults[-1] += ["", ""]
            faults[-1][-2] += f"{old}\n" if sign != "+ " else ""
            faults[-1][-1] += f"{old}\n" if sign != "- " else ""
        elif sign == "@@":
            operation, _, place = line.removeprefix("@@ ").partition(" in ")
        elif line != "...":
            faults.append([operation, place, *line.split(" ", 1)])
        last = sign
    return faults


def edit(correct: Any, *pairs: str, within: Function | ModuleType | str = "", **names: Any) -> Any:
    """Return a function or a class as `edited` would inject it.

    What stands beside it in its module is the same, but for functions, which meet what is edited, and for classes that
    derive from it.
    """
    correct = inspect.unwrap(correct)
    home, name = correct.__module__, correct.__name__
    goal, place = _located(home, within or correct.__qualname__)
    also = tuple(names.items())
    if goal == home:
        return _edited_names(home, place, pairs, name, also)[name]
    path = _path(home, goal)
    faulty = _edited_names(goal, place, pairs, "", also)
    for before, after in pairwise(reversed(path)):
        right = vars(sys.modules[before])
        changed = {id(right[key]): value for key, value in faulty.items() if key in right and right[key] is not value}
        own = {key: changed[id(value)] for key, value in vars(sys.modules[after]).items() if id(value) in changed}
        if not own:
            raise DoesNotFitError(f"{after} meets nothing of {before} that is edited")
        faulty = _names(after, _parsed(after), own, {name} if after == home else set())
    return faulty[name]


def _located(home: str, place: Function | ModuleType | str) -> tuple[str, str]:
    """Return the module of a place, and its name there, which a whole module lacks."""
    if isinstance(place, ModuleType):
        return place.__name__, ""
    if not isinstance(place, str):
        there = inspect.unwrap(place)
        return there.__module__, there.__qualname__
    if place.startswith("specsim."):
        module = place
        while module not in sys.modules:
            module = module.rpartition(".")[0]
        return module, place[len(module) + 1 :]
    first, _, rest = place.partition(".")
    beside = sys.modules.get(f"{home.rpartition('.')[0]}.{first}")
    found = vars(sys.modules[home]).get(first, beside)
    if found is None or getattr(found, "__module__", "") == home:
        return home, place
    return _located(home, attrgetter(rest)(found) if rest else found)


def _path(home: str, goal: str) -> list[str]:
    """Return modules that lead from one to another, each having something of the next."""
    paths, known = deque([[home]]), {home}
    while paths and paths[0][-1] != goal:
        path = paths.popleft()
        used = {str(getattr(value, "__module__", "")) for value in vars(sys.modules[path[-1]]).values()}
        new = sorted(name for name in used - known if name.startswith("specsim.") and name in sys.modules)
        known.update(new)
        paths.extend([*path, name] for name in new)
    if not paths:
        raise DoesNotFitError(f"{home} has nothing of {goal}")
    return paths[0]


@cache
def _edited_names(
    module_name: str, place: str, pairs: tuple[str, ...], wanted: str, also: tuple[tuple[str, Any], ...]
) -> dict[str, Any]:
    """Return what stands in a module once a function or a class of it is edited, or any of them."""
    tree = function = _parsed(module_name)
    for name in place.split(".") if place else ():
        function = next((one for one in function.body if getattr(one, "name", None) == name), None)
        if function is None:
            raise DoesNotFitError(f"{module_name} has no {place}")
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        _replace(function, old, new, f"{module_name}.{place}")
    edited = {place.partition(".")[0]} if place else {str(getattr(one, "name", "")) for one in tree.body}
    named = dict(also) if "np" in vars(sys.modules[module_name]) else {"np": np, **dict(also)}
    return _names(module_name, ast.fix_missing_locations(tree), named, {*edited, wanted})


def _parsed(module_name: str) -> Any:
    return ast.parse(inspect.getsource(sys.modules[module_name]))


def _names(module_name: str, tree: Any, changed: dict[str, Any], classes: set[str]) -> dict[str, Any]:
    """Return what stands in a module with other source; functions are made anew, of classes those that have to be."""
    module = sys.modules[module_name]
    names = {**vars(module), **changed}
    anew = {*changed, *classes}
    for one in tree.body:
        bases = {base.id for part in getattr(one, "bases", ()) for base in ast.walk(part) if isinstance(base, ast.Name)}
        is_anew = isinstance(one, ast.ClassDef) and (one.name in anew or not anew.isdisjoint(bases))
        if is_anew or isinstance(one, ast.FunctionDef):
            anew.add(one.name)
            exec(compile(ast.Module([one], []), str(module.__file__), "exec", dont_inherit=True), names)
    return names


def _replace(function: ast.AST, old: str, new: str, where: str) -> None:
    sought: list[Any] = ast.parse(dedent(old)).body
    instead: list[Any] = ast.parse(dedent(new)).body
    is_expression = all(len(some) == 1 and isinstance(some[0], ast.Expr) for some in (sought, instead))
    if is_expression:
        found = [*_expressions(function, _dumped(sought[0].value))]
    else:
        found = [*_statements(function, [_dumped(one) for one in sought])]
    if len(found) != 1:
        raise DoesNotFitError(f"{where} has {len(found)} times what an edit replaces: {old}")
    put, old_one = found[0]
    new_one: Any = instead[0].value if is_expression else instead or [ast.Pass()]
    if hasattr(old_one, "ctx"):
        new_one.ctx = old_one.ctx
    put(new_one)


def _expressions(function: ast.AST, sought: str) -> Iterator[Place]:
    """Yield what puts another expression in the place of each that is found, and that."""
    for node in ast.walk(function):
        for name, value in ast.iter_fields(node):
            for place, one in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(one, ast.expr) and _dumped(one) == sought:
                    yield (
                        partial(setitem, value, place) if isinstance(value, list) else partial(setattr, node, name),
                        one,
                    )


def _statements(function: ast.AST, sought: list[str]) -> Iterator[Place]:
    """Yield what puts other statements in the place of each run of statements that is found, and the first of it."""
    for node in ast.walk(function):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None), getattr(node, "finalbody", None)):
            if isinstance(body, list):
                dumped = [_dumped(one) for one in body]
                for start in range(len(body) - len(sought) + 1):
                    if dumped[start : start + len(sought)] == sought:
                        yield partial(setitem, body, slice(start, start + len(sought))), body[start]


def _dumped(node: ast.AST) -> str:
    """Return what a piece says, whether it is read or assigned to."""
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")
