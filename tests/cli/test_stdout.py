"""A stdout that is closed or full: one line on stderr, the right exit code, and nothing that was found is lost."""

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specsim.cli.main import main
from specsim.cli.output import Exit

ROOT = Path(__file__).parents[2]
FAULTY = "def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    return accept_tokens[:, 0].copy()\n"
ONE = ("--property", "agreement.fill_bonus_tokens", "--examples", "6", "--seed", "1")
SIMULATE = ("simulate", "--requests", "1", "--max-new-tokens", "3")
COMMANDS = [
    ("env",),
    ("env", "--json"),
    ("show", "fast_topk"),
    ("rules", "--algorithm", "eagle"),
    ("rules", "--algorithm", "eagle", "--json"),
    SIMULATE,
    (*SIMULATE, "--json"),
    ("--help",),
    ("check", "--help"),
    ("--version",),
]
SUMMARIES = {"simulate": "; lossless: True"}
WORDS = {errno.ENOSPC: "No space left on device", errno.EPIPE: "Broken pipe"}


class Failing(io.StringIO):
    """A stdout that takes a number of writes and then none."""

    def __init__(self, number, num_writes=0):
        super().__init__()
        self.number, self.num_writes = number, num_writes

    def write(self, text):
        if text and self.num_writes == 0:
            raise OSError(self.number, os.strerror(self.number))
        self.num_writes -= bool(text)
        return super().write(text)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command line with another stdout and returns its exit code and its stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def command(stdout, *arguments):
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as left:
            patch.setattr(sys, "stdout", stdout)
            main(list(arguments), prog_name="specsim")
        return left.value.code or 0, capsys.readouterr().err

    return command


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_results_that_cannot_be_written_are_a_usage_error(run, arguments):
    summary = SUMMARIES.get(arguments[0], "")
    assert run(Failing(errno.ENOSPC), *arguments) == (2, f"specsim: stdout: No space left on device{summary}\n")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_leaves_is_no_failure(run, arguments):
    summary = SUMMARIES.get(arguments[0], "")
    assert run(Failing(errno.EPIPE), *arguments) == (0, f"specsim: stdout: Broken pipe{summary}\n")
    assert run(None, *arguments) == (0, f"specsim: stdout: closed{summary}\n")


def reported_as_found(stderr):
    """Return the lines that name failures when they are found, and the rest."""
    lines = stderr.splitlines(keepends=True)
    found = [line for line in lines if line.startswith("FAILED ")]
    return found, "".join(line for line in lines if line not in found)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_a_failure_is_saved_and_named_whatever_becomes_of_the_report(run, tmp_path, number, options):
    name = f"faulty_{number}_{len(options)}"
    (tmp_path / f"{name}.py").write_text(FAULTY)
    code, reported = run(Failing(number, 1 - len(options)), "check", name, *ONE, *options)
    found, reported = reported_as_found(reported)
    assert bool(found) is bool(options), (
        "a document is for stdout alone, so that failures are printed on stderr as found"
    )
    assert (code, reported.count("\n")) == (1, 1), reported
    assert reported.startswith(f"specsim: stdout: {WORDS[number]}; fails: ")
    (path,) = re.findall(r"failed agreement\.fill_bonus_tokens \((\S+)\)", reported)
    assert json.loads((tmp_path / path).read_text())["operation"] == "fill_bonus_tokens"
    code, reported = run(Failing(number), "replay", path, "--impl", name, *options)
    assert (code, reported) == (1, f"specsim: stdout: {WORDS[number]}; FAILED {path}\n")


@pytest.mark.parametrize("command", [("check", "specsim.reference"), ("mutants",)], ids=["check", "mutants"])
def test_nothing_is_run_for_a_full_stdout(run, command):
    reported = "specsim: stdout: No space left on device; nothing was run\n"
    assert run(Failing(errno.ENOSPC), *command) == (Exit.USAGE, reported)


def test_a_stderr_that_takes_nothing_changes_no_exit_code(run, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Failing(errno.ENOSPC))
    code, _ = run(io.StringIO(), "show", "nothing_of_the_kind")
    assert code == 2


@pytest.fixture
def unread():
    """Return the end of a pipe that no one reads."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize(
    ("redirection", "code", "reported"),
    [
        (">&-", 0, "specsim: stdout: closed\n"),
        (">/dev/full", 2, "specsim: stdout: No space left on device\n"),
        (">&{unread}", 0, "specsim: stdout: Broken pipe\n"),
        (">/dev/full 2>/dev/full", 2, ""),
    ],
)
def test_the_interpreter_adds_nothing_when_it_ends(redirection, code, reported, unread):
    """It flushes stdout once more, and would leave with 120 and two lines of its own."""
    shown = f"\"{sys.executable}\" -c \"from specsim.cli.main import main; main(['show', 'fast_topk'])\""
    command = ["bash", "-c", f"{shown} {redirection.format(unread=unread)}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, pass_fds=[unread])
    assert (ran.returncode, ran.stderr) == (code, reported)
