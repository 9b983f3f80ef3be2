"""The rules choose the worker of a simulation, and say why it is V1."""

import json

import pytest
import torch

TEXT = "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 12)


@pytest.fixture
def simulate(specsim, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return lambda *options: specsim("simulate", "--text", path, *SMALL, *options)


def codes(report):
    return [reason["code"] for reason in report["plan"]["reasons"]]


def test_v2_runs_a_tree_without_a_word(simulate):
    got = simulate("--topk", 4, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, got.stderr) == (0, "")
    assert (report["worker"], report["plan"]["worker"]) == ("reference", "v2")
    assert "v2-chosen" in codes(report)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--disable-overlap",), "overlap-disabled"),
        (("--recurrent",), "topk-needs-no-recurrent-state"),
        (("--mode", "v1"), "forced-v1"),
    ],
)
def test_a_fallback_says_why_and_runs_v1(simulate, options, code):
    got = simulate("--topk", 4, *options, "--json")
    report = json.loads(got.stdout)
    assert got.exit_code == 0, got.output
    assert got.stderr.startswith(f"{code}: ")
    assert (report["worker"], report["plan"]["worker"], report["lossless"]) == ("reference-v1", "v1", True)
    assert code in codes(report)


def test_a_recurrent_chain_stays_on_v2(simulate):
    got = simulate("--topk", 1, "--steps", 3, "--draft-tokens", 4, "--recurrent", "--json")
    assert (got.stderr, json.loads(got.stdout)["plan"]["worker"]) == ("", "v2")


def test_v1_decodes_what_v2_decodes(simulate):
    reports = [json.loads(simulate("--topk", 2, "--mode", mode, "--json").stdout) for mode in ("v1", "v2")]
    for figure in ("output_tokens", "spec_verify_ct", "num_accepted_drafts", "histogram", "meta_info"):
        assert reports[0][figure] == reports[1][figure]


def test_v1_runs_on_the_gpu_layer_in_lockstep(simulate):
    tree = ("--topk", 2, "--steps", 2, "--draft-tokens", 4, "--max-new-tokens", 5)
    got = simulate(*tree, "--mode", "v1", "--worker", "gpu", "--lockstep", "--json")
    report = json.loads(got.stdout)
    assert got.exit_code == 0, got.output
    assert (report["worker"], report["lossless"], report["divergence"]) == ("gpu-v1", True, None)


def test_settings_that_contradict_each_other_are_refused(simulate):
    got = simulate("--topk", 4, "--steps", 5, "--draft-tokens", 3)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.startswith("specsim: BAD_CONFIGURATION: num_draft_tokens")


def test_a_forced_worker_is_taken_at_its_word(simulate):
    got = simulate("--topk", 4, "--mode", "v2", "--recurrent", "--json")
    assert (got.exit_code, json.loads(got.stdout)["plan"]["worker"]) == (0, "v2")


def test_trees_on_pages_run_on_v1(simulate):
    got = simulate("--topk", 4, "--page-size", 64, "--json")
    report = json.loads(got.stdout)
    assert (got.exit_code, report["plan"]["worker"], report["lossless"]) == (0, "v1", True)
    assert got.stderr.startswith("topk-needs-page-size-1: ")


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_graphs_need_a_gpu(simulate, mode, monkeypatch):
    from specsim.gpu.worker import graphs

    monkeypatch.setattr(graphs, "DEVICE", torch.device("cpu"))
    got = simulate("--topk", 2, "--mode", mode, "--worker", "gpu", "--graphs")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.endswith(
        "specsim: WRONG_DEVICE: use_graphs is True, but should be False, because there is no GPU to capture on\n"
    )
