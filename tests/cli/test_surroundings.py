"""Arguments, files, folders and devices that cannot be used: one line on stderr, the right exit code, nothing lost."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specsim.cli.device import STORAGE, need_suite

ROOT = Path(__file__).parents[2]
NO_TEXT = "\udcff\udcfe"
"""What an argument is whose bytes are no UTF-8."""
FAULTY = "def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    return accept_tokens[:, 0].copy()\n"
ONE = ("--operation", "fill_bonus_tokens", "--examples", 6, "--slow-examples", 1, "--seed", 1)
SMALL = ("--requests", 1, "--max-new-tokens", 3)


def one_line(got, code):
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (code, "", 1), got.output
    assert got.stderr.startswith("specsim: ")
    return got.stderr.removeprefix("specsim: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("check", NO_TEXT), 4, r"'\udcff\udcfe' does not import: name a module as in an import, without"),
        (("show", NO_TEXT), 2, r"\udcff\udcfe is neither an operation nor a case file"),
        (("replay", NO_TEXT), 2, r"BAD_CASE_FILE: \udcff\udcfe is No such file or directory"),
        (("rules", "--algorithm", NO_TEXT), 2, r"UNKNOWN_NAME: algorithm is '\udcff\udcfe', but should be one of"),
        (("simulate", "--text", NO_TEXT), 2, r"--text \udcff\udcfe: No such file or directory"),
        (
            ("simulate", *SMALL, "--metrics-file", f"absent/{NO_TEXT}"),
            2,
            r"--metrics-file absent/\udcff",
        ),
        (("simulate", *SMALL, "--metrics-port", 0, "--metrics-address", NO_TEXT), 2, "an argument is no text: "),
        (("show", "a" * 300), 2, f"{'a' * 300}: File name too long"),
        (("show", "case.json/x.json"), 2, "BAD_CASE_FILE: case.json/x.json is Not a directory"),
        (("replay", "."), 2, "BAD_CASE_FILE: . is a directory"),
        (("replay", "/dev/zero"), 2, "BAD_CASE_FILE: /dev/zero is a device or a pipe"),
        (("simulate", "--text", "."), 2, "--text .: Is a directory"),
        (("simulate", "--text", "/dev/zero"), 2, "--text /dev/zero: a device, but should be a file"),
        (("simulate", *SMALL, "--metrics-file", "/dev/zero"), 2, "--metrics-file /dev/zero: no regular file"),
        (("simulate", *SMALL, "--metrics-file", "."), 2, "--metrics-file .: no regular file"),
    ],
    ids=lambda value: (
        " ".join(map(str, value))[:40].encode("ascii", "replace").decode() if isinstance(value, tuple) else ""
    ),
)
def test_what_cannot_be_used_is_one_line(specsim, tmp_path, arguments, code, words):
    (tmp_path / "case.json").touch()
    assert one_line(specsim(*arguments), code).startswith(words)


def test_bytes_that_are_no_text_are_printed_all_the_same(specsim):
    got = specsim("rules", "--algorithm", "eagle", "--model-path", NO_TEXT)
    assert (got.exit_code, r"\udcff\udcfe" in got.stdout) == (0, True)
    document = json.loads(specsim("rules", "--algorithm", "eagle", "--model-path", NO_TEXT, "--json").stdout)
    assert document["config"]["model_path"] == NO_TEXT


def test_a_stop_may_be_any_bytes(specsim):
    assert specsim("simulate", *SMALL, "--stop", NO_TEXT).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    ["check", "check specsim.reference", "simulate", "rules", "replay x", "show fast_topk", "mutants", "bench", "env"],
)
def test_a_working_directory_that_is_gone(specsim, tmp_path, monkeypatch, arguments):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    reported = one_line(specsim(*arguments.split()), 2)
    assert reported == "the working directory cannot be used: No such file or directory"


@pytest.mark.parametrize(
    "command", [("show", "case.json"), ("replay", "case.json"), ("simulate", "--text", "case.json")]
)
def test_a_file_that_may_not_be_read(specsim, tmp_path, monkeypatch, command):
    def denied(opens):
        def opened(path, *others, **named):
            if Path(path).name == "case.json":
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return opens(path, *others, **named)

        return opened

    (tmp_path / "case.json").touch()
    monkeypatch.setattr(Path, "read_bytes", denied(Path.read_bytes))
    monkeypatch.setattr(os, "open", denied(os.open))
    assert "Permission denied" in one_line(specsim(*command), 2)


def test_cases_are_kept_where_their_folder_cannot_be_made(specsim, tmp_path, monkeypatch):
    (tmp_path / "faulty_kept.py").write_text(FAULTY)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    got = specsim("check", "faulty_kept", *ONE, "--json", "--cases-dir", "faulty_kept.py/cases")
    assert got.exit_code == 1
    (folder,) = re.findall(r"^--cases-dir \S+: Not a directory; cases are in (\S+)\n(?:FAILED .*\n)+$", got.stderr)
    kept = [one["case"] for one in json.loads(got.stdout)["failures"] if one["case"]]
    assert kept == [str(path) for path in Path(folder).glob("*.json")] != []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "faulty_kept.py"))
    got = specsim("check", "faulty_kept", *ONE, "--cases-dir", "faulty_kept.py/cases")
    assert got.exit_code == 1
    assert "Not a directory; the case of agreement.fill_bonus_tokens is not written\n" in got.stderr
    assert "smallest case:" in got.stdout


def test_metrics_that_cannot_be_written_any_longer_end_no_run(specsim, monkeypatch):
    written = []

    def write(collector, path):
        written.append(path)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("specsim.host.exposition.write_textfile", write)
    got = specsim("simulate", *SMALL, "--metrics-file", "metrics.prom", "--metrics-interval", 1, "--json")
    assert got.exit_code == 0, got.output
    assert got.stderr == "--metrics-file metrics.prom: No space left on device; the run goes on\n"
    assert json.loads(got.stdout)["lossless"] is True


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        ("check", "specsim.gpu"),
        ("check specsim.gpu.verify", "specsim.gpu"),
        ("simulate --worker gpu", "the gpu worker"),
    ],
)
def test_neither_a_gpu_nor_the_interpreter(specsim, monkeypatch, arguments, who):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    reported = one_line(specsim(*arguments.split()), 4)
    assert (
        reported == f"{who} needs a GPU, or Triton's interpreter in its place: TRITON_INTERPRET is '0', but should be 1"
    )
    assert json.loads(specsim("env", "--json").stdout)["mode"] == "absent"
    monkeypatch.setenv("TRITON_INTERPRET", "TRUE")
    assert json.loads(specsim("env", "--json").stdout)["mode"] == "interpreted"


@pytest.mark.parametrize(("arguments", "code", "start"), [(("-h",), 0, "Usage: specsim "), (("show", "no"), 2, "")])
def test_the_package_is_the_command(arguments, code, start):
    command = [sys.executable, "-m", "specsim", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout[: len("Usage: specsim ")]) == (code, start)
    assert ran.stderr == ("specsim: no is neither an operation nor a case file\n" if code else "")


def test_runs_share_no_name_in_the_temporary_folder(tmp_path, monkeypatch):
    """Notes of Hypothesis go to the user's cache, and to a fresh folder where there is none."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (tmp_path / "file").touch()
    folders = []
    for cache in ("cache", "cache", "file", "file"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
        monkeypatch.delenv(STORAGE, raising=False)
        need_suite()
        folders.append(Path(os.environ[STORAGE]))
    mine, mine_again, *fresh = folders
    assert mine == mine_again == tmp_path / "cache" / "specsim" / "hypothesis"
    assert len({*fresh}) == 2 and {one.parent for one in fresh} == {temporary}
    assert all(one.stat().st_mode & 0o077 == 0 for one in fresh)
