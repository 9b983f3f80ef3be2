"""Every block of the hand-written pages runs: commands, Python, JSON and TOML; what does not says why.

Commands and Python run in an environment that the documented install made, of releases that are pinned.
"""

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.installed import install

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
GENERATED = {"operations.md", "host-functions.md", "properties.md", "algorithms.md"}
FORMULAS = {"semantics.md": "its blocks are formulas and numbers, which tests/worked_examples computes"}
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(\$ |specsim |python |make |eval |PYTHONPATH=)")
PICTURES = {"mermaid": "a picture, which tests/quality compares with the sources"}

SHOWN = {
    ("README.md", 0): "a picture",
    ("case-format.md", 0): "an outline of a case file, whose … stand for more of the same",
    ("case-format.md", 1): "the grammar of an id",
    ("check-your-kernels.md", 5): "what the command before it prints; tests/test_docs.py compares it",
    ("engines.md", 2): "what an adapter prints where SGLang is installed",
    ("matrix.md", 1): "what a failure looks like",
    ("matrix.md", 2): "what a failure looks like",
    ("record.md", 2): "what a recording prints",
    ("record.md", 3): "what a replay of recorded calls prints",
    ("soak.md", 2): "what a failure looks like",
    ("soak.md", 3): "what a failure looks like",
}
"""Blocks that do not run, by page and number, and what they are."""

CANNOT_RUN = {
    "make ": "it runs this suite",
    "python -m pip ": "tests/installed.py runs these lines, which stand in the workflow too",
    "python -m zipfile": "it unpacks a download",
    "specsim check specsim.engines.sglang": "needs SGLang; tests/specsim/engines run the adapter",
    "PYTHONPATH=site ": "needs a download of SGLang",
    "specsim bench": "needs a GPU",
    "specsim matrix --layer gpu": "takes minutes without a GPU; tests/cli/test_matrix.py runs cells of it",
    "specsim replay specsim-cases/": "names a placeholder; tests/test_docs.py replays a case",
    "specsim replay calls": "needs the recording of the block before it; tests/specsim/conformance/recording make some",
    "specsim mutants --seeds 20": "takes an hour; tests/cli/test_mutants.py runs a mutant",
    "specsim mutants --with-limits": "takes half an hour; tests/cli/test_mutants.py runs a mutant",
    "specsim soak --exhaustive --mutants": "takes minutes; tests/cli/test_small_scopes.py runs it",
    "for seed in": "it is the command above five times; tests/cli/test_check_known.py runs --by-cause",
    "eval ": "the shell of a user; tests/cli run the completion",
}
"""Commands that do not run here, by how they begin, and why."""

SMALLER = (
    (r"^(specsim check my_drafter).*", r"\1 --examples 2 --property engine.output_equals_autoregressive_decoding"),
    (r"^(specsim check my_scheduler).*", r"\1 --examples 2 --property scheduled_engine.schedules_change_no_token"),
    (r"^(specsim matrix my_drafter).*", r"\1 --histories 1 --cell repeat-v2-page4-topk1-mha --seed 1"),
    (r"^(specsim check \S+)(.*) --profile ci", r"\1 --examples 2 --operation fill_bonus_tokens\2"),
    (r"--examples 100\b", "--examples 2 --operation fill_bonus_tokens"),
    (r"--examples 10 --slow-examples 2", "--examples 2 --property worker.draft_starts_from_the_committed_length"),
    (r"^(specsim matrix)(.*) --plan", r"\1\2 --plan --cell v2-page4-topk1-mha"),
    (r"^(specsim matrix)(?!.*--plan| my_drafter)(.*)", r"\1\2 --histories 1 --cell v2-page4-topk1-mha --seed 1"),
    (r"^(specsim soak my_(?:worker|drafter).*)--steps 2000", r"\1--steps 700"),
    (r"--steps (20000|2000)", "--steps 30"),
    (r"^specsim soak --exhaustive$", "specsim soak --exhaustive --max-states 40"),
    (r"--max-states 1000000 --max-seconds 7200", "--max-states 40"),
    (r"--jobs \d+", "--jobs 1"),
    (r"README\.md --requests 8", "README.md --requests 2"),
)
"""What is run in the place of a command that takes long: the same command, with less of everything."""

ENDS = {"specsim check one_short": 1, "specsim soak my_engine --steps": 3}
"""Exit codes other than 0, by how commands begin: one fails as its page says, and so short a soak is inconclusive."""

QUOTES = {("bring-your-model.md", 0), ("bring-your-model.md", 1), ("bring-your-model.md", 2)} | {
    ("whole-runs.md", 1),
    ("whole-runs.md", 2),
    ("whole-runs.md", 4),
}
"""Blocks of Python that are part of an example, which has to have them word by word."""

NEEDS = {
    "check-your-kernels.md": "import numpy as np",
    "fuzzing.md": "from my_worker_machine import MyWorker",
    "record.md": """
import numpy as np
import specsim
import my_kernels
from specsim.conformance.recording.taps import Tap

def serve(count):
    for _ in range(count):
        my_kernels.fill_bonus_tokens(np.array([[1, 2]], np.int32), np.array([2], np.int32))
""",
    "samplers-without-coins.md": "import numpy as np",
}
"""What the text of a page supposes of its blocks of Python."""

CANNOT_EXECUTE = {
    ("findings.md", 0): "needs transformers; its finding is raised where that is installed",
    ("fuzzing.md", 0): "needs atheris, and runs for ever; .ci/run fuzzes with it",
}


def pages():
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page.name not in GENERATED | FORMULAS.keys()]


def blocks():
    """Return every block with its page and number, its language and its text."""
    return [
        ((page.name, number), language, text)
        for page in pages()
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text()))
    ]


def commands():
    """Return every command of the pages, without its comment."""
    lines = [
        line
        for place, language, text in blocks()
        if language in ("", "sh") and place not in SHOWN
        for line in text.splitlines()
    ]
    return [line.strip().removeprefix("$ ").partition("  #")[0].strip() for line in lines if line.strip()]


def smaller(command):
    for pattern, replacement in SMALLER:
        command = re.sub(pattern, replacement, command)
    return command


def tried():
    """Return the commands that run; of two of which one has all words of the other, that one."""
    every = dict.fromkeys(smaller(one) for one in commands() if not one.startswith((*CANNOT_RUN, "cd ", "touch ")))
    words = {one: shlex.split(one) for one in every}
    return [
        one
        for one in every
        if not any(words[one][:3] == more[:3] and {*words[one]} < {*more} for more in words.values())
    ]


@pytest.fixture(scope="module")
def installed():
    """Return an environment that the documented install made."""
    return install("newest")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the examples, and with the modules that the pages name."""
    path = tmp_path_factory.mktemp("pages")
    for example in EXAMPLES.iterdir():
        if example.is_file():
            shutil.copy(example, path)
    (path / "mypackage").mkdir()
    (path / "mypackage" / "__init__.py").write_text("")
    shutil.copy(EXAMPLES / "my_kernels.py", path / "mypackage")
    (path / "my_engine.py").write_text("from my_kernels import *\nfrom specsim.reference import verify_tree_greedy\n")
    (path / "known.toml").write_text("")
    shutil.copy(ROOT / "README.md", path)
    return path


def test_every_block_is_of_a_kind_that_is_tried():
    odd = [
        (place, text.splitlines()[0])
        for place, language, text in blocks()
        if language not in ("python", "json", "toml", *PICTURES) and place not in SHOWN
        for line in text.splitlines()
        if line.strip() and not COMMAND.match(line) and language != "sh"
    ]
    assert odd == []
    there = {place for place, _, _ in blocks()}
    assert (SHOWN.keys() | QUOTES | CANNOT_EXECUTE.keys()) - there == set()


def test_what_is_left_out_is_there():
    every = commands()
    assert [begin for begin in CANNOT_RUN if not any(command.startswith(begin) for command in every)] == []
    assert [begin for begin in ENDS if not any(command.startswith(begin) for command in every)] == []
    used = [pattern for pattern, _ in SMALLER if any(re.search(pattern, command) for command in every)]
    assert len(used) >= len(SMALLER) - 3, used


def test_json_and_toml_are_read():
    for place, language, text in blocks():
        if language == "toml":
            assert tomllib.loads(text), place
        if language == "json" and place not in SHOWN:
            assert json.loads(text), place


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({place[0] for place, language, _ in blocks() if language == "python"}))
def test_the_python_of_a_page_runs(name, folder, installed):
    parts = [NEEDS.get(name, "")]
    sources = [example.read_text() for example in EXAMPLES.glob("*.py")]
    for place, language, text in blocks():
        if language != "python" or place[0] != name or place in CANNOT_EXECUTE:
            continue
        if place in QUOTES:
            assert any(text in source for source in sources), place
        else:
            parts.append(text)
    if len(parts) == 1:
        return
    script = f"block_of_{Path(name).stem.replace('-', '_')}.py"
    (folder / script).write_text("\n\n".join(parts))
    ended = installed.run(f"python {script}", folder)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", tried())
def test_a_command_of_the_pages_runs(command, folder, installed):
    assert command.startswith("specsim ")
    ended = installed.run(command, folder, GITHUB_STEP_SUMMARY="summary.md")
    expected = next((code for begin, code in ENDS.items() if command.startswith(begin)), 0)
    assert ended.returncode == expected, ended.stdout[-2000:]
