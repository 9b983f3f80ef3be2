"""Workers that abort, hang or leave are named with the machine or the cell they did it in, and the others run on."""

import json
import os
import time
from pathlib import Path

import pytest

from specsim.conformance.isolation.process_limits import is_there

SOURCE = """
import os, signal, sys, time

from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker


def end_once():
    if not os.path.exists("ended"):
        with open("ended", "w") as file:
            file.write(str(os.getpid()))
        {statement}


class WorkerV1(ReferenceWorkerV1):
    def decode(self, rows, num_steps=None):
        end_once()
        return super().decode(rows, num_steps)


class Worker(ReferenceWorker):
    def decode_from(self, read, rows, num_steps=None):
        end_once()
        return super().decode_from(read, rows, num_steps)


WORKER, WORKER_V1 = "{name}.Worker", "{name}.WorkerV1"
"""
HANG = "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)); time.sleep(100_000)"
FAULTS = {
    "os.abort()": "! CRASHED in decode, action {action}: killed by SIGABRT",
    "os._exit(3)": "! CRASHED in decode, action {action}: left with exit code 3",
    HANG: "! TIMED OUT in decode, action {action}: has not returned after 1 seconds",
    "sys.exit(3)": "RuntimeError: {worker} exits with 3",
}
CELL = "v1-page1-topk1-mha"


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes workers one of which ends as a statement says, in its first iteration."""

    def write(statement):
        name = "ending_" + "".join(filter(str.isalnum, request.node.name))
        (tmp_path / f"{name}.py").write_text(SOURCE.format(statement=statement, name=name))
        return name

    return write


def require_words(error, statement):
    """Check that an error says how the statement ended; which action it was depends on the seed."""
    before, _, after = FAULTS[statement].partition("{action}" if "{action}" in FAULTS[statement] else "{worker}")
    assert error.startswith(before) and error.endswith(after), error


@pytest.mark.parametrize("statement", ["os.abort()", HANG, "sys.exit(3)"])
def test_a_machine_whose_process_ends_fails_and_the_others_run(specsim, module, statement):
    # NOTE: one process, because with two of them the second machine may end first, which one step does not count.
    asked = ("soak", module(statement), "--seed", 9, "--call-timeout", 1, "--replays", 0, "--json")
    got = specsim(*asked, "--steps", 1, "--jobs", 1)
    found = json.loads(got.stdout)
    (failure,) = found["failed_machines"]
    assert (got.exit_code, found["verdict"], found["failures"]) == (1, "fails", 1)
    assert found["steps"] >= 1
    assert found["machines"] > 1 or statement == "sys.exit(3)", "the steps before one leaves by itself are counted"
    require_words(failure["error"], statement)
    (record,) = found["failure_records"]
    assert record["message"] == failure["error"]
    assert (record["fate"] == "FAILED") == (statement == "sys.exit(3)")
    Path("ended").unlink()
    again = specsim(*failure["replay"].split()[1:], "--replays", 0)
    assert again.exit_code == 1
    assert f"FAILURE: machine {failure['machine']}: {failure['error']}" in again.stdout


@pytest.mark.parametrize(("statement", "jobs"), [("os._exit(3)", 2), (HANG, 1)])
def test_a_history_whose_process_ends_fails_and_the_others_run(specsim, module, statement, jobs):
    asked = ("matrix", module(statement), "--cell", CELL, "--seed", 1, "--call-timeout", 1, "--json")
    got = specsim(*asked, "--histories", 2, "--jobs", jobs)
    found = json.loads(got.stdout)
    (cell,), (law,) = found["cells"], found["laws"]
    (failure,) = cell["failures"]
    assert (got.exit_code, found["verdict"], cell["histories"], law["verdict"]) == (1, "fails", 2, "conforms")
    require_words(failure["error"], statement)
    assert failure["shortest"] is None
    Path("ended").unlink()
    again = specsim(*failure["replay"].split()[1:], "--replays", 0)
    assert again.exit_code == 1
    assert f"FAILURE: {CELL}, as it is, history {failure['history']}: {failure['error']}" in again.stdout


def test_a_law_whose_process_ends_does_not_hold(specsim, module):
    got = specsim("matrix", module("os.abort()"), "--cell", CELL, "--law", "--seed", 1)
    assert got.exit_code == 1
    assert f"FAILURE: {CELL}, as it is, law: ! CRASHED in decode: killed by SIGABRT" in got.stdout


def test_a_cell_that_ends_two_processes_runs_no_more(specsim, module):
    always = "os.remove('ended'); os.abort()"
    got = specsim("matrix", module(always), "--cell", CELL, "--histories", 9, "--seed", 1, "--json")
    found = json.loads(got.stdout)
    assert (got.exit_code, found["histories"], found["failures"]) == (1, 2, 2)
    assert f"{CELL}, as it is: 7 histories not run, as it has crashed or hung 2 times" in found["complaints"]


@pytest.mark.parametrize("command", [("soak", "--steps", 1), ("matrix", "--cell", CELL)], ids=["soak", "matrix"])
def test_who_is_interrupted_tells_what_is_done_and_leaves_no_one(specsim, module, command):
    name = module(f"os.kill({os.getpid()}, signal.SIGTERM); {HANG}")
    got = specsim(command[0], name, *command[1:], "--seed", 2)
    assert time.time() - Path("ended").stat().st_mtime < 2
    assert (got.exit_code, got.stdout.splitlines()[-1].partition(":")[0]) == (130, "interrupted")
    assert not is_there(int(Path("ended").read_text()))
