"""The tables of the live page are the suite's own figures, and those of the semantics."""

import re
from fractions import Fraction
from html import escape
from pathlib import Path

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.host.schedules import ScheduleHistory
from specsim.properties.host.schedules.examples import TWO_DRAFTS, schedule_of
from specsim.properties.host.schedules.laws import chosen_lengths
from specsim.properties.host.schedules.strategy import ScheduleCase
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.live import schedulers, trees
from specsim.properties.suite.live.__main__ import build, main
from specsim.properties.suite.live.page import tables
from tests.properties.host.test_scheduled_law import DISTANCES, NEVER

ROOT = Path(__file__).parents[4]
SOURCE = ROOT / "docs" / "live"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(SOURCE, tmp_path_factory.mktemp("site") / "live")


def test_schedules_are_as_far_off_as_the_semantics_have_it():
    tabulated = tables()["schedules"]["tabulated"]
    found = {entry["name"]: " ".join(law["distance"] for law in entry["laws"]) for entry in tabulated}
    assert len(found) == 26
    assert {name: distances for name, distances in found.items() if distances != NEVER} == DISTANCES


def test_the_row_of_the_other_request_leaves_each_alone_and_makes_them_dependent():
    (entry,) = [one for one in tables()["schedules"]["tabulated"] if one["name"] == "each by the other's first draft"]
    assert (entry["laws"][0]["alone"], entry["laws"][0]["dependence"]) == (["0", "0"], "1/64")


def test_first_tokens_of_shared_noise_are_those_of_the_semantics():
    entries = tables()["streams"]["entries"]
    assert [" ".join(entry["sharing"]["OWN-4230"]["first"].values()) for entry in entries] == [
        "1/10 51/80 21/80",
        "1/10 63/100 27/100",
        "1/10 81/130 18/65",
        "1/10 3/5 3/10",
        "37/70 19/70 1/5",
        "1/2 3/10 1/5",
        "1/10 23/130 271/910 387/910",
    ]
    assert {entry["sharing"][""]["bias"]["exact"] for entry in entries} == {"0"}


def test_a_bonus_on_the_last_drafts_noise_shows_in_two_tokens_only():
    (entry,) = [one for one in tables()["streams"]["entries"] if one["proposal"] == (12, 6, 2)]
    shared = entry["sharing"]["OWN-4231"]
    assert shared["biasOfFirst"]["exact"] == "0"
    assert Fraction(shared["bias"]["exact"]) > 0


def test_the_reference_has_no_bias_on_any_tree_and_each_fault_has_some_or_is_harmless():
    biases = {}
    for entry in tables()["trees"]["scenes"]:
        for number, sampler in entry["samplers"].items():
            biases.setdefault(number, set()).add(sampler["bias"]["exact"])
    harmless = {number for number, found in biases.items() if found == {"0"}}
    assert harmless == {"", "OWN-260"}, "in which order siblings are tried changes paths, and no law"


@pytest.mark.parametrize(
    ("tree", "fault", "bias"),
    [
        # NOTE: both drafts are rejected with chance 1/4; then token 2 should come out, and does so with 1/4 of that.
        ("equal siblings", "SYN6", "3/16"),
        # NOTE: the first twin's mass of 1/2 counts twice, so that one of both is accepted always.
        ("equal siblings", "OWN-292", "1/2"),
        # NOTE: both drafts are accepted always, each with chance 1/4 by rights, and then any token comes.
        ("chain", "V28", "15/16"),
    ],
)
def test_biases_by_hand(tree, fault, bias):
    scene = next(scene for name, scene in trees.scenes() if name == tree)
    assert str(trees.bias_of(scene, trees.exact_law(trees.samplers()[fault], scene))) == bias


@pytest.mark.parametrize(("rule", "fault"), [(schedulers.BEFORE, ""), (schedulers.AFTER, "OWN-4100")])
@pytest.mark.parametrize("budget", schedulers.BUDGETS)
def test_schedulers_of_the_page_choose_as_the_reference_and_its_planted_fault_do(rule, fault, budget):
    backend = load("specsim.reference")
    if fault:
        (mutant,) = [one for one in all_mutants() if one.id == fault]
        backend = mutant.plant(backend)
    owners, survivals = np.zeros(2, dtype=np.int64), np.ones((2, 2), dtype=np.float32)
    history = ScheduleHistory(survivals, owners, owners, np.ones(7), verify_token_budget=budget)
    confidences = {front: float(max(row)) for front, row in TWO_DRAFTS[0].proposal.items()}
    chosen = chosen_lengths(backend, ScheduleCase(TWO_DRAFTS, (confidences, confidences), history))
    (own,) = [choose for name, by, choose in schedulers.three(TWO_DRAFTS) if (name, by) == (rule, budget)]
    assert schedule_of(TWO_DRAFTS, own) == chosen


def test_the_page_is_one_document_that_loads_nothing(built):
    text = built.read_text(encoding="utf-8")
    assert re.findall(r"<!--|/\* \w+ \*/", text) == []
    assert re.findall(r"\ssrc=|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")", text) == []
    assert set(re.findall(r"<a href=\"([^\"]*)\"", text)) == {"#tree", "#schedulers", "#streams"}


def test_every_figure_of_the_table_of_schedules_is_read_without_the_script(built):
    body = built.read_text(encoding="utf-8").partition("<script")[0]
    for name, distances in DISTANCES.items():
        cells = "".join(f'<td class="{"zero" if one == "0" else "off"}">{one}</td>' for one in distances.split())
        assert f'<th scope="row">{escape(name)}</th>{cells}' in body
    assert "no wheel for Pyodide" in body


@pytest.mark.parametrize(
    ("source", "target", "because"),
    [
        (SOURCE.parent, "out", f"{SOURCE.parent} has no index.html: it should be docs/live of a checkout"),
        (SOURCE, "file", "{0}: File exists"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_in_one_line(tmp_path, monkeypatch, capsys, source, target, because):
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["live", str(source), str(tmp_path / target)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"python -m specsim.properties.suite.live: error: {because.format(tmp_path / target)}"
    )
