"""How a check ends that cannot start, is interrupted, or has no time left; and which property it runs."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HONEST = "from specsim.reference import fill_bonus_tokens\n"
HANGS = """
import signal, time

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    open("called", "w").close()
    time.sleep(100_000)
"""
LISTENS = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("specsim", run_name="__main__")
"""
"""Undoes what a shell without job control does to what it starts in the background: that hears no interrupts."""
ONE = ("--examples", 20, "--seed", 3, "--property", "agreement.fill_bonus_tokens")


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes a module whose name no other test uses."""

    def write(source):
        name = f"ending_{''.join(filter(str.isalnum, request.node.name))}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os\nos._exit(3)", "left with exit code 3"),
        ("import os\nos.abort()", "killed by SIGABRT"),
        ("import time\ntime.sleep(100_000)", "has not returned after 2 seconds"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
    ids=["exit", "abort", "hang", "interrupt"],
)
def test_an_import_that_ends_its_process_is_one_line(specsim, module, source, words):
    name = module(source)
    got = specsim("check", name, "--start-timeout", 2)
    reported = [line for line in got.stderr.splitlines() if line.startswith("specsim: ")]
    assert (got.exit_code, got.stdout, reported) == (4, "", [f"specsim: {name} does not import: {words}"])


def test_one_property_is_run_and_named_by_the_line_that_runs_it_again(specsim, module):
    name = module(HONEST)
    got = specsim("check", name, *ONE, "--json")
    assert (got.exit_code, list(json.loads(got.stdout)["properties"])) == (0, ["agreement.fill_bonus_tokens"])
    unknown = specsim("check", name, "--property", "agreement.fill_bonus_token")
    assert unknown.exit_code == 2
    assert "such as agreement.fill_bonus_tokens" in unknown.stderr


def test_a_property_that_is_cut_tells_what_it_came_to_and_fails_no_one(specsim, module):
    slow = "import time\nfrom specsim import reference\n\ndef fill_bonus_tokens(**arguments):\n    time.sleep(0.3)\n"
    name = module(slow + "    return reference.fill_bonus_tokens(**arguments)\n")
    got = specsim("check", name, *ONE, "--operation", "fill_bonus_tokens", "--timeout", 2, "--json")
    found = json.loads(got.stdout)
    (report,) = found["properties"].values()
    assert (got.exit_code, found["verdict"]) in [(0, "conforms"), (3, "inconclusive")]
    assert report["cut"]
    assert report["examples"] < 20
    assert (report["examples"] == 0) == (got.exit_code == 3)


def test_a_budget_that_is_spent_leaves_out_and_says_so(specsim, module):
    got = specsim("check", module(HONEST), *ONE, "--budget", 0.01, "--operation", "fill_bonus_tokens")
    assert got.exit_code == 3
    assert "not run: 1 properties, the budget is spent: agreement.fill_bonus_tokens" in got.stdout


def test_whatever_is_raised_is_a_failure_and_no_crash(specsim, module):
    """What is raised once more when the case is kept leaves the property; its process goes on all the same."""
    odd = "class Odd(BaseException):\n    pass\n\ndef fill_bonus_tokens(**arguments):\n    raise Odd('so odd')\n"
    got = specsim("check", module(odd), *ONE, "--json")
    (failure,) = json.loads(got.stdout)["failures"]
    assert (got.exit_code, failure["fate"], failure["operation"]) == (1, "FAILED", "fill_bonus_tokens")
    assert "Odd" in failure["error"] and "so odd" in failure["error"]
    assert Path(failure["case"]).exists()


def test_sizes_are_bounded_and_the_bounds_are_reported(specsim, module):
    spy = "from specsim import reference\n\ndef fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n"
    spy += "    print('size', *accept_tokens.shape)\n"
    name = module(spy + "    return reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens)\n")
    sizes = {}
    for bounds in ((), ("--max-requests", 2, "--max-nodes", 4)):
        got = specsim("check", name, *ONE, *bounds)
        assert got.exit_code == 0
        seen = [line.split()[1:] for line in got.stderr.splitlines() if line.startswith("size ")]
        sizes[bounds] = [max(map(int, each)) for each in zip(*seen, strict=True)]
        assert ("excluded: more than 2 requests" in got.stdout) == bool(bounds)
    (requests, nodes), (few, small) = sizes.values()
    assert few <= 2 < requests and small <= 4 < nodes
    assert specsim("check", name, "--max-nodes", 1).exit_code == 2


def test_the_line_of_a_whole_run_reproduces_exactly_it(specsim, module):
    wrong = "def per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps):\n"
    name = module(wrong + "    return out_cache_loc.reshape(num_steps, -1).copy()\n")
    which = ("--property", "pool_kinds.storage_changes_no_phase", "--operation", "per_step_draft_out_cache_loc")
    bounds = ("--examples", 40, "--budget", 1000, "--max-vocab", 50, "--without", "fill_bonus_tokens")
    got = specsim("check", name, "--seed", 3, *bounds, *which)
    assert got.exit_code == 1
    (line,) = [line for line in got.stdout.splitlines() if line.startswith("  specsim check ")]
    assert " --without fill_bonus_tokens " in line
    again = specsim(*shlex.split(line)[1:])
    assert (again.exit_code, again.stdout) == (1, got.stdout)


def test_a_reader_that_leaves_keeps_the_exit_code_of_the_verdict(module, tmp_path):
    name = module("def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    raise KeyError\n")
    check = " ".join([sys.executable, "-m", "specsim", "check", name, *map(str, ONE)])
    command = ["bash", "-c", f"{check} | head -1; exit ${{PIPESTATUS[0]}}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    got = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (got.returncode, got.stdout.count("\n")) == (1, 1)
    assert "fails: " in got.stderr


@contextmanager
def _killed_at_last(running):
    """Let no process outlive a test that failed."""
    try:
        yield
    finally:
        running.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_tells_what_is_done_and_leaves_no_one(module, tmp_path, number):
    command = [sys.executable, "-c", LISTENS, "check", module(HANGS), *map(str, ONE), "--call-timeout", "1000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    with running, _killed_at_last(running):
        assert running.stdout.readline().endswith("seed 3\n")
        while not (tmp_path / "called").exists() and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(number)
        reported, _ = running.communicate(timeout=100)
    assert running.returncode == 130
    assert reported.splitlines()[-1] == "interrupted: 0 examples, seed 3"
    assert "not run: 1 properties, interrupted: agreement.fill_bonus_tokens" in reported
    for _ in range(500):  # NOTE: processes that are killed with it take a moment to be gone.
        left = subprocess.run(["pgrep", "-f", f"fork_server [0-9]+ {running.pid}"], capture_output=True, check=False)
        if not left.stdout:
            break
        time.sleep(0.02)
    assert left.stdout == b""
