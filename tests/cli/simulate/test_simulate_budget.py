"""``specsim simulate --verify-budget``: what is verified of drafts, and what is refused."""

import json

import pytest

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 12)
FOR_CHAINS = "A budget of verified drafts is for chains, and"
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
        (("--verify-mode", "compact"), "--verify-mode needs a --verify-budget or --verify-costs"),
        (("--verify-budget", -1), "Invalid value for '--verify-budget': -1 is not in the range"),
        (("--verify-budget", 10**20), f"Invalid value for '--verify-budget': {10**20} is not in the range"),
        (("--verify-budget", 1.5), "Invalid value for '--verify-budget'"),
        (("--verify-budget", 3, "--verify-mode", "static"), "Invalid value for '--verify-mode': 'static'"),
        (
            ("--verify-budget", 3, "--topk", 4),
            "A budget of verified drafts is for chains, and EAGLE drafts with --topk 4",
        ),
        (
            ("--verify-budget", 3, "--algorithm", "NGRAM"),
            "A budget of verified drafts is for chains, and NGRAM drafts with trees",
        ),
    ],
)
def test_what_cannot_be_scheduled_is_refused(simulate, options, message):
    got = simulate(*options)
    assert got.exit_code == 2
    assert message in got.stderr


RATES = {"step_rates": {"probes": [1, 4, 6, 8], "rates": [100, 98, 90, 60]}}
TIMES = {
    "step_times": {
        "bias": 0.01,
        "request_probes": [0, 8],
        "request_times": [0, 0.002],
        "row_probes": [1, 4, 8, 12],
        "row_times": [0.001, 0.002, 0.01, 0.02],
    }
}
CAPTURED = {
    "captured_times": {
        "draft_probes": [1, 4],
        "draft_times": [1, 2],
        "verify_probes": [4, 8, 16, 32],
        "verify_times": [5, 6, 9, 20],
        "largest_captured": 16,
    }
}


def costs_in(folder, document):
    """Write a file of costs; text stays as it is."""
    path = folder / "costs.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize("costs", [RATES, TIMES, CAPTURED], ids=lambda costs: next(iter(costs)))
@pytest.mark.parametrize("options", [("--mode", "v1"), ("--overlap", "--verify-mode", "cap-accept")])
def test_budgets_by_costs_are_lossless_and_cut_what_does_not_pay(simulate, tmp_path, costs, options):
    got = simulate(*CHAIN, *options, "--verify-costs", costs_in(tmp_path, costs), "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["lossless"]) == (0, True)
    assert 0 < report["scheduled_verify"]["num_verified_drafts"] <= report["scheduled_verify"]["num_drafts"]


def test_fewer_drafts_are_verified_the_dearer_their_rows_are(simulate, tmp_path):
    found = {}
    for name, rates in (("free", [100, 100]), ("dear", [100, 1e-6])):
        costs = costs_in(tmp_path, {"step_rates": {"probes": [1, 3], "rates": rates}})
        report = json.loads(simulate(*CHAIN, "--verify-costs", costs, "--json").stdout)
        found[name] = report["scheduled_verify"]
    assert found["free"]["num_verified_drafts"] > 2 * found["dear"]["num_verified_drafts"]
    assert found["dear"]["num_verified_drafts"] < found["dear"]["num_cut_drafts"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "Input data was truncated"),
        ([1], "Expected `object`, got `array`"),
        ({"rates": {}}, "Object contains unknown field `rates`"),
        ({}, "should have one table, step_rates, step_times, captured_times"),
        ({**RATES, **TIMES}, "should have one table, step_rates, step_times, captured_times"),
        ({"step_rates": {"probes": [1]}}, "Object missing required field `rates` - at `$.step_rates`"),
        (
            {"step_rates": {"probes": [1, 2.5], "rates": [1, 1]}},
            "Expected `int`, got `float` - at `$.step_rates.probes[1]`",
        ),
        ({"step_rates": {"probes": [1, 2], "rates": [1, True]}}, "Expected `float`, got `bool`"),
        ({"step_rates": {"probes": [1, 2], "rates": 3}}, "Expected `array`, got `int`"),
        (
            {"step_times": {**TIMES["step_times"], "bias": [1]}},
            "Expected `float`, got `array` - at `$.step_times.bias`",
        ),
        (
            {"step_times": {**TIMES["step_times"], "bias": 0}},
            "BAD_CONFIGURATION: bias is 0.0, but should be",
        ),
        ({"step_rates": {"probes": [2, 1], "rates": [1, 1]}}, "BAD_CONFIGURATION: rate probes is (2, 1)"),
    ],
    ids=str,
)
def test_files_without_costs_are_refused_by_their_name(simulate, tmp_path, document, message):
    path = costs_in(tmp_path, document)
    got = simulate(*CHAIN, "--verify-costs", path)
    assert got.exit_code == 2
    assert got.stderr.startswith(f"specsim: --verify-costs {path}: {message}")


def test_costs_stand_in_the_place_of_a_budget_and_have_a_file(simulate, tmp_path):
    got = simulate(*CHAIN, "--verify-costs", tmp_path / "none.json")
    assert (got.exit_code, got.stderr.endswith("none.json: No such file or directory\n")) == (2, True)
    got = simulate(*CHAIN, "--verify-budget", 3, "--verify-costs", costs_in(tmp_path, RATES))
    assert got.exit_code == 2
    assert "--verify-budget and --verify-costs both say how many drafts are verified" in got.stderr
