import json

import pytest

from specsim.cli.simulate import simulate as command

SMALL = ("--requests", 2, "--prompt-length", 6, "--max-new-tokens", 10, "--topk", 2, "--steps", 2, "--draft-tokens", 5)
HASH = ("--model", "hash", "--frequency-penalty", 3, "--presence-penalty", 1, "--logit-bias", "65:30")


def simulate(specsim, *options):
    got = specsim("simulate", *SMALL, *options, "--json")
    return got.exit_code, json.loads(got.stdout)


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_penalties_and_biases_are_lossless_and_change_outputs(specsim, mode):
    code, report = simulate(specsim, *HASH, "--mode", mode)
    _, without = simulate(specsim, "--model", "hash", "--mode", mode)
    assert (code, report["lossless"]) == (0, True)
    assert report["histogram"] != without["histogram"]


def test_a_text_without_a_word_is_that_of_plain_decoding_without_it(specsim):
    code, report = simulate(specsim, "--bad-word", "e", "--bad-word", " s", "--min-tokens", 4, "--eos", 32)
    assert (code, report["lossless"]) == (0, True)
    assert min(reported["completion_tokens"] for reported in report["meta_info"]) > 4


def test_sampled_outputs_with_rules_are_reproducible(specsim):
    code, report = simulate(specsim, *HASH, "--temperature", 1.5)
    assert (code, report["reproducible"]) == (0, True)


def test_relaxed_penalties_are_not_plain_decoding(specsim):
    strong = ("--model", "hash", "--agreement", 1.0, "--frequency-penalty", 20, "--logit-bias", "65:18")
    assert simulate(specsim, *strong)[0] == 0
    code, report = simulate(specsim, *strong, "--relaxed-penalties")
    assert (code, report["lossless"]) == (1, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--frequency-penalty", 1), "penalties and biases need --model hash"),
        (("--model", "hash", "--presence-penalty", "nan"), "presence_penalty = nan, but should be -2**20 to 2**20"),
        (("--model", "hash", "--repetition-penalty", 0), "repetition_penalty = 0.0, but should be 2**-20 to 2**20"),
        (("--logit-bias", "e:1"), "should be a byte, a colon and a number"),
        (("--logit-bias", "256:1"), "256, but should be 0 to 255"),
        (("--model", "hash", "--logit-bias", "1:1", "--logit-bias", "1:2"), "each token once"),
        (("--bad-word", ""), "len(bad_words[0]) = 0, but should be 1 to 8"),
        (("--model", "hash", "--min-tokens", 11), "min_tokens is 11, but should be at most 10"),
    ],
)
def test_bad_rules_are_refused(specsim, options, message):
    got = specsim("simulate", *SMALL, *options)
    assert got.exit_code == 2
    assert message in got.stderr


def test_rules_are_options_of_the_command():
    names = {option for parameter in command.params for option in parameter.opts}
    assert {"--bad-word", "--frequency-penalty", "--logit-bias", "--min-tokens", "--presence-penalty"} <= names
