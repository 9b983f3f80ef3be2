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
