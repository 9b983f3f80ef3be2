"""Tiny packages that are laid out as engines are, for tests that need no network."""

import importlib
import sys

import pytest

from specsim.conformance.backend import load


@pytest.fixture
def lay_out(tmp_path, monkeypatch):
    """Return a function that writes the files of a package and puts it on the path."""

    def write(package, files, version=None):
        for name, text in files.items():
            path = tmp_path / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (tmp_path / package).mkdir(exist_ok=True)
        for folder in {path.parent for path in (tmp_path / package).rglob("*.py")} | {tmp_path / package}:
            (folder / "__init__.py").touch()
        if version is not None:
            metadata = tmp_path / f"{package}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return tmp_path / package

    return write


@pytest.fixture
def adapter(monkeypatch):
    """Return a function that loads an adapter afresh, for the engine that is on the path at the time."""

    def load_afresh(name):
        for module in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        return load(name)

    yield load_afresh
    for module in [module for module in sys.modules if module.startswith("specsim.engines.")]:
        sys.modules.pop(module)
