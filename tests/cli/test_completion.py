"""What a shell is told may follow, by click's protocol; in the process that a shell starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def asked(instruction, words=""):
    """Return what a shell gets that asks what may follow some words."""
    told = {"_SPECSIM_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": str(max(words.count(" "), 0))}
    command = [sys.executable, "-m", "specsim"]
    environment = {**os.environ, **told}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return ran.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_commands_and_names(shell):
    assert "_specsim_completion" in asked(f"{shell}_source")
    assert "check" in asked(f"{shell}_complete", "specsim ch")
    assert "build_tree" in asked(f"{shell}_complete", "specsim check --operation build_t")
