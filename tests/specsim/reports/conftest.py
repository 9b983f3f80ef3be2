"""Documents of small runs, and the pages that the same runs wrote."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from specsim.cli.main import main
from specsim.reports import render
from tests.specsim.reports.runs import CUTTING, KNOWN, RUNS, timed

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """Return the document of each command, and the folder in which its runs were."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copy(ROOT / "docs" / "examples" / "one_short.py", folder)
    (folder / "known.toml").write_text(KNOWN)
    (folder / "cutting.py").write_text(CUTTING)
    documents = {"bench": timed()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        for name, arguments in RUNS.items():
            got = CliRunner().invoke(main, [*arguments, "--json", "--report", f"{name}.html"])
            assert got.exit_code == (1 if name in ("check", "soak", "matrix") else 0), got.output
            documents[name] = json.loads(got.stdout)
    (folder / "bench.html").write_text(render("bench", documents["bench"]))
    return documents, folder


@pytest.fixture
def documents(found, monkeypatch):
    """Return the document of each command, in the folder in which their cases are."""
    monkeypatch.chdir(found[1])
    return found[0]
