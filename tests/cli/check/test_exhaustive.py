"""What ``specsim check --exhaustive`` prints, refuses and keeps."""

import json
import re

import pytest

from specsim.properties.suite.small_trees.every import FORMS

PLANTED = """
import os
import time

import numpy as np

from specsim.reference import verify_tree_greedy as right

LINKS = ([1, 3, -1, -1, 5, -1], [-1, 2, -1, 4, -1, -1])


def verify_tree_greedy(
    candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps
):
    predict, accept_index, num_accepted_drafts = right(
        candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps
    )
    if candidates.shape[1] == 6:
        links = np.stack([retrieve_next_token, retrieve_next_sibling], axis=1)
        is_planted = (links == LINKS).all(axis=(1, 2)) & (num_accepted_drafts == 3)
        {fault}
    return predict, accept_index, num_accepted_drafts
"""
SHORT = "num_accepted_drafts[is_planted] -= 1"
ABORTS = "os.abort() if is_planted.any() else None"


@pytest.fixture
def planted(tmp_path, request):
    """Return a function that writes a module with a fault in one tree of six nodes."""

    def write(fault):
        name = f"planted_{re.sub(r'[^a-z0-9]', '_', request.node.name)}"
        (tmp_path / f"{name}.py").write_text(PLANTED.replace("{fault}", fault))
        return name

    return write


def test_all_cases_are_counted_and_tried(specsim):
    got = specsim("check", "specsim.reference", "--exhaustive", "--max-nodes", 4, "--seed", 1)
    assert got.exit_code == 0, got.output
    for name, form in FORMS.items():
        assert f"tried: {name}, all {form.count_up_to(4):,} cases of up to 4 nodes\n" in got.stdout
    total = sum(form.count_up_to(4) for form in FORMS.values())
    assert got.stdout.splitlines()[-1] == f"conforms: {total:,} examples, seed 1"


def test_json_has_cases_and_what_was_tried(specsim):
    options = ("--operation", "build_tree", "--seed", 1, "--json")
    got = specsim("check", "specsim.reference", "--exhaustive", "--max-nodes", 5, *options)
    assert got.exit_code == 0, got.output
    document = json.loads(got.stdout)
    assert document["exhaustive"] == {"nodes": 5, "operations": {"build_tree": {"cases": 167, "tried": 167}}}
    counts = {"examples": 167, "failures": 0, "missing": False, "margin_cases": 0, "left_out": {}}
    assert document["operations"] == {"build_tree": counts}
    drawn = specsim("check", "specsim.reference", "--examples", 1, "--property", "agreement.build_tree", "--json")
    assert json.loads(drawn.stdout)["exhaustive"] is None


def test_a_fault_in_one_tree_of_six_nodes_is_printed_and_replayed(specsim, planted, tmp_path):
    name = planted(SHORT)
    got = specsim("check", name, "--exhaustive", "--max-nodes", 7, "--seed", 1)
    assert got.exit_code == 1, got.output
    assert "num_accepted_drafts[0] = 2, but should be 3" in got.stdout
    assert "retrieve_next_token = int64 [1, 6] [[1, 3, -1, -1, 5, -1]]" in got.stdout
    (case,) = (tmp_path / "specsim-cases").glob("*.json")
    assert f"specsim replay specsim-cases/{case.name} --impl {name}" in got.stdout
    assert "cases of up to 7 nodes\n" in got.stdout and "tried: verify_tree_greedy, all" not in got.stdout
    again = specsim("replay", case, "--impl", name)
    assert again.exit_code == 1 and again.stdout.startswith("x FAILED")
    assert specsim("replay", case, "--impl", "specsim.reference").exit_code == 0
    assert specsim("check", name, "--exhaustive", "--max-nodes", 5).exit_code == 0


def test_a_crash_in_one_tree_of_six_nodes_keeps_that_tree(specsim, planted):
    got = specsim("check", planted(ABORTS), "--exhaustive", "--max-nodes", 6, "--seed", 1)
    assert got.exit_code == 1, got.output
    assert "verify_tree_greedy CRASHED: killed by SIGABRT" in got.stdout
    assert "retrieve_next_token = int64 [1, 6] [[1, 3, -1, -1, 5, -1]]" in got.stdout


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--operation", "fast_topk"), 2, "--exhaustive has no cases of fast_topk, but of organize_draft_results, "),
        (("--property", "agreement.fast_topk"), 2, "--exhaustive has no cases of agreement.fast_topk, but of "),
        (("--examples", 3), 2, "--examples is for examples, and --exhaustive draws none"),
        (("--operation", "build_tree"), 5, "does not define build_tree: 0 of 26,923 cases"),
        (
            ("--max-nodes", 30, "--operation", "verify_tree_greedy"),
            2,
            "verify_tree_greedy has 51,536,526 cases of up to 10 nodes, but should have at most 10,000,000, "
            "because each is tried: use --max-nodes 9",
        ),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_line(specsim, planted, options, code, words):
    got = specsim("check", planted(SHORT), "--exhaustive", *options)
    assert (got.exit_code, got.stdout) == (code, "")
    assert words in got.stderr and len(got.stderr.splitlines()) == 1


def test_too_little_time_is_inconclusive(specsim):
    options = ("--operation", "verify_tree_greedy", "--timeout", 0.001)
    got = specsim("check", "specsim.reference", "--exhaustive", "--max-nodes", 6, *options)
    assert got.exit_code == 3, got.output
    assert "agreement.verify_tree_greedy: time was enough for " in got.stdout.splitlines()[-1]
