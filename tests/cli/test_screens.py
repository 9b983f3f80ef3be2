"""The first screen of commands, as it is seen, beside a stored picture of it.

``SPECSIM_WRITE_SCREENS=1 python -m pytest tests/cli/test_screens.py`` stores the pictures anew: read them before you
keep them.
"""

import json
import os
import re
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
SIX = """
EMPTY = False
LIMITS = {"build_tree": {"mask_mode": (0, 1)}, "fast_topk": {"k": (1, 4)}}

from specsim.reference import (
    assign_extend_cache_locs,
    build_tree,
    fast_topk,
    fill_bonus_tokens,
    gather_accept_tokens,
    verify_tree_greedy,
)
"""
LONGEST = 10_000
"""Characters of a line in a file."""
FEW = ("--examples", "3", "--seed", "1")
WALKS = ("agreement.verify_tree_greedy", "agreement.fast_topk", "strided.verify_tree_greedy")
COMMANDS = {
    "help": ((), 0),
    "conforms": (("check", "six_kernels", "--examples", "1", "--slow-examples", "1", "--seed", "1"), 0),
    "fails": (("check", "wrong_walk", *(word for name in WALKS for word in ("--property", name)), *FEW), 1),
    "soak": (("soak", "--steps", "200", "--seed", "1"), 0),
}
SURFACES = {
    f"{columns}-{name}": {"columns": columns, "is_terminal": "file" not in name, "environment": environment}
    for columns in (80, 200)
    for name, environment in (
        ("colour", {}),
        ("plain", {"NO_COLOR": "1"}),
        ("file", {"COLUMNS": str(columns)}),
        ("file-colour", {"COLUMNS": str(columns), "FORCE_COLOR": "1"}),
    )
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screens")
    (folder / "wrong_walk.py").write_text(WRONG)
    (folder / "six_kernels.py").write_text(SIX)
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
    return re.sub(r"(?<=at this speed 20,000 steps take )\d+", "60", text)


def uncoloured(picture):
    return re.sub(r"<[0-9;]*>", "", picture)


def compare(name, picture):
    """Compare a picture with the stored one, or store it where the environment asks for that."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("SPECSIM_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture, "utf-8")
    assert picture == path.read_text("utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_screen(folder, name, tmp_path):
    """A command runs once, on a terminal of 80 columns; the other pictures are of what it found there."""
    arguments, code = COMMANDS[name]
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.cli.surfaces", str(results), json.dumps([*SURFACES.values()]), *arguments]
    ended, first = run_on_terminal(command, 80, surroundings(), folder)
    assert ended == code, picture_of(first, 80)
    shown = dict(zip(SURFACES, json.loads(results.read_text("utf-8")), strict=True))
    texts = {}
    for surface, (ended, written) in shown.items():
        columns, is_terminal = SURFACES[surface]["columns"], SURFACES[surface]["is_terminal"]
        assert ended == code, written
        picture = texts[surface] = normalised(
            picture_of(written, columns) if is_terminal else picture_of(written.replace("\n", "\r\n"), LONGEST)
        )
        compare(f"{name}-{surface}", picture)
        assert ("<" in picture) == surface.endswith("colour") or name == "help", surface
        if is_terminal:
            assert all(len(line) <= columns for line in uncoloured(picture).splitlines()), surface
    assert normalised(picture_of(first, 80)) == texts["80-colour"], "what ran is what was shown again"
    for columns in (80, 200):
        kinds = ("colour", "plain", "file", "file-colour")
        colour, plain, file, coloured_file = (texts[f"{columns}-{kind}"] for kind in kinds)
        assert uncoloured(colour) == plain, "the same but for colours"
        assert uncoloured(coloured_file) == file, "the same but for colours"
        assert plain.replace(" \\\n", "").split() == file.split(), "the same words, none of them folded"


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
