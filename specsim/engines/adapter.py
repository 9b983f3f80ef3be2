"""What an adapter says: which definitions of an engine each of its functions calls."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specsim.engines.installed import Installed, find_installed
from specsim.engines.modules import SourceTree


@dataclass(frozen=True)
class Definition:
    """A function of an engine and the modules that have had it, the latest release first."""

    name: str
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Adapted:
    """A function named like an operation, and the definitions that it calls."""

    function: Callable[..., Any]
    definitions: tuple[Definition, ...]

    @property
    def name(self) -> str:
        """The operation."""
        return self.function.__name__


@dataclass(frozen=True)
class Engine:
    """An installed engine, and its definitions by name."""

    installed: Installed
    tree: SourceTree

    def has(self, definition: Definition) -> bool:
        """Return whether this release has a definition, from its text alone."""
        return self._home(definition) is not None

    def get(self, definition: Definition) -> Any:
        """Return what a definition stands for, executing what it needs.

        Raises
        ------
        NotImplementedError
            This release has no such definition.
        """
        home = self._home(definition)
        if home is None:
            raise NotImplementedError(
                f"{self.installed.package} {self.installed.version} has no {definition.name} in {definition.modules}"
            )
        module = self.tree.module(home)
        return module.method(definition.name) if "." in definition.name else getattr(module, definition.name)

    def offers(self, table: Iterable[Adapted]) -> dict[str, Callable[..., Any]]:
        """Return the functions all of whose definitions this release has."""
        return {row.name: row.function for row in table if all(map(self.has, row.definitions))}

    def _home(self, definition: Definition) -> str | None:
        names = (name for name in definition.modules if self.tree.has(name))
        return next((name for name in names if self.tree.module(name).defines(definition.name)), None)


def open_engine(package: str, written_for: str, given: Mapping[str, Mapping[str, Any]]) -> Engine:
    """Find an installed engine.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    installed = find_installed(package, written_for)
    return Engine(installed, SourceTree(package, installed.root, given))
