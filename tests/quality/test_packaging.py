"""The links, the imports, and what a wheel holds."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = ("reference", "gpu", "properties")


def run_python(code, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", LINKED)
def test_the_links_are_links(name):
    assert os.readlink(ROOT / "specsim" / name) == f"../{name}"


@pytest.mark.parametrize("name", LINKED)
def test_another_name_is_refused(name):
    got = run_python(f"import {name}")
    assert got.returncode == 1
    assert got.stderr.splitlines()[-1] == f"ImportError: import this package as specsim.{name}, not as {name}"


def test_the_reference_needs_neither_torch_nor_hypothesis():
    code = (
        "import sys, specsim.reference as r; print([m for m in ('torch', 'triton', 'hypothesis') if m in sys.modules])"
    )
    assert run_python(code).stdout == "[]\n"


def test_the_command_line_starts_without_torch_and_hypothesis():
    code = "import sys, specsim.cli.main; print([m for m in ('torch', 'triton', 'hypothesis') if m in sys.modules])"
    assert run_python(code).stdout == "[]\n"


def test_constraints_are_exact_and_cover_the_dependencies():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(entry for extra in project["optional-dependencies"].values() for entry in extra),
    ]
    names = {entry.partition(">")[0] for entry in wanted if not entry.startswith("specsim[")}
    normal = {name.lower().replace("_", "-") for name in pins}
    assert names <= normal, f"constraints.txt lacks {names - normal}"


def test_a_wheel_holds_the_linked_packages(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("specsim", *LINKED):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--skip-dependency-check",
        "--outdir",
        tmp_path,
    ]
    built = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(ROOT)) if folder == "specsim" else f"specsim/{path.relative_to(ROOT)}"
        for folder in ("specsim", *LINKED)
        for path in (ROOT / folder).rglob("*.py")
    }
    assert expected <= held, f"the wheel lacks {sorted(expected - held)}"
    assert not [name for name in held if name.split("/")[0] in (*LINKED, "tests")]
