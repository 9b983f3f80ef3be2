"""``specsim simulate --drafter`` runs a drafter of a module on either layer, and says what there is where it cannot."""

import json

import pytest

SMALL = ("--requests", 2, "--prompt-length", 8, "--max-new-tokens", 6)
SUFFIX = "tests.suffix_drafter:suffix"


@pytest.mark.parametrize(
    ("options", "worker"),
    [
        (("--mode", "v1"), "reference-suffix-v1"),
        (("--lockstep", "--overlap"), "reference-suffix"),
        (("--topk", 2, "--steps", 2, "--draft-tokens", 5, "--page-size", 4), "reference-suffix-v1"),
        (("--worker", "gpu", "--lockstep"), "gpu-suffix"),
        (("--worker", "gpu", "--mode", "v1"), "gpu-suffix-v1"),
    ],
)
def test_a_drafter_of_a_module_runs(specsim, options, worker):
    got = specsim("simulate", "--drafter", SUFFIX, *SMALL, *options, "--json")
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert (report["worker"], report["lossless"], report.get("divergence")) == (worker, True, None)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--drafter", "suffix"), 2, "should be MODULE:NAME"),
        (("--drafter", "tests.suffix_drafter:sufix"), 2, "DRAFTERS of tests.suffix_drafter has suffix"),
        (("--drafter", "specsim.reference:suffix"), 2, "it has no DRAFTERS"),
        (("--drafter", "min:one"), 4, "No module named 'min'; there is mine"),
        (("--drafter", SUFFIX, "--algorithm", "NGRAM"), 2, "--algorithm is given, but should be absent"),
        (("--drafter", SUFFIX, "--multi-layer", 2), 2, "--multi-layer is given, but should be absent"),
        (("--drafter", "mine:one", "--worker", "gpu"), 2, "no side for the layer gpu; it has one for reference"),
        (("--drafter", "bad:Bad"), 4, "bad.DRAFTERS['Bad'] has the name 'Bad'"),
    ],
)
def test_what_there_is_not_is_named(specsim, tmp_path, options, code, words):
    (tmp_path / "mine.py").write_text("DRAFTERS = {'one': lambda setting: None}\n")
    (tmp_path / "bad.py").write_text("DRAFTERS = {'Bad': lambda setting: None}\n")
    got = specsim("simulate", *SMALL, *options)
    assert words in " ".join(got.stderr.split())
    assert got.exit_code == code
