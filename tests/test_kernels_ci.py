"""The workflow of docs/examples runs as it stands."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
RUN = "        run: specsim "
FEW = {"check": ["--examples", "1", "--operation", "fill_bonus_tokens"]}
"""Of the properties one operation's are enough to see that a command line runs."""

COMMANDS = [
    shlex.split(line.removeprefix(RUN))
    for line in (EXAMPLES / "kernels-ci.yml").read_text(encoding="utf-8").splitlines()
    if line.startswith(RUN)
]


def test_the_workflow_calls_specsim():
    assert [command[0] for command in COMMANDS] == ["env", "check"]


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_command_of_the_workflow_ends_well(command, tmp_path):
    for name in ("my_kernels.py", "known.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    line = [sys.executable, "-m", "specsim", *command, *FEW.get(command[0], [])]
    done = subprocess.run(
        line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
