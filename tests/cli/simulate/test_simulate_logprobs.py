import json
import math

import pytest

SMALL = ("simulate", "--model", "hash", "--requests", 2, "--batch", 2, "--max-new-tokens", 5, "--json")


@pytest.mark.parametrize("options", [("--mode", "v1"), ("--mode", "v2", "--overlap"), ("--temperature", 0.8)])
def test_every_token_is_reported(specsim, options):
    got = specsim(*SMALL, "--logprobs", 3, *options)
    assert got.exit_code == 0, got.output
    for reported in json.loads(got.stdout)["meta_info"]:
        assert (
            len(reported["output_token_logprobs"])
            == len(reported["output_top_logprobs"])
            == reported["completion_tokens"]
            == 5
        )
        for (score, token), best in zip(
            reported["output_token_logprobs"], reported["output_top_logprobs"], strict=True
        ):
            scores = [one for one, _ in best]
            assert len(best) == 3 and scores == sorted(scores, reverse=True) and score <= scores[0] < 0
            assert score == {other: one for one, other in best}.get(token, score)
            assert math.isfinite(score)


def test_nothing_is_reported_unasked(specsim):
    (reported, _) = json.loads(specsim(*SMALL).stdout)["meta_info"]
    assert not {"output_token_logprobs", "output_top_logprobs"} & reported.keys()


def test_the_text_model_has_nothing_to_tell(specsim):
    got = specsim("simulate", "--logprobs", 1)
    assert got.exit_code == 2
    assert "--logprobs needs --model hash" in got.output


def test_hidden_states_of_real_text_are_reported_and_compared(specsim):
    got = specsim("simulate", "--requests", 2, "--batch", 2, "--max-new-tokens", 4, "--hidden-states", "--json")
    assert got.exit_code == 0, got.output
    figures = json.loads(got.stdout)
    assert figures["lossless"]
    assert [[len(state) for state in one["hidden_states"]] for one in figures["meta_info"]] == [[3] * 4] * 2
