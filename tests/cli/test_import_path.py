"""Where modules come from: a folder of a stranger runs no code of his, and a module of the user is found last."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specsim.cli.device import load_implementation
from specsim.cli.output import Failed

ROOT = Path(__file__).parents[2]
HOSTILE = 'open("{marker}", "a").write("{name} ")\nraise ImportError("{name} of a stranger")\n'
STRANGERS = ("numpy", "triton", "torch", "click", "hypothesis", "enum", "json", "pathlib", "specsim")
MINE = "from specsim.reference import fill_bonus_tokens\n"


@pytest.fixture
def stranger(tmp_path):
    """Return a folder whose modules are named like those that we import, and say so when they are run."""
    for name in STRANGERS:
        folder = tmp_path / name if name == "specsim" else tmp_path
        folder.mkdir(exist_ok=True)
        path = folder / "__init__.py" if name == "specsim" else folder / f"{name}.py"
        path.write_text(HOSTILE.format(marker=tmp_path / "marker", name=name))
    return tmp_path


def run_in(folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_nothing_of_the_working_directory_is_imported_unasked(stranger):
    # NOTE: a package of our own name would be the command itself, before anything of ours is run.
    (stranger / "specsim" / "__init__.py").unlink()
    (stranger / "specsim").rmdir()
    (stranger / "my_own.py").write_text(MINE)
    one = ("--property", "agreement.fill_bonus_tokens", "--examples", "1", "--seed", "1")
    ran = run_in(stranger, sys.executable, "-m", "specsim", "check", "my_own", *one)
    assert (ran.returncode, (stranger / "marker").exists()) == (0, False), ran.stderr


def test_the_installed_command_is_ours_in_any_folder(stranger):
    called = "import sys; sys.path.pop(0); from specsim.cli.main import main; main(['show', 'fast_topk'])"
    ran = run_in(stranger, sys.executable, "-c", called)
    assert (ran.returncode, (stranger / "marker").exists()) == (0, False), ran.stderr


def test_specsim_finds_itself_in_its_repository():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = (
        "import runpy, sys; sys.path[0] = sys.argv.pop(); sys.argv[:] = ['specsim', '--version']; "
        "runpy.run_module('specsim', run_name='__main__')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", asked, str(ROOT)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "specsim,"), ran.stderr


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Stand in an empty folder with an import path of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    return sys.path


def test_a_module_that_the_user_names_is_found_last(path, tmp_path):
    before = list(path)
    (tmp_path / "found_last.py").write_text(MINE)
    assert load_implementation("found_last").has("fill_bonus_tokens")
    assert path == [*before, str(tmp_path)]
    load_implementation("found_last")
    assert path == [*before, str(tmp_path)]


def test_a_module_of_ours_needs_no_working_directory(path, tmp_path):
    before = list(path)
    load_implementation("specsim.reference")
    assert path == before


def test_what_is_installed_goes_first_and_that_is_said(path, tmp_path, capsys):
    (tmp_path / "click.py").write_text(MINE)
    assert not load_implementation("click").has("fill_bonus_tokens")
    reported = capsys.readouterr().err
    assert reported.startswith("click is /")
    assert reported.endswith(f": what is installed goes before {tmp_path}/click.py\n")


def test_a_path_is_no_module(path):
    with pytest.raises(Failed, match="without slashes"):
        load_implementation("./mine.py")
