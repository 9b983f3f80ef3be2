"""How a simulation is scheduled, and what it refuses to hold."""

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


@pytest.mark.parametrize(
    "options",
    [
        ("--overlap",),
        ("--chunk", 3),
        ("--prefix-cache",),
        ("--mode", "v1", "--chunk", 3, "--prefix-cache"),
        ("--mode", "v2", "--page-size", 4),
        (*CHAIN, "--mode", "v1", "--page-size", 4),
        ("--mode", "v1", "--page-size", 4, "--chunk", 5, "--prefix-cache"),
        (*CHAIN, "--overlap", "--chunk", 5, "--prefix-cache", "--page-size", 4),
    ],
)
def test_schedules_output_what_is_output_without(simulate, options):
    plain = json.loads(simulate(*(CHAIN if CHAIN[0] in options else ()), "--json").stdout)
    got = simulate(*options, "--json")
    report = json.loads(got.stdout)
    assert got.exit_code == 0, got.output
    assert report["lossless"] is True
    for figure in ("output_tokens", "spec_verify_ct", "num_accepted_drafts", "histogram", "meta_info"):
        assert report[figure] == plain[figure]


def test_lockstep_of_overlapped_runs_finds_them_equal(simulate):
    got = simulate(*CHAIN, "--overlap", "--chunk", 4, "--page-size", 4, "--lockstep", "--json")
    assert (got.exit_code, json.loads(got.stdout)["divergence"]) == (0, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--requests", 10**20), f"--requests is {10**20}, but should be at most 100000, because every request"),
        (("--topk", 1000000), "--topk is 1000000, but should be at most 256, because a draft cannot propose more"),
        (("--steps", 10**9), "--steps is 1000000000, but should be at most 1023, because a path fits into a tree"),
        (("--draft-tokens", 10**9), "--draft-tokens is 1000000000, but should be at most 1024, because"),
        (("--batch", 10**9), "--batch is 1000000000, but should be at most 4096, because"),
        (("--prompt-length", 1461), "--prompt-length is 1461, but should be at most 1460, because prompts are cut"),
        (("--max-new-tokens", 10**12), "--max-new-tokens is 1000000000000, but should be at most 1048576, because"),
        (("--page-size", 10**9), "--page-size is 1000000000, but should be at most 4096, because"),
        (("--batch", 4096, "--max-new-tokens", 10**6), "--batch 4096 takes 4096"),
        (("--page-size", 4, *CHAIN, "--chunk", 3), "--chunk is 3, but should be at least 4, because it ends on a page"),
        (("--mode", "v1", "--overlap"), "--overlap is for V2"),
    ],
)
def test_what_cannot_be_held_is_refused_with_a_reason(simulate, options, message):
    got = simulate(*options)
    assert (got.exit_code, got.stdout) == (2, "")
    assert f"specsim: {message}" in got.stderr
