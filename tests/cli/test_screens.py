"""The first screen of commands, as it is seen, beside a stored picture of it.

``SPECSIM_WRITE_SCREENS=1 python -m pytest tests/cli/test_screens.py`` stores the pictures anew: read them before you
keep them.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.terminal import picture_of, run_on_terminal

SCREENS = Path(__file__).parent / "screens"
ROOT = Path(__file__).parents[2]
WRONG = """
from specsim.reference import fast_topk
from specsim.reference import verify_tree_greedy as right


def verify_tree_greedy(
    candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps
):
    predict, accept_index, num_accepted_drafts = right(
        candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps
    )
    return predict, accept_index, num_accepted_drafts * 0
"""
FEW = ("--examples", "3", "--seed", "1")
WALKS = ("agreement.verify_tree_greedy", "agreement.fast_topk", "strided.verify_tree_greedy")
COMMANDS = {
    "help": ((), 0),
    "fails": (("check", "wrong_walk", *(word for name in WALKS for word in ("--property", name)), *FEW), 1),
}
WIDTHS = (80, 200)
CHEAP = ("help",)
"""Commands that are also compared in a file of 80 columns."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screens")
    (folder / "wrong_walk.py").write_text(WRONG)
    return folder


def surroundings(**more):
    """Return an environment without what makes a screen another one elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    fixed = {"TERM": "xterm-256color", "CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1", "PYTHONUTF8": "1"}
    return {**kept, "PYTHONPATH": paths, **fixed, **more}


def normalised(text):
    """Return a picture with what differs between two runs in a form of its own, as long as it was."""
    text = re.sub(r"(?<=-)[0-9a-f]{16}(?=\.json)", "0123456789abcdef", text)
    return re.sub(r"\d+(?= seconds for 20,000 steps)", "60", text)


def compare(name, text):
    """Compare a picture with the stored one, or store it where the environment asks for that."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("SPECSIM_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(normalised(text), "utf-8")
    assert normalised(text) == path.read_text("utf-8")


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_screen(folder, name, columns):
    arguments, code = COMMANDS[name]
    command = [sys.executable, "-m", "specsim", *arguments]
    ended, written = run_on_terminal(command, columns, surroundings(), folder)
    coloured = picture_of(written, columns)
    assert ended == code, coloured
    compare(f"{name}-{columns}-colour", coloured)
    plain = re.sub(r"<[0-9;]*>", "", coloured)
    assert all(len(line) <= columns for line in plain.splitlines())
    if columns == 80:
        ended, written = run_on_terminal(command, columns, surroundings(NO_COLOR="1"), folder)
        assert ended == code
        compare(f"{name}-{columns}-plain", picture_of(written, columns))
        assert normalised(picture_of(written, columns)) == normalised(plain), "the same but for colours"
    if columns == 200 or name in CHEAP:
        ran = subprocess.run(
            command,
            env=surroundings(COLUMNS=str(columns)),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (code, "")
        assert "\x1b" not in ran.stdout
        compare(f"{name}-{columns}-file", ran.stdout)
        words = [normalised(text).replace(" \\\n", "").split() for text in (plain, ran.stdout)]
        assert words[0] == words[1], "the same words, none of them folded"


def test_a_long_import_is_said_within_a_second_and_nothing_of_it_is_left(folder):
    (folder / "slow_import.py").write_text("import time, warnings\ntime.sleep(2)\nwarnings.warn('of no use')\n")
    command = [sys.executable, "-m", "specsim", "check", "slow_import", *FEW, "--property", "agreement.fast_topk"]
    started = time.monotonic()
    code, written = run_on_terminal(command, 80, surroundings(), folder)
    assert time.monotonic() - started > 2
    assert code == 5, written
    assert written.startswith("\x1b[?25limporting slow_import … "), "before anything else"
    picture = picture_of(written, 80)
    assert "importing" not in picture and "slow_import.py" not in picture
    assert "warning: of no use\n" in picture
