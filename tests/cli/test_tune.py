"""``specsim tune``: rankings of a saved sweep under costs by hand, and what is refused before anything runs."""

import json

import msgspec
import pytest

from specsim.installation import find_missing
from specsim.tuning.counted import Cell, Run
from tests.specsim.tuning.test_costs import FILE, changed
from tests.specsim.tuning.test_tune import ALWAYS_ONE, ALWAYS_TWO, chain

CELLS = (chain(1, ALWAYS_ONE), chain(2, ALWAYS_TWO), Cell("EAGLE", 2, 1, 9, reason="num_draft_tokens is 9"))


@pytest.fixture
def tune(specsim, tmp_path):
    """Return what ranks two chains by the costs by hand, or by others."""

    def run(*options, costs=FILE):
        (tmp_path / "costs.json").write_text(json.dumps(costs))
        (tmp_path / "run.json").write_bytes(msgspec.json.encode(Run({}, 0, CELLS)))
        return specsim("tune", "--costs", "costs.json", *options)

    return run


def test_the_screen_of_a_ranking(tune):
    got = tune("--sweep", "run.json", "--batch", "1,9", "--length", 100)
    assert got.exit_code == 0, got.output
    assert got.stdout == SCREEN


SCREEN = """\
batch 1
topk/steps/nodes  ms an iteration              tokens/s           speed-up  against the best
EAGLE 1/2/3                 2.428  1,236 [1,236, 1,236]  1.36 [1.36, 1.36]  best
EAGLE 1/1/2                 1.815  1,102 [1,102, 1,102]  1.21 [1.21, 1.21]  worse
no drafts                   1.102                   907               1.00  worse

batch 9
topk/steps/nodes  ms an iteration              tokens/s           speed-up  against the best
EAGLE 1/2/3                 8.092  3,337 [3,337, 3,337]  1.90 [1.90, 1.90]  best
EAGLE 1/1/2                 6.655  2,705 [2,705, 2,705]  1.54 [1.54, 1.54]  worse
no drafts                   5.118                 1,758               1.00  worse

speed-up against batch
EAGLE 1/2/3
      1   1.36  #############################
      9   1.90  ########################################

1 of 3 combinations cannot run; specsim sweep prints the rule of each
"""


def test_the_document_of_a_ranking(tune):
    document = json.loads(tune("--sweep", "run.json", "--batch", 1, "--length", 100, "--json").stdout)
    assert {name: document[name] for name in ("device", "error", "length", "seed")} == {
        "device": "by hand",
        "error": 0.01,
        "length": 100,
        "seed": 0,
    }
    ((batch, choices),) = [(one["batch"], one["choices"]) for one in document["batches"]]
    best = {"drafter": "EAGLE", "topk": 1, "steps": 2, "draft_tokens": 3}
    assert (batch, choices[0]["configuration"], choices[2]["configuration"]) == (1, best, None)
    assert [one["is_tied"] for one in choices[:3]] == [False, False, False]
    assert [one["slots_past_text"] for one in choices[:3]] == [6, 4, 2]
    assert choices[3]["reason"] == "num_draft_tokens is 9"


def test_a_ranking_runs_the_sweep_itself(tune):
    options = ("--model", "hash", "--topk", 1, "--steps", "1,2", "--requests", 3, "--max-new-tokens", 8)
    got = tune(*options, "--batch", 1)
    assert got.exit_code == 0, got.output
    assert {line.split()[1] for line in got.stdout.splitlines() if line.startswith("EAGLE")} == {"1/1/2", "1/2/3"}


def test_memory_leaves_out_what_does_not_fit(tune):
    got = tune("--sweep", "run.json", "--batch", 9, "--length", 100, costs=FILE | {"memory": {"slots": 500}})
    assert (got.exit_code, got.stderr) == (5, "specsim: no configuration can be ranked\n")
    assert "batch 9: nothing fits\nleft out 1: 4 requests fit, each with 2 slots after its text\n" in got.stdout


@pytest.mark.skipif(bool(find_missing("plots")), reason="needs matplotlib")
def test_speedups_are_drawn(tune, tmp_path):
    assert tune("--sweep", "run.json", "--batch", "1,9", "--plot", "figures").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["speedup.png", "speedup.svg"]


GAP = changed(("iteration_times", "target", "seconds", 0, 1, 0), None)


@pytest.mark.parametrize(
    ("options", "costs", "message"),
    [
        (
            (),
            GAP,
            "--costs costs.json: BAD_CONFIGURATION: iteration_times.target.seconds at 1 requests of 5 tokens after ",
        ),
        (
            (),
            {},
            "--costs costs.json: should have one table, step_rates, step_times, captured_times, iteration_times\n",
        ),
        (
            (),
            {"step_rates": {"probes": [1], "rates": [1]}},
            "--costs costs.json: has no iteration_times, which say what a whole iteration costs\n",
        ),
        (
            (),
            changed(("iteration_times", "target", "tokens"), [2, 5]),
            "--costs costs.json: the target was measured from 2 tokens of a request on, and decoding without drafts "
            "takes 1\n",
        ),
        (("--batch", "8..1"), FILE, "BAD_CONFIGURATION: --batch is 8..1, but should be a range with a number in it, "),
        (("--batch", "5000"), FILE, "COUNT_OUT_OF_RANGE: --batch is 5000, but should be 1 to 4096, because larger "),
        (
            ("--length", 301),
            FILE,
            "--length is 301, but should be 100 to 300, the lengths of --costs costs.json\n",
        ),
        (("--sweep", "none.json"), FILE, "--sweep none.json: No such file or directory\n"),
        (("--sweep", "run.json", "--steps", 3), FILE, "--steps says what to run, and --sweep has run it\n"),
    ],
)
def test_bad_input_is_one_line_before_anything_runs(tune, options, costs, message):
    got = tune(*options, costs=costs)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert got.stderr.startswith(f"specsim: {message}")


def test_a_file_of_costs_that_is_not_there_is_one_line(specsim):
    got = specsim("tune", "--costs", "none.json")
    assert (got.exit_code, got.stderr) == (2, "specsim: --costs none.json: No such file or directory\n")


def test_one_file_of_costs_serves_a_budget_of_verified_drafts_too(specsim, tmp_path):
    """Rows that cost nothing leave out drafts without hope alone, and rows that cost a second leave out all of them."""
    chains = ("--model", "hash", "--topk", 1, "--steps", 3, "--requests", 3, "--max-new-tokens", 12, "--json")
    figures = []
    for seconds in (0.001, 1.0):
        own = changed(("iteration_times", "target", "seconds"), [[[0.001] * 2, [seconds] * 2]] * 2)
        (tmp_path / "costs.json").write_text(json.dumps(own))
        report = json.loads(specsim("simulate", *chains, "--verify-costs", "costs.json").stdout)
        assert report["lossless"] is True
        figures.append(report["scheduled_verify"])
    free, dear = figures
    assert free["num_verified_drafts"] > 0.7 * free["num_drafts"]
    assert (dear["num_verified_drafts"], dear["num_cut_drafts"]) == (0, dear["num_drafts"])
