"""Refuse to build from a tree whose links became text files; everything else is said in ``pyproject.toml``."""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
LINKED = ("reference", "gpu", "properties")

broken = [f"specsim/{name}" for name in LINKED if not (ROOT / "specsim" / name / "__init__.py").is_file()]
if broken:
    raise SystemExit(
        f"error: {', '.join(broken)} should be links to folders of the same names: this clone has none, so run "
        "'git config core.symlinks true' and 'git checkout -- specsim' in it (on Windows in developer mode), "
        "or build from the source distribution"
    )
setup()
