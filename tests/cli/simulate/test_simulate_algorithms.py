"""``specsim simulate --algorithm`` runs every algorithm with its own defaults, and says what it cannot run."""

import json

import pytest

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 12)


@pytest.fixture
def simulate(specsim, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return lambda *options: specsim("simulate", "--text", path, *SMALL, *options)


@pytest.mark.parametrize(
    ("algorithm", "worker", "num_nodes"),
    [
        ("EAGLE", "v2", 6),
        ("EAGLE3", "v2", 4),
        ("STANDALONE", "v2", 4),
        ("ngram", "v1", 12),
        ("DFLASH", "v1", 16),
        ("FROZEN_KV_MTP", "v1", 4),
    ],
)
def test_an_algorithm_takes_its_own_defaults(simulate, algorithm, worker, num_nodes):
    got = simulate("--algorithm", algorithm, "--json")
    report = json.loads(got.stdout)
    assert got.exit_code == 0, got.output
    # NOTE: requests of DFLASH keep no histogram.
    widths = (0, num_nodes) if algorithm == "DFLASH" else (num_nodes,)
    assert (report["lossless"], report["plan"]["worker"]) == (True, worker)
    assert len(report["histogram"]) in widths
    assert report["num_accepted_drafts"] > 0


@pytest.mark.parametrize("options", [("--mode", "v1", "--page-size", 4), ("--topk", 3, "--draft-tokens", 6)], ids=str)
@pytest.mark.parametrize("algorithm", ["EAGLE3", "STANDALONE"])
def test_it_runs_wherever_eagle_does(simulate, algorithm, options):
    got = simulate("--algorithm", algorithm, "--model", "hash", "--agreement", 0.9, *options, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["lossless"]) == (0, True), got.output
    assert report["num_accepted_drafts"] > report["spec_verify_ct"]


def test_a_perfect_draft_that_sees_tokens_alone_is_accepted_whole(simulate):
    got = simulate("--algorithm", "STANDALONE", "--model", "hash", "--agreement", 1, "--json")
    report = json.loads(got.stdout)
    assert report["num_accepted_drafts"] == 3 * report["spec_verify_ct"]


def test_a_layer_a_step_is_as_deep_as_it_has_layers(simulate):
    got = simulate("--multi-layer", 2, "--model", "hash", "--agreement", 0.9, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["lossless"], len(report["histogram"])) == (0, True, 3), got.output
    assert report["num_accepted_drafts"] > 0


@pytest.mark.parametrize("options", [("--mode", "v1"), ("--overlap",), ("--algorithm", "EAGLE3")], ids=str)
@pytest.mark.parametrize("num_layers", [1, 4])
def test_a_layer_a_step_selects_workers_of_its_own(simulate, num_layers, options):
    got = simulate("--multi-layer", num_layers, *options, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["lossless"], len(report["histogram"])) == (0, True, num_layers + 1), got.output
    assert report["worker"].startswith("reference-multi-layer")
    assert report["num_accepted_drafts"] > 0


def test_layers_propose_one_token_each(simulate):
    got = simulate("--multi-layer", 2, "--topk", 2, "--draft-tokens", 4)
    assert (got.exit_code, "each layer proposes one token" in got.output) == (2, True)


def test_both_layers_run_in_lockstep(simulate):
    size = ("--topk", 2, "--steps", 2, "--draft-tokens", 4, "--max-new-tokens", 4, "--requests", 2)
    got = simulate("--algorithm", "STANDALONE", "--worker", "gpu", "--lockstep", *size, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["lossless"], report["divergence"]) == (0, True, None), got.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithm", "NONE"), "Invalid value for '--algorithm': 'NONE' is not one of"),
        (("--algorithm", "STANDALONE", "--steps", 0), "BAD_CONFIGURATION: num_steps is 0, but should be at least 1"),
        (("--algorithm", "STANDALONE", "--multi-layer", 2), "--multi-layer is for EAGLE and EAGLE3"),
        (("--multi-layer", 2, "--steps", 3), "--steps is 3, but should be 2, because every layer drafts one step"),
        (("--algorithm", "DFLASH", "--draft-tokens", 1025), "--draft-tokens is 1025, but should be at most 1024"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(simulate, options, message):
    got = simulate(*options)
    assert (got.exit_code, got.stdout) == (2, "")
    assert message in got.stderr


def test_sizes_say_where_they_come_from(simulate):
    reported = " ".join(simulate("--help").stdout.split())
    assert "EAGLE 16, NGRAM 12, a block of DFLASH 16, a chain one more than steps" in reported
