"""``check --command``: a program that ends, hangs or takes all memory is named as a module is; a bad one ends it."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from specsim.properties.suite.conformance import run

TOY = Path(__file__).parents[2] / "specsim" / "conformance" / "piping" / "toy.py"
CHOSEN = ("--property", "agreement.fill_bonus_tokens", "--examples", 3, "--seed", 1)
FAULTS = {
    "abort": ("CRASHED", "the command: killed by SIGABRT; its stderr ends: call 2 / what it does last"),
    "hang": ("TIMED OUT", "has not returned after 1 seconds"),
    "memory": ("CRASHED", "holds "),
    "type": ("FAILED", "bonus_tokens = int64 [1], but should be int32 [1]"),
}


def toy(how=""):
    return shlex.join([sys.executable, "-I", "-S", str(TOY), how])


def test_a_command_that_is_right_conforms(specsim):
    got = specsim("check", "--command", toy(), *CHOSEN)
    assert (got.exit_code, got.stdout.splitlines()[:3]) == (
        0,
        [
            f"command:{toy()} on the device of a command, seed 1",
            "the command calls itself toy 1.2",
            "a pipe carries values alone: strides of arguments, and writes outside of outputs, are not tried",
        ],
    )


@pytest.mark.parametrize(
    "how", [pytest.param("hang", marks=pytest.mark.slow), *(one for one in FAULTS if one != "hang")]
)
def test_who_ends_hangs_or_answers_wrongly_is_named_and_replayed(specsim, monkeypatch, how):
    monkeypatch.setattr(run, "SECONDS_OF_A_SEARCH", 0.5)
    fate, words = FAULTS[how]
    limits = ("--call-timeout", 1 if fate == "TIMED OUT" else 60, "--max-memory", 450)
    got = specsim("check", "--command", toy(how), *CHOSEN, *limits, "--json")
    (failure,) = json.loads(got.stdout)["failures"]
    assert (got.exit_code, failure["operation"], failure["fate"]) == (1, "fill_bonus_tokens", fate)
    assert words in failure["message"]
    assert failure["replay"].endswith(f"--command {shlex.quote(toy(how))}")
    if how in ("abort", "type"):
        again = specsim(*shlex.split(failure["replay"])[1:])
        mark = "x FAILED" if fate == "FAILED" else f"! {fate}"
        assert (again.exit_code, again.stdout[: len(mark)]) == (1, mark)


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("./nothing", 4, "./nothing cannot be started: No such file or directory"),
        ("echo hello", 2, "echo hello left with exit code 0 after half a frame, 6 of 8 bytes"),
        (toy("hello-more"), 2, f"{toy('hello-more')} wrote 6 bytes more than its answer, b'ready\\n'"),
    ],
)
def test_a_command_that_makes_no_sense_ends_the_run_before_it_begins(specsim, command, code, line):
    got = specsim("check", "--command", command)
    assert (got.exit_code, got.stdout, got.stderr) == (code, "", f"specsim: {line}\n")


def test_a_command_that_does_not_get_ready_is_not_waited_for(specsim):
    got = specsim("check", "--command", "sleep 60", "--start-timeout", 1)
    line = "specsim: command:sleep 60 does not import: has not returned after 1 seconds\n"
    assert (got.exit_code, got.stdout, got.stderr) == (4, "", line)


def test_there_is_one_implementation(specsim):
    got = specsim("check", "my_kernels", "--command", "./engine")
    line = "specsim: --command is ./engine, and my_kernels is another implementation\n"
    assert (got.exit_code, got.stderr) == (2, line)
