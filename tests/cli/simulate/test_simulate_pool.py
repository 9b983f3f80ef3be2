"""What KV is stored in changes no figure of a simulation."""

import json

import pytest

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
TREE = ("--topk", 2, "--steps", 2, "--draft-tokens", 5, "--mode", "v2")
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 6, "--max-new-tokens", 7)


@pytest.fixture
def simulate(specsim, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return lambda *options: specsim("simulate", "--text", path, *SMALL, *options)


def test_every_kind_gives_the_figures_of_keys_and_values(simulate):
    expected = json.loads(simulate(*TREE, "--json").stdout)
    assert (expected["pool"], expected["draft_pool"], expected["lossless"]) == ("mha", "mha", True)
    for pool, draft_pool in (("mla", "dsa"), ("dsa", "mla"), ("quantised", "quantised"), ("hybrid", "other")):
        got = json.loads(simulate(*TREE, "--pool", pool, "--draft-pool", draft_pool, "--json").stdout)
        assert (got["pool"], got["draft_pool"]) == (pool, draft_pool)
        for figure in ("lossless", "output_tokens", "num_accepted_drafts", "histogram"):
            assert got[figure] == expected[figure]


def test_a_recurrent_tree_falls_back_with_a_reason(simulate):
    got = simulate("--topk", 2, "--steps", 2, "--draft-tokens", 5, "--pool", "no-kv", "--json")
    assert got.stderr.startswith("topk-needs-no-recurrent-state: ")
    assert json.loads(got.stdout)["plan"]["worker"] == "v1"


def test_a_pool_that_cannot_move_is_a_usage_error(simulate):
    got = simulate(*TREE, "--pool", "other")
    assert (got.exit_code, got.stdout) == (2, "")
    assert "NO_MOVE: layout of the target component 'entries' is UNKNOWN" in got.stderr


@pytest.mark.parametrize(
    "options", [("--mode", "v1"), ("--mode", "v2", "--overlap", "--page-size", 4)], ids=["v1", "v2"]
)
def test_a_window_changes_nothing_that_is_reported(simulate, options):
    """What tokens are compared with runs alone, on SWA slots that those before it have left in any order."""
    for asked in (("--hidden-states",), ("--logprobs", 2, "--model", "hash")):
        got = simulate("--pool", "swa", *asked, *options, "--max-new-tokens", 12, "--json")
        assert got.exit_code == 0, got.output
        figures = json.loads(got.stdout)
        assert (figures["lossless"], figures["pool"], figures["output_tokens"]) == (True, "swa", 36)


def test_recurrent_states_and_cached_prefixes_exclude_each_other(simulate):
    got = simulate(*TREE, "--pool", "hybrid", "--prefix-cache")
    assert (got.exit_code, got.stdout) == (2, "")
    assert "because recurrent states are not kept by position" in got.stderr


@pytest.mark.parametrize("options", [("--pool", "swamp"), ("--draft-pool", "hybrid")])
def test_other_kinds_are_usage_errors(simulate, options):
    assert simulate(*options).exit_code == 2
