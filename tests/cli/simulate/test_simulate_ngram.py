"""``specsim simulate --algorithm NGRAM`` takes the defaults of the rules, and says what it cannot do."""

import json

import pytest

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 16, "--max-new-tokens", 24)


@pytest.fixture
def simulate(specsim, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return lambda *options: specsim("simulate", "--algorithm", "NGRAM", "--text", path, *SMALL, *options)


def codes(report):
    return [reason["code"] for reason in report["plan"]["reasons"]]


def test_what_is_left_open_takes_the_defaults_of_the_rules(simulate):
    got = simulate("--json")
    report = json.loads(got.stdout)
    assert got.exit_code == 0, got.output
    assert (report["worker"], report["plan"]["worker"], report["lossless"]) == ("reference-ngram", "v1", True)
    assert {"algorithm-without-v2", "ngram-draft-tokens-default"} <= set(codes(report))
    assert got.stderr.splitlines()[1].startswith("ngram-draft-tokens-default: ")
    assert len(report["histogram"]) == 12
    assert report["num_accepted_drafts"] > 0


@pytest.mark.parametrize(
    "options",
    [
        ("--topk", 3, "--draft-tokens", 5),
        ("--page-size", 16),
        ("--mode", "v2"),
        ("--prefix-cache", "--chunk", 5),
        ("--pool", "swa"),
        ("--recurrent", "--pool", "hybrid"),
    ],
    ids=str,
)
def test_text_is_decoded_without_loss(simulate, options):
    got = simulate(*options, "--json")
    assert got.exit_code == 0, got.output
    assert json.loads(got.stdout)["lossless"]


def test_sampled_requests_run_without_a_second_run(simulate):
    got = simulate("--model", "hash", "--temperature", 1.0, "--json")
    assert got.exit_code == 0, got.output
    assert (json.loads(got.stdout)["lossless"], json.loads(got.stdout)["reproducible"]) == (None, None)


def test_a_full_store_says_how_much_it_forgot(simulate):
    report = json.loads(simulate("--capacity", 40, "--json").stdout)
    assert report["lossless"]
    assert report["store"]["capacity"] == 40 >= report["store"]["num_nodes"]
    assert report["store"]["num_forgotten"] > 0
    assert json.loads(simulate("--json").stdout)["store"]["num_forgotten"] == 0


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_texts_from_outside_are_drafted_from(simulate, tmp_path, mode):
    corpora = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path in corpora:
        path.write_text(TEXT)
    asked = [option for path in corpora for option in ("--corpus", path)]
    got = simulate("--mode", mode, *asked, "--corpus-budget", 6, "--json")
    assert got.exit_code == 0, got.output
    report, plain = json.loads(got.stdout), json.loads(simulate("--mode", mode, "--json").stdout)
    assert (report["lossless"], report["plan"]["worker"]) == (True, mode)
    assert report["tokens_per_verify"] > plain["tokens_per_verify"]


def test_the_device_decodes_what_the_reference_does(simulate):
    got = simulate("--worker", "gpu", "--lockstep", "--draft-tokens", 4, "--max-new-tokens", 6, "--json")
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert (report["worker"], report["lossless"], report["divergence"]) == ("gpu-ngram", True, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", 3), "--steps is for EAGLE"),
        (("--overlap",), "--overlap is for V2"),
        (("--draft-tokens", 1), "BAD_CONFIGURATION: num_draft_tokens is 1, but should be at least 2"),
        (("--corpus", "nowhere.txt", "--corpus-budget", 4), "--corpus nowhere.txt: No such file or directory"),
        (("--corpus", "nowhere.txt"), "BAD_CONFIGURATION: ngram_sam_budget is 0, but should be 1 to 11"),
        (("--corpus-budget", 4), "--corpus-budget needs a --corpus"),
        (("--capacity", 18), "BAD_CONFIGURATION: capacity is 18, but should be at least 19"),
        (("--draft-tokens", 4000), "--draft-tokens is 4000, but should be at most 1024"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_refused(simulate, options, message):
    got = simulate(*options)
    assert (got.exit_code, got.stdout) == (2, "")
    assert f"specsim: {message}" in got.stderr


def test_options_of_a_store_are_refused_where_there_is_none(specsim):
    got = specsim("simulate", "--capacity", 100)
    assert (got.exit_code, got.stdout) == (2, "")
    assert "--corpus, --corpus-budget and --capacity are for NGRAM" in got.stderr
