"""Modules of an engine of which only what is asked for is executed."""

import ast
import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from specsim.engines.slicing import Source


class SourceModule(ModuleType):
    """A file of an engine: an attribute is there once the statements that it stands for have run.

    Imports of the engine's own modules, inside functions too, lead to further modules of this kind; those of anything
    else are ordinary. Nothing stays in ``sys.modules``: a module stands there while its statements run, as dataclasses
    look their annotations up there.
    """

    def __init__(self, name: str, path: Path, tree: "SourceTree", given: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__file__ = str(path)
        self.__package__ = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.__dict__["__builtins__"] = {**vars(builtins), "__import__": tree.import_module}
        self.__dict__.update(given)
        self._source = Source(path)
        self._tree = tree
        self._given = dict(given)
        self._done: set[int] = set()
        self._running: set[int] = set()
        self._methods: dict[str, Callable[..., Any]] = {}

    def defines(self, name: str) -> bool:
        """Return whether the file binds a name, given ones aside."""
        return name in self._source.binders or name in self._source.methods

    def method(self, name: str) -> Callable[..., Any]:
        """Return ``Class.method`` as a function of its own, without its class."""
        if name not in self._methods:
            self._run(name)
            found: dict[str, Callable[..., Any]] = {}
            definition = self._source.methods[name]
            exec(self._compiled(definition), self.__dict__, found)
            self._methods[name] = found[definition.name]
        return self._methods[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._run(name)
        if name in self.__dict__:
            return self.__dict__[name]
        for module, level in self._source.star_imports:
            imported = self._tree.import_module(module, self.__dict__, None, ("*",), level)
            if isinstance(imported, SourceModule) and imported.defines(name):
                return imported.__getattribute__(name) if name in vars(imported) else imported.__getattr__(name)
        inner = f"{self.__name__}.{name}"
        if self._tree.has(inner):
            return self._tree.module(inner)
        raise AttributeError(f"{self.__name__} has no {name}")

    def _run(self, name: str) -> None:
        for number in self._source.after(name, self._given):
            if number not in self._done and number not in self._running:
                self._running.add(number)
                try:
                    with _among_modules(self):
                        exec(self._compiled(self._source.statements[number]), self.__dict__)
                    # NOTE: one statement imports several names, of which only some are given.
                    self.__dict__.update(self._given)
                    self._done.add(number)
                finally:
                    self._running.discard(number)

    def _compiled(self, statement: ast.stmt) -> CodeType:
        body = ast.Module(body=[*self._source.futures, statement], type_ignores=[])
        return compile(body, str(self._source.path), "exec", dont_inherit=True)


@contextmanager
def _among_modules(module: SourceModule) -> Iterator[None]:
    """Enter a module into ``sys.modules`` for the time of a block; what stands there of its name comes back."""
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
        if before is not None:
            sys.modules[module.__name__] = before


class SourceTree:
    """The modules of one engine, each made when it is asked for.

    ``given`` holds, by module, values that take the place of what the file would bind: where the file asks for
    hardware or for compiled parts that are not there.
    """

    def __init__(self, package: str, root: Path, given: Mapping[str, Mapping[str, Any]]) -> None:
        self.package = package
        self._root = root
        self._given = given
        self._modules: dict[str, SourceModule] = {}

    def has(self, name: str) -> bool:
        """Return whether the engine has a module."""
        return self._path(name) is not None

    def module(self, name: str) -> SourceModule:
        """Return a module of the engine.

        Raises
        ------
        ModuleNotFoundError
            The engine has none of this name.
        """
        if name not in self._modules:
            path = self._path(name)
            if path is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            self._modules[name] = SourceModule(name, path, self, self._given.get(name, {}))
        return self._modules[name]

    def import_module(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what ``__import__`` does, for a module of the engine with nothing of it executed."""
        full = name
        if level:
            parts = str((globals or {})["__package__"]).split(".")
            full = ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])
        if full.partition(".")[0] != self.package:
            return builtins.__import__(name, globals, locals, fromlist, level)
        return self.module(full if fromlist else self.package)

    def _path(self, name: str) -> Path | None:
        place = self._root.joinpath(*name.split(".")[1:])
        files = (place / "__init__.py", place.with_suffix(".py"))
        return next((path for path in files if path.is_file()), None)
