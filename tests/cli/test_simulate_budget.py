"""``specsim simulate --verify-budget``: what is verified of drafts, and what is refused."""

import json

import pytest

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 12)
CHAIN = ("--topk", 1, "--steps", 3, "--draft-tokens", 4)


@pytest.fixture
def simulate(specsim, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return lambda *options: specsim("simulate", "--text", path, *SMALL, *options)


@pytest.mark.parametrize("mode", [(), ("--verify-mode", "cap-accept"), ("--verify-mode", "compact")])
@pytest.mark.parametrize("options", [("--mode", "v1"), ("--mode", "v2"), ("--overlap",)])
def test_every_budget_is_lossless_and_counted(simulate, options, mode):
    for budget in (1, 3):
        got = simulate(*CHAIN, *options, *mode, "--verify-budget", budget, "--json")
        report = json.loads(got.stdout)
        assert (got.exit_code, report["lossless"]) == (0, True)
        verified = report["scheduled_verify"]
        assert 0 < verified["num_verified_drafts"] <= budget * report["num_iterations"]
        assert verified["num_drafts"] == verified["num_verified_drafts"] + verified["num_cut_drafts"]
        assert verified["num_accepted_drafts"] <= verified["num_verified_drafts"]
        assert (verified["num_trimmed_drafts"] > 0) == ("cap-accept" in mode)


def test_nothing_verified_is_said(simulate):
    got = simulate(*CHAIN, "--verify-budget", 0)
    assert "none: all " in got.stdout and "every token is the target's own" in got.stdout
    assert got.exit_code == 0


def test_without_a_budget_nothing_is_said(simulate):
    assert "scheduled_verify" not in simulate(*CHAIN).stdout
    assert json.loads(simulate(*CHAIN, "--json").stdout)["scheduled_verify"] == {}


@pytest.mark.parametrize("options", [("--mode", "v1"), ("--overlap",)])
def test_sampled_outputs_are_those_of_the_same_batches_again(simulate, options):
    outputs = []
    for mode in ("cap-accept", "compact"):
        sampled = ("--model", "hash", "--temperature", 0.9, "--verify-budget", 3, "--verify-mode", mode)
        got = simulate(*CHAIN, *options, *sampled, "--json")
        report = json.loads(got.stdout)
        assert (got.exit_code, report["reproducible"]) == (0, True)
        outputs.append([report["meta_info"], report["histogram"]])
    assert outputs[0] == outputs[1]


def test_lockstep_compares_budgets_too(simulate):
    got = simulate(*CHAIN, "--overlap", "--verify-budget", 3, "--lockstep", "--json")
    assert (got.exit_code, json.loads(got.stdout)["divergence"]) == (0, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--verify-mode", "compact"), "--verify-mode needs a --verify-budget"),
        (("--verify-budget", -1), "Invalid value for '--verify-budget': -1 is not in the range"),
        (("--verify-budget", 10**20), f"Invalid value for '--verify-budget': {10**20} is not in the range"),
        (("--verify-budget", 1.5), "Invalid value for '--verify-budget'"),
        (("--verify-budget", 3, "--verify-mode", "static"), "Invalid value for '--verify-mode': 'static'"),
        (("--verify-budget", 3, "--topk", 4), "--verify-budget is for chains, and EAGLE drafts with --topk 4"),
        (("--verify-budget", 3, "--algorithm", "NGRAM"), "--verify-budget is for chains, and NGRAM drafts with trees"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(simulate, options, message):
    got = simulate(*options)
    assert got.exit_code == 2
    assert message in got.stderr
