"""What ``specsim matrix`` prints, and how it ends."""

import json

import pytest

from specsim.properties.matrix import factors, run
from specsim.properties.matrix.factors import FACTORS

CELL = "v2-page4-topk1-mha-chunks"
ONE = ("matrix", "--cell", CELL, "--histories", 1, "--seed", 7)


def test_json(specsim):
    got = specsim(*ONE, "--json")
    assert got.exit_code == 0, got.stdout
    document = json.loads(got.stdout)
    named = {name: document[name] for name in ("verdict", "seed", "profile", "layer", "histories", "failures")}
    assert named == {
        "verdict": "conforms",
        "seed": 7,
        "profile": "ci",
        "layer": "reference",
        "histories": 1,
        "failures": 0,
    }
    assert document["factors"] == {name: list(values) for name, values in FACTORS.items()}
    (cell,) = document["cells"]
    assert {name: cell[name] for name in FACTORS} == {
        "worker": "v2",
        "page_size": 4,
        "topk": 1,
        "pool": "mha",
        "overlap": False,
        "chunking": True,
        "prefix_cache": False,
        "algorithm": "EAGLE",
        "verify_mode": "static",
        "acceptance": "token",
    }
    assert (cell["name"], cell["histories"], cell["failures"], cell["short"]) == (CELL, 1, [], {})
    assert cell["requests"] >= 3
    assert cell["iterations"] >= 8
    assert min(cell["partial_rejections"], cell["finishes"], cell["chunks"]) >= 1
    assert document["pairs"] == {"covered": 45, "allowed": 45}
    assert document["product"] == {"cells": 1, "allowed": 1, "refused": 0}


def test_the_table_has_a_line_a_cell_and_the_seed_first_and_last(specsim):
    got = specsim(*ONE)
    lines = got.stdout.splitlines()
    assert got.exit_code == 0
    assert lines[0] == "specsim.reference, profile ci, seed 7"
    counted = ["requests", "iterations", "partial", "finishes", "chunks", "hits", "overlaps", "cut", "sampled"]
    assert lines[1].split() == ["cell", "histories", *counted, "verdict"]
    assert [line.split()[-1] for line in lines if line.startswith(CELL)] == ["conforms"]
    assert lines[-1] == "conforms: 1 cells, 1 histories, seed 7"


@pytest.fixture
def small_product(monkeypatch):
    """Let the product be chains of EAGLE on V1 and V2, overlapped or not, on single slots."""
    cells = [cell for cell in factors.all_cells() if cell.topk == cell.page_size == 1 and cell.pool == "mha"]
    by_coins = [cell for cell in cells if cell.is_coin_by_token]
    plain = [cell for cell in by_coins if not cell.is_scheduled and cell.algorithm == "EAGLE"]
    chosen = [cell for cell in plain if not cell.chunking and not cell.prefix_cache]
    monkeypatch.setattr(factors, "all_cells", lambda: chosen)


def test_what_is_refused_is_reported_with_its_reason(specsim, small_product):
    because = "forced-v1: V1 was asked for; it runs without overlap."
    got = specsim("matrix", "--history", 0, "--seed", 7)
    (line,) = (line for line in got.stdout.splitlines() if line.startswith("worker v1, overlap on"))
    assert line.split(maxsplit=6)[4:] == ["1", "rules", because]
    document = json.loads(specsim("matrix", "--history", 0, "--seed", 7, "--json").stdout)
    assert document["product"] == {"cells": 4, "allowed": 3, "refused": 1}
    assert document["refused"] == [
        {
            "combination": {"worker": "v1", "overlap": True},
            "cells": 1,
            "reasons": [{"by": "rules", "because": because}],
        }
    ]


def test_a_failure_is_printed_small_with_the_line_that_replays_it(specsim, cutting):
    cutting("cutting_cells")
    asked = ("matrix", "cutting_cells", *ONE[1:], "--replays", 5)
    got = specsim(*asked)
    assert got.exit_code == 1
    assert f"FAILURE: {CELL}, as it is, history 0: lockstep: iteration 0, Request.output[0, 0] = " in got.stdout
    assert f"Shortest history 0 of {CELL}: " in got.stdout
    assert "  1. admit Arrival(" in got.stdout
    assert f"replay: specsim matrix cutting_cells --seed 7 --cell {CELL} --history 0" in got.stdout
    assert "fails: 1 cells, 1 histories, seed 7" in got.stdout
    document = json.loads(specsim(*asked, "--json").stdout)
    (failure,) = document["cells"][0]["failures"]
    assert (document["failures"], failure["history"]) == (1, 0)
    assert failure["shortest"][1].startswith("1. admit Arrival(")


def test_a_history_that_comes_to_too_little_is_inconclusive(specsim, monkeypatch):
    missed = f"{CELL}, as it is, history 0: finishes = 0, but should be at least 1"
    monkeypatch.setattr(run, "shortfalls", lambda counts, cell: ["finishes = 0, but should be at least 1"])
    command = ("matrix", "--cell", CELL, "--history", 0, "--seed", 7)
    got = specsim(*command)
    assert got.exit_code == 3
    lines = got.stdout.splitlines()
    assert f"undecided: {missed}" in lines
    assert f"replay: specsim matrix specsim.reference --seed 7 --cell {CELL} --history 0" in lines
    assert lines[-1] == f"inconclusive: 1 cells, 1 histories, seed 7, because {missed}"
    document = json.loads(specsim(*command, "--json").stdout)
    (cell,) = document["cells"]
    assert (document["verdict"], document["failures"], cell["verdict"]) == ("inconclusive", 0, "inconclusive")
    assert document["inconclusive_because"] == [missed]
    assert cell["short"] == {"0": ["finishes = 0, but should be at least 1"]}


def test_a_refused_cell_is_not_run(specsim):
    got = specsim("matrix", "--cell", "v1-page1-topk1-mha-overlap")
    assert got.exit_code == 5
    assert got.stderr == (
        "specsim: v1-page1-topk1-mha-overlap is refused by the rules: "
        "forced-v1: V1 was asked for; it runs without overlap.\n"
    )


def test_a_cell_that_is_none(specsim):
    got = specsim("matrix", "--cell", "v3")
    assert got.exit_code == 2
    assert got.stderr == (
        "specsim: --cell is v3, but should be a combination of all factors, such as v1-page1-topk1-mha; "
        "specsim list cells prints all of them\n"
    )
    near = specsim("matrix", "--cell", "v1-page1-topk2-mha").stderr
    assert "such as v1-page1-topk4-mha or v1-page1-topk1-mha or " in near


def test_an_implementation_and_another_layer(specsim):
    got = specsim("matrix", "specsim.reference", "--layer", "gpu")
    assert got.exit_code == 2
    assert got.stderr == (
        "specsim: --layer is gpu, but should be absent, because that is specsim.gpu, and IMPL is specsim.reference\n"
    )


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--histories", 0, "1 to 1,000,000"),
        ("--histories", 10**20, "1 to 1,000,000"),
        ("--history", -1, "0 to 999,999"),
        ("--jobs", 10**6, "1 to 256"),
        ("--seed", 2**32, "0 to 4,294,967,295"),
        ("--replays", 10**9, "0 to 100,000"),
    ],
)
def test_counts_have_bounds_and_reasons(specsim, option, value, expected):
    got = specsim("matrix", option, value)
    assert got.exit_code == 2
    assert got.stderr.startswith(f"specsim: {option} is {value}, but should be {expected}, because ")


def test_an_implementation_that_does_not_import(specsim):
    assert specsim("matrix", "nowhere_to_be_found").exit_code == 4


def test_a_worker_of_ones_own_has_the_cells_of_its_kind(specsim, small_product, tmp_path):
    (tmp_path / "mine.py").write_text('WORKER_V1 = "specsim.reference.worker.v1.ReferenceWorkerV1"\n')
    got = specsim("matrix", "mine", "--history", 0, "--seed", 1, "--json")
    assert got.exit_code == 0
    document = json.loads(got.stdout)
    assert document["layer"] == "IMPL"
    assert [cell["name"] for cell in document["cells"]] == ["v1-page1-topk1-mha"]
    assert {one["reasons"][0]["because"] for one in document["refused"]} == {
        "mine brings no V2 worker",
        "forced-v1: V1 was asked for; it runs without overlap.",
    }


FAULTY = """
import numpy as np

from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.reference.worker.v1 import ReferenceWorkerV1

ORACLE = load("specsim.reference")


class Faulty(CallsByName):
    def call(self, name, /, *positional, **named):
        if name == "generate_coins":
            positional = (*positional[:1], np.zeros_like(positional[1]), *positional[2:])
        return ORACLE.call(name, *positional, **named)

    def host(self, name):
        return ORACLE.host(name)


class FaultyWorker(ReferenceWorkerV1):
    def __init__(self, config, model, sizes):
        super().__init__(config, model, sizes, operations=Faulty())


WORKER_V1 = "faulty.FaultyWorker"
"""


def test_a_law_that_does_not_hold_is_reported_with_the_line_that_goes_through_it_again(specsim, tmp_path):
    """Every verify of a request has the coins of its first one; no greedy output shows that."""
    (tmp_path / "faulty.py").write_text(FAULTY)
    cell = "v1-page1-topk1-mha"
    got = specsim("matrix", "faulty", "--cell", cell, "--histories", 1, "--seed", 1)
    assert got.exit_code == 1
    assert f"FAILURE: {cell}, as it is, law: output of seed" in got.stdout
    assert "0 of 1 laws of sampled requests hold: 27 ways to go, 0 of which the worker went by a seed" in got.stdout
    (line,) = (line for line in got.stdout.splitlines() if line.startswith("replay: "))
    assert line == f"replay: specsim matrix faulty --seed 1 --cell {cell} --law"
    again = specsim(*line.split()[2:], "--json")
    assert again.exit_code == 1
    document = json.loads(again.stdout)
    (law,) = document["laws"]
    assert (document["verdict"], document["histories"], document["law_failures"]) == ("fails", 0, 1)
    assert {name: law[name] for name in ("cell", "shape", "runs", "seeded_runs", "verdict", "replay")} == {
        "cell": cell,
        "shape": "chain",
        "runs": 27,
        "seeded_runs": 0,
        "verdict": "fails",
        "replay": line.removeprefix("replay: "),
    }
    assert law["error"] in got.stdout


def test_a_plan_says_how_much_would_run(specsim):
    asked = ("matrix", "--plan", "--cell", CELL, "--histories", 7, "--seed", 7)
    reported = specsim(*asked).stdout.splitlines()
    assert reported[1].startswith("1 cells, 7 histories and 1 laws would run, in about ")
    document = json.loads(specsim(*asked, "--history", 2, "--json").stdout)
    assert document.pop("seconds") >= 0
    assert document == {"num_cells": 1, "num_histories": 1, "num_laws": 0}


def test_a_law_and_a_history_alone_contradict_each_other(specsim):
    got = specsim("matrix", "--law", "--history", 3)
    assert got.exit_code == 2
    assert got.stderr == "specsim: --law is given, but should be absent, because --history 3 asks for a history alone\n"


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["v1-page4-topk4-mha-cache", "v2-page4-topk1-mha-chunks"])
def test_the_device_runs_cells_in_lockstep(specsim, cell):
    got = specsim("matrix", "--layer", "gpu", "--cell", cell, "--histories", 1, "--seed", 0, "--json")
    assert got.exit_code == 0, got.stdout
    document = json.loads(got.stdout)
    assert (document["implementation"], document["layer"]) == ("specsim.gpu", "gpu")
    assert "eager" in {one["mode"] for one in document["cells"]}
    assert {(law["verdict"], law["runs"]) for law in document["laws"]} == {("conforms", 27)}
    assert min(law["seeded_runs"] for law in document["laws"]) >= 4
