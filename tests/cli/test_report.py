"""``--report``: what it refuses before anything runs, and that no page loses a verdict."""

import importlib.util
import json
import shlex
import shutil

import click
import pytest

from specsim import reports
from specsim.cli.documents import words_of_command
from specsim.cli.main import import_command
from specsim.properties.suite.hunt import matrix
from specsim.properties.suite.hunt.hunt import Kill
from specsim.properties.suite.hunt.matrix import Matrix

COMMANDS = ("check", "mutants", "matrix", "soak", "bench")
KILLED = Matrix((5,), {"B03": ((Kill("agreement.build_tree", 2),),)}, ())
INTERRUPTED = Matrix((5,), KILLED.by_seed, (), is_interrupted=True)


@pytest.fixture
def hunted(monkeypatch):
    """Return a function that sets what a hunt finds, and what happens meanwhile."""

    def hunted(found, meanwhile=lambda: None):
        def kill_matrix(**asked):
            meanwhile()
            return found

        monkeypatch.setattr(matrix, "kill_matrix", kill_matrix)

    return hunted


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_that_cannot_be_written_is_named_before_anything_runs(specsim, tmp_path, command):
    path = tmp_path / "nowhere" / "page.html"
    got = specsim(command, "--report", path)
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", f"specsim: --report {path}: No such file or directory\n")


def test_a_folder_is_no_page(specsim, tmp_path):
    got = specsim("check", "--report", tmp_path)
    assert (got.exit_code, got.stdout) == (2, "")
    assert f"File '{tmp_path}' is a directory." in got.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_what_makes_pages_is_needed_before_anything_runs(specsim, tmp_path, monkeypatch, command):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else find(name))
    got = specsim(command, "--report", "page.html")
    assert (got.exit_code, got.stdout) == (4, "")
    assert got.stderr == "specsim: --report needs jinja2: pip install 'specsim-decoding[report]'\n"
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("matrix --plan", "--report is for what was run, and --plan runs nothing"),
        ("soak --exhaustive --mutants", "--report is for runs of an engine, and --mutants runs faults of one"),
    ],
)
def test_what_has_no_page_is_said(specsim, line, message):
    got = specsim(*line.split(), "--report", "page.html")
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", f"specsim: {message}\n")


def test_a_run_that_cannot_start_is_a_page(specsim, tmp_path):
    got = specsim("check", "no_such_module_for_a_page", "--report", "page.html", "--seed", 3)
    assert got.exit_code == 4
    page = (tmp_path / "page.html").read_text()
    assert "<title>not run: specsim check</title>" in page
    assert "no_such_module_for_a_page does not import" in page
    assert "specsim check no_such_module_for_a_page --seed 3" in page


def test_an_interrupted_run_writes_what_it_has(specsim, tmp_path, hunted):
    hunted(INTERRUPTED)
    assert specsim("mutants", "--report", "page.html", "--seed", 5).exit_code == 130
    page = (tmp_path / "page.html").read_text()
    assert "<title>interrupted: specsim mutants</title>" in page and '<th scope="row">B03' in page


def test_one_that_is_interrupted_before_it_has_anything_says_so(specsim, tmp_path, hunted):
    def interrupt():
        raise KeyboardInterrupt

    hunted(KILLED, interrupt)
    assert specsim("mutants", "--report", "page.html").exit_code == 130
    assert "before anything was tried" in (tmp_path / "page.html").read_text()


def test_a_page_that_cannot_be_written_any_more_loses_no_verdict(specsim, tmp_path, hunted):
    (tmp_path / "gone").mkdir()
    hunted(KILLED, lambda: shutil.rmtree(tmp_path / "gone"))
    got = specsim("mutants", "B03", "--seed", 5, "--report", "gone/page.html")
    assert (got.exit_code, got.stdout.splitlines()[-1]) == (0, "1 of 1 mutants killed, seed 5")
    assert got.stderr == "--report gone/page.html: No such file or directory; it is not written\n"


def test_a_page_that_cannot_be_made_loses_no_verdict(specsim, hunted, monkeypatch):
    def render(*given):
        raise LookupError("a template that is not there")

    hunted(KILLED)
    monkeypatch.setattr(reports, "render", render)
    got = specsim("mutants", "B03", "--seed", 5, "--report", "page.html", "--json")
    assert (got.exit_code, json.loads(got.stdout)["verdict"]) == (0, "conforms")
    assert got.stderr == "--report page.html: LookupError: a template that is not there; it is not written\n"


@pytest.mark.parametrize(
    ("line", "again"),
    [
        ("mutants B03 --json --report page.html --examples 7 --jobs 2", "mutants B03 --examples 7 --jobs 2 --seed 5"),
        ("mutants --seeds 3 --complete", "mutants --seeds 3 --complete --seed 5"),
        ("mutants --first-seed 4 --record 'a file.json'", "mutants --seed 4 --record 'a file.json'"),
        (
            "check a_module --operation fast_topk --operation build_tree --strict --write-known new.toml --by-cause",
            "check a_module --operation fast_topk --operation build_tree --strict --seed 5",
        ),
        (
            "check --timeout 2.5 --known 'my known.toml' --seed 0 --all",
            "check --seed 0 --known 'my known.toml' --timeout 2.5",
        ),
        ("bench --grow batch --plot figures --save a.json --markdown", "bench --grow batch --seed 5"),
        ("soak --machine 3 --seed 2 --junit a.xml --summary a.md", "soak --seed 2 --machine 3"),
        ("matrix --cell v1-page1-topk1-mha --law", "matrix --cell v1-page1-topk1-mha --law --seed 5"),
    ],
)
def test_the_line_that_runs_it_again_has_what_decides_what_runs(line, again):
    name, *arguments = shlex.split(line)
    command = import_command(name)
    context = command.make_context(name, [*arguments])
    assert " ".join(words_of_command(context, 5)) == f"specsim {again}"
    read = command.make_context(name, shlex.split(again)[1:])
    given = [
        one for one in context.params if context.get_parameter_source(one) is click.core.ParameterSource.COMMANDLINE
    ]
    kept = {one for one in given if f"--{one}".replace("_", "-") in again}
    assert {one: read.params[one] for one in kept} == {one: context.params[one] for one in kept}
