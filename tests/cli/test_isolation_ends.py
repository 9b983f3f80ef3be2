"""How a check ends that cannot start, is interrupted, or has no time left; and which property it runs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HONEST = "from specsim.reference import fill_bonus_tokens\n"
HANGS = """
import signal, time

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    open("called", "w").close()
    time.sleep(100_000)
"""
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
    told = [line for line in got.stderr.splitlines() if line.startswith("specsim: ")]
    assert (got.exit_code, got.stdout, told) == (4, "", [f"specsim: {name} does not import: {words}"])


def test_one_property_is_run_and_named_by_the_line_that_runs_it_again(specsim, module):
    name = module(HONEST)
    got = specsim("check", name, *ONE, "--json")
    assert (got.exit_code, list(json.loads(got.stdout)["properties"])) == (0, ["agreement.fill_bonus_tokens"])
    unknown = specsim("check", name, "--property", "agreement.fill_bonus_token")
    assert unknown.exit_code == 2
    assert "such as agreement.fill_bonus_tokens" in unknown.stderr


def test_a_property_that_is_cut_tells_what_it_came_to_and_fails_nobody(specsim, module):
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_tells_what_is_done_and_leaves_nobody(module, tmp_path, number):
    command = [sys.executable, "-m", "specsim", "check", module(HANGS), *map(str, ONE), "--call-timeout", "1000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline().endswith("seed 3\n")
        while not (tmp_path / "called").exists() and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(number)
        told, _ = running.communicate(timeout=100)
        left = subprocess.run(["pgrep", "-f", f"zygote [0-9]+ {running.pid}"], capture_output=True, check=False)
    assert running.returncode == 130
    assert told.splitlines()[-1] == "interrupted: 0 examples, seed 3"
    assert "not run: 1 properties, interrupted: agreement.fill_bonus_tokens" in told
    assert left.stdout == b""
