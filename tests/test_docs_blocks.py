"""Every block of the hand-written pages runs: commands, Python, JSON and TOML; what does not says why.

Commands and Python run in an environment that the documented install made, of releases that are pinned. A command that
another test runs is read here, as all of them are, by the command line that would run it.
"""

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import click
import pytest

from specsim.cli.main import main
from tests.installed import install

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
GENERATED = {"host-functions.md", "algorithms.md", "engine-matrix.md"}
FORMULAS = {"reference": "its blocks are formulas and numbers, which tests/worked_examples computes"}
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(\$ |specsim |python |make |eval |PYTHONPATH=)")
PICTURES = {"mermaid": "a picture, which tests/quality compares with the sources"}

SHOWN = {
    ("README.md", 0): "a picture",
    ("case-format.md", 0): "an outline of a case file, whose … stand for more of the same",
    ("case-format.md", 1): "the grammar of an id",
    ("check-your-kernels.md", 5): "what the command before it prints; tests/test_docs.py compares it",
    ("drawn-drafts.md", 2): "what the command before it prints; tests/test_docs.py compares it",
    ("engines.md", 2): "what an adapter prints where SGLang is installed",
    ("limits.md", 3): "what a check prints of such input",
    ("matrix.md", 1): "what a failure looks like",
    ("matrix.md", 2): "what a failure looks like",
    ("record.md", 2): "what a recording prints",
    ("record.md", 3): "what a replay of recorded calls prints",
    ("samplers-without-coins.md", 3): "what a failure looks like",
    ("schedules.md", 2): "what the command before it prints; tests/test_docs.py compares it",
    ("soak.md", 1): "what a run prints",
    ("soak.md", 2): "what a failure looks like",
    ("soak.md", 4): "what a run prints that came to something too seldom",
    ("soak.md", 5): "what a failure looks like",
    ("soak.md", 6): "what a failure looks like",
    ("stages.md", 2): "what the command before it prints; tests/test_docs.py compares it",
    ("stages.md", 3): "what a failure looks like",
    ("tutorial.md", 2): "what the command before it prints; tests/test_docs.py compares it",
}
"""Blocks that do not run, by page and number, and what they are."""

CANNOT_RUN = {
    "make ": "it runs this suite",
    "python -m pip ": "tests/installed.py runs these lines, which stand in the workflow too",
    "python -m tests.gpu.launching.inside_torch": "needs a GPU; tests/gpu/launching/test_library.py checks the same",
    "python -m zipfile": "it unpacks a download",
    "specsim check specsim.engines.sglang": "needs SGLang; tests/specsim/engines run the adapter",
    "PYTHONPATH=site ": "needs a download of SGLang",
    "specsim bench": "needs a GPU",
    "specsim matrix --layer gpu": "takes minutes without a GPU; tests/cli/test_matrix.py runs cells of it",
    "specsim replay specsim-cases/": "names a placeholder; tests/test_docs.py replays a case",
    "specsim replay calls": "needs the recording of the block before it; tests/specsim/conformance/recording make some",
    "specsim mutants --seeds 20": "takes an hour; tests/cli/test_mutants.py runs a mutant",
    "specsim mutants --with-limits": "takes half an hour; tests/cli/test_mutants.py runs a mutant",
    "specsim campaign": "needs ray; tests/cli/test_campaign.py runs one on three nodes where it is installed",
    "specsim soak --exhaustive --mutants": "takes minutes; tests/cli/test_small_scopes.py runs it",
    "for seed in": "it is the command above five times; tests/cli/check/test_check_known.py runs --by-cause",
    "eval ": "the shell of a user; tests/cli run the completion",
}
"""Commands that do not run here, by how they begin, and why."""

RUN_ELSEWHERE = {
    "g++ ": "tests/test_any_language.py builds the engine",
    "./engine": "tests/test_any_language.py runs the engine",
    "specsim check --command ./engine": "tests/test_any_language.py checks the engine",
    "specsim vectors": "tests/cli/test_vectors.py writes some, tests/test_any_language.py those of the engine",
    "specsim check my_kernels": "tests/test_docs.py checks the example",
    "specsim check one_short": "tests/test_docs.py compares what it prints",
    "specsim check base_rows": "tests/test_docs.py compares what it prints",
    "specsim check one_coin": "tests/test_docs.py compares what it prints",
    "specsim check drawn_token": "tests/test_docs.py compares what it prints",
    "specsim check untrimmed_stage": "tests/test_docs.py compares what it prints",
    "specsim check mypackage.my_kernels --profile ci --seed 1": "tests/test_kernels_ci.py runs this line",
    "specsim check mypackage.my_kernels --profile ci --junit": "tests/cli/test_ci_files.py writes both files",
    "specsim simulate --model hf:": "tests/cli/simulate/test_simulate_checkpoints.py makes checkpoints for it",
    "specsim matrix --profile": ".ci/run runs the profile, tests/cli/test_matrix.py cells of it and --plan",
    "specsim soak --steps 20000": ".ci/run runs 2,000 steps of it",
    "specsim show specsim-cases/": "tests/cli/test_pictures.py draws a case",
    "specsim check my_worker": "tests/cli/check/test_workers_alone.py checks it with every property",
    "specsim check my_scheduler": "tests/cli/check/test_workers_alone.py checks it with every property",
    "specsim simulate --dump": "tests/cli/simulate/test_simulate_dump.py replays one",
    "specsim sweep --dump": "tests/cli/test_sweep.py replays one",
    "specsim check my_drafter": "tests/cli/check/test_workers_alone.py checks it with every property",
}
"""Commands that other tests run, by how they begin, and where."""

SMALLER = (
    (r"^(specsim check mypackage.*)", r"\1 --examples 2 --property agreement.fill_bonus_tokens"),
    (r"^(specsim matrix my_drafter).*", r"\1 --histories 1 --cell repeat-v2-page4-topk1-mha --seed 1"),
    (r"^(specsim matrix)(?! my_drafter)(.*)", r"\1\2 --histories 1 --cell v2-page4-topk1-mha --seed 1"),
    (r"^(specsim soak my_worker.*)--steps 2000", r"\1--steps 700"),
    (r"^(specsim soak my_drafter.*)--steps 2000", r"\1--steps 300"),
    (r"--steps 2000", "--steps 30"),
    (r"^specsim soak --exhaustive$", "specsim soak --exhaustive --max-states 40"),
    (r"--max-states 1000000 --max-seconds 7200", "--max-states 40"),
    (r"README\.md --requests 8", "README.md --requests 2"),
)
"""What is run in the place of a command that takes long: the same command, with less of everything."""

QUOTES = {("bring-your-model.md", 0), ("bring-your-model.md", 1), ("bring-your-model.md", 2)} | {
    ("drawn-drafts.md", 0),
    ("schedules.md", 0),
    ("stages.md", 0),
    ("tutorial.md", 0),
    ("whole-runs.md", 1),
    ("whole-runs.md", 2),
    ("whole-runs.md", 4),
}
"""Blocks of Python that are part of an example, which has to have them word by word."""

NEEDS = {
    "check-your-kernels.md": "import numpy as np",
    "drawn-drafts.md": "import numpy as np",
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
    "schedules.md": "import numpy as np",
    "samplers-without-coins.md": "import numpy as np",
}
"""What the text of a page supposes of its blocks of Python."""

CANNOT_EXECUTE = {
    ("bring-your-model.md", 3): "tests/test_docs.py runs it, and compares what it prints",
    ("findings.md", 0): "needs transformers; its finding is raised where that is installed",
    ("tutorial.md", 3): "tests/test_docs.py puts it in its place, and checks what is then there",
    ("fuzzing.md", 0): "needs atheris, and runs for ever; .ci/run fuzzes with it",
}


def pages():
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page.name not in GENERATED and page.parent.name not in FORMULAS]


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
    """Return the commands that run here."""
    left_out = (*CANNOT_RUN, *RUN_ELSEWHERE, "cd ", "touch ")
    return list(dict.fromkeys(smaller(one) for one in commands() if not one.startswith(left_out)))


def scripts():
    """Return a script for each page that has Python to run: its blocks, one after another."""
    parts = {}
    for place, language, text in blocks():
        if language == "python" and place not in CANNOT_EXECUTE and place not in QUOTES:
            parts.setdefault(place[0], [NEEDS.get(place[0], "")]).append(text)
    return {f"block_of_{Path(name).stem.replace('-', '_')}.py": "\n\n".join(texts) for name, texts in parts.items()}


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
    for begins in (CANNOT_RUN, RUN_ELSEWHERE):
        assert [begin for begin in begins if not any(command.startswith(begin) for command in every)] == []
    run = [one for one in every if not one.startswith((*CANNOT_RUN, *RUN_ELSEWHERE))]
    assert [pattern for pattern, _ in SMALLER if not any(re.search(pattern, command) for command in run)] == []


def test_json_and_toml_are_read():
    for place, language, text in blocks():
        if language == "toml":
            assert tomllib.loads(text), place
        if language == "json" and place not in SHOWN:
            assert json.loads(text), place


def test_quoted_python_is_in_an_example_word_by_word():
    sources = [example.read_text() for example in EXAMPLES.glob("*.py")]
    quoted = {place: text for place, language, text in blocks() if language == "python" and place in QUOTES}
    assert [place for place, text in quoted.items() if not any(text in source for source in sources)] == []
    assert len(quoted) == len(QUOTES)


def test_every_command_of_the_pages_is_read(folder, monkeypatch):
    """Names of commands and options are right and values are such as they take, also where nothing runs."""
    monkeypatch.chdir(folder)
    lines = [re.sub(r"^(PYTHONPATH=site |for .*?; do )|; done$", "", command) for command in commands()]
    lines = [line for line in lines if line.startswith("specsim ")]
    assert len(lines) > 30
    for line in lines:
        name, *arguments = shlex.split(line)[1:]
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        try:
            command.make_context(name, [one.replace("$seed", "1") for one in arguments])
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.first
@pytest.mark.slow
def test_the_commands_and_the_python_of_the_pages_run(folder):
    """One process runs them in turn, because the imports of each take longer than most of them."""
    shutil.copy(Path(__file__).with_name("in_one_process.py"), folder)
    for name, text in scripts().items():
        (folder / name).write_text(text)
    lines = [*tried(), *scripts()]
    (folder / "lines.json").write_text(json.dumps(lines))
    run = "python in_one_process.py ended.json < lines.json"
    whole = install("newest").run(run, folder, GITHUB_STEP_SUMMARY="summary.md")
    assert whole.returncode == 0, whole.stdout
    for line, (code, printed) in zip(lines, json.loads((folder / "ended.json").read_text()), strict=True):
        assert code == 0, f"{line}\n{printed[-2000:]}"
