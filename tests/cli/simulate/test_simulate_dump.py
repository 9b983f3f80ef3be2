"""``specsim simulate`` on a dump of logits, and against a stored run."""

import json

import pytest

from specsim.tuning.dumps import write_dump
from tests.specsim.tuning.test_dumps import GUESS, NEXT, greedy_prompt

HASH = ("simulate", "--model", "hash", "--topk", 1, "--requests", 12, "--max-new-tokens", 16)


@pytest.fixture
def dump(tmp_path):
    """Return a dump of twenty prompts."""
    write_dump(tmp_path / "rows.safetensors", [{**greedy_prompt(one % 12, 60), "prompt": [one]} for one in range(20)])
    return "rows.safetensors"


def test_acceptance_by_position_has_intervals(specsim, dump):
    got = specsim("simulate", "--dump", dump, "--steps", 2)
    assert got.exit_code == 0, got.output
    head, columns, *lines = got.stdout.splitlines()
    assert head.startswith("dump, topk 1, steps 2, 3 draft tokens: 20 prompts, ")
    assert columns.split() == ["figure", "value", "from", "to"]
    assert [line.partition("  ")[0] for line in lines] == [
        "tokens per verify",
        "accepted per verify",
        "accepted at position 0",
        "accepted at position 1",
        "of those that came so far, 0",
        "of those that came so far, 1",
    ]
    for line in lines:
        value, low, high = map(float, line.split()[-3:])
        assert low <= value <= high


def test_the_document_of_a_dump_is_a_baseline(specsim, dump, tmp_path):
    document = specsim("simulate", "--dump", dump, "--json").stdout
    (tmp_path / "before.json").write_text(document)
    assert json.loads(document)["source"] == {"dump": dump, "drafts": "greedy"}
    again = specsim("simulate", "--dump", dump, "--baseline", "before.json")
    assert again.exit_code == 0
    assert again.stdout.splitlines()[-1].startswith("same: dump, topk 1, steps 3, 4 draft tokens: +0.0% ")


def test_a_draft_that_lost_an_answer_is_lower(specsim, dump, tmp_path, monkeypatch):
    (tmp_path / "before.json").write_text(specsim("simulate", "--dump", dump, "--json").stdout)
    prompts = [{**greedy_prompt(one % 12, 60), "prompt": [one]} for one in range(20)]
    right = next(token for token in range(12) if GUESS[token] == NEXT[token])
    for prompt in prompts:
        prompt["draft"][prompt["tokens"] == NEXT[right]] = 0
    write_dump(tmp_path / dump, prompts)
    got = specsim("simulate", "--dump", dump, "--baseline", "before.json", "--json")
    (guard,) = json.loads(got.stdout)["guard"]
    assert (got.exit_code, guard["verdict"], guard["is_paired"]) == (1, "lower", True)
    assert guard["change"]["high"] < 0 and guard["prompts_to_tell"] > 1


def test_a_run_of_a_toy_is_compared_too(specsim, tmp_path):
    (tmp_path / "before.json").write_text(specsim(*HASH, "--steps", 2, "--json").stdout)
    same = specsim(*HASH, "--steps", 2, "--baseline", "before.json")
    assert (same.exit_code, same.stdout.splitlines()[-1].partition(":")[0]) == (0, "same")
    lower = specsim(*HASH, "--steps", 2, "--agreement", 0.5, "--baseline", "before.json", "--json")
    report = json.loads(lower.stdout)
    assert (lower.exit_code, report["lossless"], report["guard"][0]["verdict"]) == (1, True, "lower")
    assert specsim(*HASH, "--steps", 3, "--baseline", "before.json").exit_code == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dump", "none"), "--dump none: No such file or directory"),
        (("--dump", "rows.safetensors", "--algorithm", "NGRAM"), "--algorithm is given, but should be absent, because"),
        (
            ("--dump", "rows.safetensors", "--topk", 2, "--steps", 2, "--draft-tokens", 4),
            "BAD_CONFIGURATION: topk is 2,",
        ),
        (("--dump", "rows.safetensors", "--topk", 2, "--draft-tokens", 9), "BAD_CONFIGURATION: num_draft_tokens is 9,"),
        (("--drafts", "sampled"), "--drafts sampled is for --dump: toy models propose their first choices"),
        (("--baseline", "none"), "--baseline none: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(specsim, dump, options, message):
    got = specsim("simulate", *options)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert got.stderr.startswith(f"specsim: {message}")
