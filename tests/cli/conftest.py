"""One way to run a command in the process of the test."""

import pytest
from click.testing import CliRunner

from specsim.cli.main import main


@pytest.fixture
def specsim(tmp_path, monkeypatch):
    """Return a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


CUTTING = """
from specsim.properties.mutants import all_mutants
from specsim.reference import build_tree, fill_bonus_tokens

SCHEDULER = next(one.scheduler for one in all_mutants() if one.id == "OWN-1193")
"""


@pytest.fixture
def cutting(tmp_path):
    """Return what writes a module whose scheduler takes each chunk for the end of its prompt."""
    return lambda name: (tmp_path / f"{name}.py").write_text(CUTTING)
