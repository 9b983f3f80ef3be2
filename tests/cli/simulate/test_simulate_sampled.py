import json

import pytest

from specsim.cli.simulating.options import parameters_of
from specsim.host.sampling import ALL_TOKENS, SamplingParameters

SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 6, "--max-new-tokens", 8, "--steps", 2)
HASH = ("--model", "hash", "--temperature", 1.5)


def simulate(specsim, *options):
    got = specsim("simulate", *SMALL, *options, "--json")
    assert got.exit_code == 0, got.output
    return json.loads(got.stdout)


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_sampled_requests_are_reproducible_and_no_one_calls_them_lossless(specsim, mode):
    report = simulate(specsim, *HASH, "--topk", 2, "--draft-tokens", 5, "--mode", mode)
    assert (report["lossless"], report["reproducible"], report["mismatches"]) == (None, True, [])


def test_greedy_requests_are_lossless_and_nothing_is_run_twice(specsim):
    report = simulate(specsim, "--model", "hash", "--topk", 1)
    assert (report["lossless"], report["reproducible"]) == (True, None)


def test_the_seed_decides_the_run(specsim):
    longer = ("--topk", 1, "--agreement", 1.0, "--max-new-tokens", 30)
    runs = [simulate(specsim, *HASH, *longer, "--sampling-seed", seed) for seed in (4, 4, 50)]
    assert runs[0] == runs[1]
    assert runs[0]["histogram"] != runs[2]["histogram"]


def test_filters_reach_the_sampler(specsim):
    greedy = simulate(specsim, "--model", "hash", "--topk", 1, "--agreement", 1.0)
    narrow = simulate(specsim, *HASH, "--topk", 1, "--agreement", 1.0, "--top-k", 1)
    assert narrow["histogram"] == greedy["histogram"]


def test_lockstep_holds_of_sampled_requests(specsim):
    brief = ("--requests", 2, "--prompt-length", 3, "--max-new-tokens", 4)
    options = ("--topk", 1, "--lockstep", "--worker", "gpu", "--no-graphs")
    assert simulate(specsim, *HASH, *brief, *options)["divergence"] is None


@pytest.mark.parametrize("mode", ["v1", "v2"])
@pytest.mark.parametrize("acceptance", ["block", "target-draw"])
def test_requests_are_reproducible_by_every_rule(specsim, acceptance, mode):
    report = simulate(specsim, *HASH, "--topk", 1, "--agreement", 0.9, "--mode", mode, "--acceptance", acceptance)
    assert (report["reproducible"], report["mismatches"]) == (True, [])
    assert report["num_accepted_drafts"] > 0


@pytest.mark.parametrize("algorithm", ["EAGLE3", "DFLASH", "FROZEN_KV_MTP", "NGRAM", "STANDALONE"])
def test_what_the_target_draws_is_compared_with_decoding_without_drafts(specsim, algorithm):
    options = ("--requests", 3, "--batch", 2, "--prompt-length", 6, "--max-new-tokens", 12, "--algorithm", algorithm)
    got = specsim("simulate", *options, *HASH, "--agreement", 0.9, "--acceptance", "target-draw", "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["reproducible"], report["mismatches"]) == (0, True, [])


def test_rules_judge_other_drafts_as_accepted(specsim):
    alike = (*HASH, "--topk", 1, "--agreement", 1.0, "--max-new-tokens", 30)
    runs = [simulate(specsim, *alike, "--acceptance", rule)["histogram"] for rule in ("token", "block", "target-draw")]
    assert runs[0] != runs[1] != runs[2] != runs[0]


@pytest.mark.parametrize("acceptance", ["block", "target-draw"])
def test_lockstep_holds_by_every_rule(specsim, acceptance):
    brief = ("--requests", 2, "--prompt-length", 3, "--max-new-tokens", 4, "--acceptance", acceptance)
    options = ("--topk", 1, "--lockstep", "--worker", "gpu", "--no-graphs")
    assert simulate(specsim, *HASH, *brief, *options)["divergence"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--acceptance", "block"), "--acceptance block needs a --temperature above 0"),
        (
            (*HASH, "--topk", 2, "--draft-tokens", 5, "--acceptance", "block"),
            "drafts are trees, and a block is a chain",
        ),
        (("--temperature", 1), "--temperature needs --model hash: the text model has no logits for sampling"),
        (("--top-k", 5), "--top-k, --top-p, --min-p and --sampling-seed need a --temperature above 0"),
        ((*HASH, "--top-p", 0), "--top-p is 0.0, but should be above 0, at most 1"),
        ((*HASH, "--min-p", 2), "--min-p is 2.0, but should be 0 to 1"),
        (("--model", "hash", "--temperature", "nan"), "--temperature is nan, but should be 0, or 2**-20 to 2**20"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(specsim, options, message):
    got = specsim("simulate", *SMALL, *options)
    assert got.exit_code == 2
    assert message in got.stderr


def test_options_become_parameters():
    assert parameters_of(0.0, ALL_TOKENS, 1.0, 0.0, 0) is None
    assert parameters_of(0.5, 7, 0.9, 0.1, 3) == SamplingParameters(0.5, 7, 0.9, 0.1, seed=3)
