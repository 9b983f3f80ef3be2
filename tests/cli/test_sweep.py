"""``specsim sweep``: tables, CSV and JSON of ranges, baselines, and what is refused before anything runs."""

import csv
import json
import re

import pytest

from specsim.cli.choosing import source
from specsim.tuning.counted import chain_tokens_per_verify
from specsim.tuning.dumps import write_dump
from tests.specsim.tuning.test_dumps import greedy_prompt

FEW = ("--model", "hash", "--requests", 4, "--max-new-tokens", 12)
CHAINS = ("--topk", 1, "--steps", "1,3")


@pytest.fixture
def dump(tmp_path):
    """Return a dump of twenty prompts."""
    path = tmp_path / "rows.safetensors"
    write_dump(path, [{**greedy_prompt(first % 12, 60), "prompt": [first]} for first in range(20)])
    return path


def rows_of(got):
    assert got.exit_code == 0, got.output
    return json.loads(got.stdout)["cells"]


def test_chains_of_independent_drafts_have_the_closed_form(specsim):
    """The intervals of 95 % of this seed hold the tokens that Leviathan's formula expects."""
    chains = ("--topk", 1, "--steps", "1,4", "--seed", 5)
    for agreement in (0.7, 0.4):
        options = ("--model", "hash", "--agreement", agreement, "--requests", 32, "--max-new-tokens", 32)
        for row in rows_of(specsim("sweep", *options, *chains, "--json")):
            interval = row["figures"]["tokens_per_verify"]
            assert interval["low"] <= chain_tokens_per_verify(agreement, row["steps"]) <= interval["high"], row["steps"]
            assert interval["high"] - interval["low"] < 0.4


def test_a_seed_gives_the_same_sweep_again_and_the_files_say_what_the_screen_says(specsim, tmp_path):
    options = ("sweep", *FEW, "--topk", "1,2", "--steps", "2", "--draft-tokens", "4,9")
    first = specsim(*options, "--csv", "rows.csv", "--save", "run.json")
    assert first.stdout == specsim(*options).stdout
    assert first.stdout.startswith("seed 0, 3 combinations\ndrafter  topk  steps  nodes  accepted a verify")
    refused = r"^EAGLE +2 +2 +9 +num_draft_tokens should be 3 to 7, because the tree holds a full path"
    assert re.search(refused, first.stdout, re.MULTILINE)
    lines = list(csv.DictReader((tmp_path / "rows.csv").open()))
    cells = json.loads((tmp_path / "run.json").read_text())["cells"]
    assert [int(line["draft_tokens"]) for line in lines] == [cell["draft_tokens"] for cell in cells] == [3, 4, 9]
    assert [line["reason"] for line in lines] == [cell["reason"] for cell in cells]
    assert cells[2]["reason"].startswith("num_draft_tokens is 9, but should be 3 to 7, because ")
    assert float(lines[0]["tokens_per_verify"]) == cells[0]["figures"]["tokens_per_verify"]["value"]


def test_algorithms_are_swept_side_by_side_each_with_its_own_sizes(specsim):
    names = ("EAGLE", "NGRAM", "DFLASH", "FROZEN_KV_MTP")
    options = [word for name in names for word in ("--algorithm", name)]
    sizes = ("--topk", 1, "--steps", 3, "--draft-tokens", 6, "--requests", 1, "--max-new-tokens", 8)
    rows = rows_of(specsim("sweep", *sizes, *options, "--json"))
    asked = [(row["drafter"], row["steps"], row["draft_tokens"], row["draft_forwards"]) for row in rows]
    assert asked == [("EAGLE", 3, 4, 3), ("NGRAM", 0, 6, 0), ("DFLASH", 0, 6, 1), ("FROZEN_KV_MTP", 3, 4, 3)]
    assert all(row["figures"]["num_verifies"] > 0 and not row["reason"] for row in rows)


def test_a_baseline_tells_lower_from_the_same(specsim):
    few = ("--model", "hash", "--requests", 16, "--max-new-tokens", 24, *CHAINS)
    assert specsim("sweep", *few, "--save", "before.json").exit_code == 0
    same = specsim("sweep", *few, "--baseline", "before.json")
    assert (same.exit_code, len(re.findall(r" same +\+0\.0% ", same.stdout))) == (0, 2)
    lower = specsim("sweep", *few, "--agreement", 0.4, "--baseline", "before.json", "--json")
    assert (lower.exit_code, [one["verdict"] for one in json.loads(lower.stdout)["guard"]]) == (1, ["lower", "lower"])
    unknown = specsim("sweep", *few, "--requests", 1, "--baseline", "before.json")
    assert (unknown.exit_code, unknown.stdout.count("cannot be told")) == (3, 2)
    other = specsim("sweep", *few, "--steps", 2, "--baseline", "before.json")
    assert (other.exit_code, other.stderr) == (5, "specsim: --baseline before.json has none of these combinations\n")


SCREEN = """\
seed 0, 8 combinations
drafter  topk  steps  nodes  accepted a verify    tokens a verify  draft forwards  frontier
dump        1      2      3  1.06 [0.91, 1.22]  2.06 [1.91, 2.22]               2  yes
dump        2      1      3  1.00 [1.00, 1.00]  2.00 [2.00, 2.00]               1  yes
dump        1      1      2  0.72 [0.70, 0.74]  1.72 [1.70, 1.74]               1  yes

drafter  topk  steps  nodes  why it cannot run
dump        2      1   4..5  num_draft_tokens should be 2 to 3, because the tree holds a full path
                             and no more nodes than are proposed
dump        2      2   3..5  topk is 2, but should be 1, or 1 step, because a dump has rows along
                             the output alone, and a tree of 2 levels needs those of its branches
"""


def test_the_screen_of_a_dump(specsim, dump, monkeypatch):
    monkeypatch.setenv("COLUMNS", "98")
    got = specsim("sweep", "--dump", dump, "--topk", "1,2", "--steps", "1,2", "--draft-tokens", "3..5")
    assert (got.exit_code, got.stdout) == (0, SCREEN)


def test_a_dump_is_swept(specsim, dump):
    rows = rows_of(specsim("sweep", "--dump", dump, "--topk", "1,2", "--steps", "1,2", "--draft-tokens", 3, "--json"))
    assert [(row["drafter"], row["topk"], row["steps"], bool(row["reason"])) for row in rows] == [
        ("dump", 1, 1, False),
        ("dump", 1, 2, False),
        ("dump", 2, 1, False),
        ("dump", 2, 2, True),
    ]
    assert rows[2]["figures"]["tokens_per_verify"] == {"value": 2.0, "low": 2.0, "high": 2.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--steps", "4..1"),
            "BAD_CONFIGURATION: --steps is 4..1, but should be a range with a number in it, because 4",
        ),
        (("--topk", "1..300"), "COUNT_OUT_OF_RANGE: --topk is 300, but should be 1 to 256, because a draft cannot"),
        (
            ("--topk", "2..256", "--steps", "1..1023", "--draft-tokens", "1..1024"),
            "COUNT_OUT_OF_RANGE: number of combinations is 267,125,760, but should be at most 1,000,000, because each",
        ),
        (("--dump", "none.safetensors"), "--dump none.safetensors: No such file or directory"),
        (("--dump", "text"), "BAD_CONFIGURATION: text is no safetensors file: "),
        (("--dump", "text", "--algorithm", "NGRAM"), "--algorithm is given, but should be absent, because --dump"),
        (("--agreement", "nan"), "--agreement is NaN, but should be 0 to 1\n"),
        (("--drafts", "sampled"), "--drafts sampled is for --dump: toy models propose their first choices"),
        (("--temperature", 0.5), "--temperature needs --model hash: the text model has no logits for sampling"),
        (("--baseline", "none.json"), "--baseline none.json: No such file or directory"),
        (("--baseline", "text"), "--baseline text: no document of specsim sweep or simulate: "),
        (("--csv", "no/rows.csv"), "--csv no/rows.csv: No such file or directory"),
        (("--text", "none"), "--text none: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_before_anything_runs(specsim, tmp_path, options, message):
    (tmp_path / "text").write_text("no document")
    got = specsim("sweep", *options)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert got.stderr.startswith(f"specsim: {message}")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"schema": "specsim.acceptance/9"}, "its schema is specsim.acceptance/9, and not specsim.acceptance/1"),
        ({"cells": [{"drafter": "EAGLE"}]}, "Object missing required field `topk` - at `$[0]`"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_with_the_place(specsim, tmp_path, document, message):
    (tmp_path / "before.json").write_text(json.dumps(document))
    got = specsim("sweep", "--baseline", "before.json")
    expected = f"specsim: --baseline before.json: no document of specsim sweep or simulate: {message}\n"
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", expected)


def test_nothing_that_can_run_is_said(specsim):
    got = specsim("sweep", *FEW, "--topk", 2, "--steps", 1, "--draft-tokens", 9)
    assert (got.exit_code, got.stderr) == (5, "specsim: no combination can run\n")


def test_an_interrupt_leaves_what_has_run(specsim, monkeypatch):
    def count(toy, cell):
        if cell.steps == 2:
            raise KeyboardInterrupt
        return counted(toy, cell)

    counted = source._Toy.count
    monkeypatch.setattr(source._Toy, "count", count)
    got = specsim("sweep", *FEW, "--topk", 1, "--steps", "1..3", "--json")
    assert (got.exit_code, [cell["steps"] for cell in json.loads(got.stdout)["cells"]]) == (130, [1])
    assert got.stderr == "specsim: interrupted: 1 of 3 combinations have run\n"


def test_jobs_change_nothing_but_the_time(specsim):
    options = ("sweep", *FEW, "--topk", "1,2", "--steps", "1,2", "--draft-tokens", 3, "--json")
    assert specsim(*options, "--jobs", 2).stdout == specsim(*options).stdout
