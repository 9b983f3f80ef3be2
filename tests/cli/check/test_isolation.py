"""Implementations that abort, hang, exit, take all memory or print without end: named, and no one else's loss."""

import json
from pathlib import Path

import pytest

from specsim.properties.suite.conformance import run

SOURCE = """
import ctypes, os, signal, sys
import numpy as np
from specsim import reference
from specsim.properties.suite.conformance import crashes
from specsim.reference import per_step_draft_out_cache_loc

crashes.SECONDS_OF_THE_SMALL = 2.0

def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    ctypes.CDLL(None).pause()

def take_memory():
    kept = []
    while True:
        kept.append(np.ones(1 << 24))

def spin():
    while True:
        pass

def interrupt():
    raise KeyboardInterrupt

def print_a_gigabyte():
    for _ in range(1 << 10):
        os.write(1, bytes(1 << 20))
    os.abort()

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    if len(accept_tokens) > 1:
        {fault}
    return reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens)
"""
FAULTS = {
    "abort": ("os.abort()", "CRASHED", "killed by SIGABRT"),
    "segfault": ("ctypes.string_at(0)", "CRASHED", "killed by SIGSEGV"),
    "exit": ("os._exit(3)", "CRASHED", "left with exit code 3"),
    "quiet exit": ("os._exit(0)", "CRASHED", "left with exit code 0"),
    "hang in C": ("block()", "TIMED OUT", "has not returned after 1 seconds"),
    "hang in Python": ("spin()", "TIMED OUT", "has not returned after 1 seconds"),
    "memory": ("take_memory()", "CRASHED", "holds "),
    "gigabyte": ("print_a_gigabyte()", "CRASHED", "killed by SIGABRT"),
    "sys.exit": ("sys.exit(3)", "FAILED", "fill_bonus_tokens exits with 3"),
    "interrupt": ("interrupt()", "FAILED", "fill_bonus_tokens raises KeyboardInterrupt"),
    "garbage": ("return {'what': print}", "FAILED", ""),
    "mutation": ("num_accepted_tokens[:] = 1", "FAILED", "fill_bonus_tokens: "),
}
QUICK = ("abort", "hang in C", "interrupt", "garbage", "mutation")
WITH_SEVERAL = ("abort", "hang in C", "memory", "gigabyte", "garbage")
"""Of each way to end one: how a process ended is read alike however many there are."""

SECONDS_OF_A_SEARCH = 3.0
"""For smaller cases, which begin with the smallest structures. A user has more, as of what SOURCE sets for workers."""

GROUPS = ("agreement", "strided", "mutation", "poison")
OPERATIONS = ("fill_bonus_tokens", "per_step_draft_out_cache_loc")
CHOSEN = tuple(f"--property={group}.{name}" for group in GROUPS for name in OPERATIONS)


HONEST = {}
"""What is said of the module without a fault, by number of processes."""


def every(names, jobs):
    return [pytest.param(name, number, id=f"{name}, {number} jobs") for name in names for number in jobs]


@pytest.fixture
def module(tmp_path, request, monkeypatch):
    """Return a function that writes a module with a fault; its name is no other test's."""
    monkeypatch.setattr(run, "SECONDS_OF_A_SEARCH", SECONDS_OF_A_SEARCH)

    def write(fault):
        name = "isolated_" + "".join(filter(str.isalnum, f"{request.node.name}{len(fault)}"))
        (tmp_path / f"{name}.py").write_text(SOURCE.format(fault=fault))
        return name

    return write


def limits_of(fate):
    return "--call-timeout", 1 if fate == "TIMED OUT" else 60, "--max-memory", 700


def document_of(specsim, name, jobs, limits):
    usual = ("--examples", 10, "--seed", 3, "--budget", 1000, "--json", "--jobs", jobs)
    got = specsim("check", name, *usual, *limits, *CHOSEN)
    return got.exit_code, json.loads(got.stdout)


def require_named(specsim, module, fault, jobs):
    statement, fate, words = FAULTS[fault]
    code, found = document_of(specsim, module(statement), jobs, limits_of(fate))
    assert (code, found["verdict"]) == (1, "fails")
    assert {one["operation"] for one in found["failures"]} == {"fill_bonus_tokens"}
    assert {one["fate"] for one in found["failures"]} == {fate}
    cut = [name for name, one in found["properties"].items() if one["cut"]]
    assert not cut, "the run ends within its budget"
    first = found["failures"][0]
    assert words in first["message"]
    case = json.loads(Path(first["case"]).read_text())
    assert case["operation"] == "fill_bonus_tokens"
    if fate != "FAILED" and fault != "memory":
        assert case["arrays"]["accept_tokens"]["shape"][0] == 2, "the smallest case that crashes has two requests"
    if jobs not in HONEST:
        _, HONEST[jobs] = document_of(specsim, module("pass"), jobs, limits_of(fate))
    honest = HONEST[jobs]
    other = "per_step_draft_out_cache_loc"
    assert found["operations"][other] == honest["operations"][other]
    for group in GROUPS:
        properties = [one["properties"][f"{group}.{other}"] for one in (found, honest)]
        assert {**properties[0], "seconds": 0} == {**properties[1], "seconds": 0}
    again = specsim("replay", first["case"], "--implementation-from-case", *limits_of(fate))
    mark = "x FAILED" if fate == "FAILED" and fault in ("garbage", "mutation") else f"! {fate}"
    mark = "! CRASHED" if fault in ("sys.exit", "interrupt", "garbage") else mark
    assert (again.exit_code, again.stdout[: len(mark)]) == (1, mark), again.output


@pytest.mark.parametrize(("fault", "jobs"), every(QUICK, (1,)))
def test_who_crashes_or_hangs_is_named_and_the_others_are_not_touched(specsim, module, fault, jobs):
    require_named(specsim, module, fault, jobs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "jobs"),
    every([one for one in FAULTS if one not in (*QUICK, *WITH_SEVERAL)], (1,)) + every(WITH_SEVERAL, (4,)),
)
def test_every_fault_with_one_process_and_with_several(specsim, module, fault, jobs):
    require_named(specsim, module, fault, jobs)
