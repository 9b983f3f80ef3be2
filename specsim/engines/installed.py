"""Where an engine is installed, and which release it is."""

import importlib.metadata
import importlib.util
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


class EngineNotInstalled(ImportError):
    """The engine that an adapter is written for is not there."""


@dataclass(frozen=True)
class Installed:
    """A release of an engine: its package, its version and the folder of its Python files."""

    package: str
    version: str
    root: Path


def find_installed(package: str, written_for: str) -> Installed:
    """Find a package on the path without importing it.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    if not folders:
        raise EngineNotInstalled(f"{package} is not installed; this adapter is written for {package} {written_for}")
    return Installed(package, version_of_package(package), Path(folders[0]))


def version_of_package(package: str) -> str:
    """Return the version of the distribution that a package is of, whatever that is called."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    for distribution in importlib.metadata.packages_distributions().get(package, []):
        return importlib.metadata.version(distribution)
    return "unknown"
