"""What ``specsim soak`` prints, and how it ends."""

import json
import re

import pytest

from specsim.conformance.backend import load
from specsim.properties.soak import tags
from specsim.properties.soak.tags import REQUIRED


def test_json(specsim):
    got = specsim("soak", "--steps", 60, "--seed", 7, "--json")
    assert got.exit_code == 0, got.stdout
    document = json.loads(got.stdout)
    assert document["steps"] >= 60
    assert document["decode_iterations"] <= document["steps"]
    assert list(document["reach"]) == [tag.value for tag in REQUIRED]
    assert all(size > 0 for size in document["rss_mib"])
    named = {name: document[name] for name in ("verdict", "seed", "failures", "leaked_slots", "complaints")}
    assert named == {"verdict": "conforms", "seed": 7, "failures": 0, "leaked_slots": 0, "complaints": []}


def test_seed_is_reported_first_and_last(specsim):
    lines = specsim("soak", "--steps", 1, "--seed", 7).stdout.splitlines()
    assert lines[0] == "specsim.reference, seed 7"
    assert lines[-1].startswith("conforms: ")
    assert lines[-1].endswith(" steps, seed 7")


def test_a_failure_is_printed_small_with_the_line_that_replays_it(specsim, cutting):
    cutting("cutting_engine")
    got = specsim("soak", "cutting_engine", "--steps", 60, "--seed", 2, "--replays", 10)
    assert got.exit_code == 1
    (machine,) = re.findall(r"Shortest history of machine (\d+): .+, but should be ", got.stdout)
    assert "  1. admit Arrival(" in got.stdout
    assert f"replay: specsim soak cutting_engine --seed 2 --machine {machine}" in got.stdout


def test_a_machine_is_run_alone(specsim):
    got = specsim("soak", "--seed", 0, "--machine", 3, "--json")
    assert got.exit_code == 0
    assert json.loads(got.stdout)["machines"] == 1


def test_what_was_met_too_seldom_is_inconclusive_and_says_how_many_steps_more_would_do(specsim, monkeypatch):
    monkeypatch.setattr(tags, "least_hits", lambda num_steps: 10 * num_steps)
    got = specsim("soak", "--steps", 20, "--seed", 1)
    assert got.exit_code == 3
    undecided = [line for line in got.stdout.splitlines() if line.startswith("undecided: gram = ")]
    assert undecided and undecided[0].endswith(" steps more should do")
    assert got.stdout.splitlines()[-1].startswith("inconclusive: ")
    document = json.loads(specsim("soak", "--steps", 20, "--seed", 1, "--json").stdout)
    assert (document["verdict"], document["complaints"]) == ("inconclusive", [])
    assert undecided[0].removeprefix("undecided: ") in document["inconclusive_because"]


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--steps", 0, "1 to 100,000,000"),
        ("--steps", 10**20, "1 to 100,000,000"),
        ("--jobs", 10**6, "1 to 256"),
        ("--seed", 2**32, "0 to 4,294,967,295"),
        ("--machine", -1, "0 to 100,000,000"),
        ("--replays", 10**9, "0 to 100,000"),
    ],
)
def test_counts_have_bounds_and_reasons(specsim, option, value, expected):
    got = specsim("soak", option, value)
    assert got.exit_code == 2
    assert got.stderr.startswith(f"specsim: {option} is {value}, but should be {expected}, because ")


def test_an_implementation_that_does_not_import(specsim):
    assert specsim("soak", "nowhere_to_be_found").exit_code == 4


def test_an_implementation_of_operations_has_the_loop_around_them(specsim, tmp_path):
    names = ("verify_tree_greedy", "build_tree")
    source = "".join(f"from specsim.reference import {name}\n" for name in names if load("specsim.reference").has(name))
    (tmp_path / "two_operations.py").write_text(source)
    assert specsim("soak", "two_operations", "--steps", 30, "--seed", 1).exit_code == 0


def test_workers_of_both_kinds_take_the_place_of_the_reference(specsim, tmp_path):
    home = "specsim.reference.worker"
    workers = f"WORKER = '{home}.v2.ReferenceWorker'\nWORKER_V1 = '{home}.v1.ReferenceWorkerV1'\n"
    (tmp_path / "two_workers.py").write_text(f"from specsim.reference import build_tree\n\n{workers}")
    got = specsim("soak", "two_workers", "--steps", 150, "--seed", 4, "--json")
    assert got.exit_code == 0, got.stdout
    assert json.loads(got.stdout)["machines"] > 1
    assert json.loads(got.stdout)["not_required"] == {}


def test_a_worker_that_no_other_one_follows_is_reported(specsim, tmp_path):
    fixed = "FixedWorker has no resized(config)"
    (tmp_path / "fixed.py").write_text("WORKER = 'tests.properties.changing_workers.FixedWorker'\n")
    asked = "soak", "fixed", "--steps", 10, "--seed", 1
    assert f"not tried: change engine (V2), because {fixed}" in specsim(*asked).stdout
    assert json.loads(specsim(*asked, "--json").stdout)["not_required"] == {"change engine (V2)": fixed}
