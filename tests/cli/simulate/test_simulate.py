import json

import pytest

KEYS = {
    "lossless",
    "requests",
    "output_tokens",
    "spec_verify_ct",
    "num_accepted_drafts",
    "accept_rate",
    "tokens_per_verify",
    "worker",
    "device",
}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. " * 20)
    return path


def simulate(specsim, text, *options):
    small = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 12)
    return specsim("simulate", "--text", text, *small, *options, "--json")


@pytest.mark.parametrize("model", ["text", "hash"])
@pytest.mark.parametrize("topk", [1, 4, 16])
def test_speculation_is_lossless_and_accepts(specsim, text, model, topk):
    got = simulate(specsim, text, "--model", model, "--topk", topk)
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert report.keys() >= KEYS
    assert (report["lossless"], report["requests"], report["output_tokens"]) == (True, 3, 36)
    assert report["accept_rate"] > 0.1
    tokens = report["num_accepted_drafts"] + report["spec_verify_ct"]
    assert report["tokens_per_verify"] == pytest.approx(tokens / report["spec_verify_ct"])


def test_the_gpu_worker_runs_too(specsim, text):
    got = simulate(specsim, text, "--worker", "gpu", "--topk", 2, "--steps", 2, "--draft-tokens", 4)
    assert got.exit_code == 0, got.output
    assert json.loads(got.stdout)["worker"] == "gpu"


def test_a_chain_has_one_node_a_level(specsim, text):
    got = simulate(specsim, text, "--topk", 1, "--steps", 3, "--draft-tokens", 16)
    assert got.exit_code == 0
    assert got.stderr == "--draft-tokens 16 becomes 4: with --topk 1 a draft has one node a level\n"
    assert json.loads(got.stdout)["lossless"] is True


def test_a_chain_may_have_no_level(specsim, text):
    got = simulate(specsim, text, "--steps", 0)
    assert got.exit_code == 0
    assert got.stderr == (
        "--topk 4 becomes 1: with --steps 0 nothing branches\n"
        "--draft-tokens 16 becomes 1: with --topk 1 a draft has one node a level\n"
    )
    report = json.loads(got.stdout)
    verifies = report["spec_verify_ct"]
    assert (report["lossless"], report["accept_rate"], report["tokens_per_verify"]) == (True, 0.0, 1.0)
    assert (report["num_accepted_drafts"], report["histogram"]) == (0, [verifies])
    assert report["output_tokens"] == report["requests"] + verifies
    assert "spec_accept_rate" not in report["meta_info"][0]


def test_the_table(specsim, text):
    got = specsim("simulate", "--text", text, "--requests", 1, "--max-new-tokens", 4)
    assert got.exit_code == 0
    assert "tokens_per_verify" in got.stdout


def test_a_contradiction_names_the_field(specsim, text):
    got = simulate(specsim, text, "--topk", 2, "--steps", 5, "--draft-tokens", 3)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.startswith("specsim: BAD_CONFIGURATION: num_draft_tokens is 3, but should be 6 to ")


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), (b"", "the file is empty")])
def test_an_unreadable_text_is_one_line(specsim, tmp_path, content, words):
    path = tmp_path / "absent.txt"
    if content is not None:
        path.write_bytes(content)
    got = simulate(specsim, path)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert words in got.stderr


def test_a_text_of_one_byte(specsim, tmp_path):
    path = tmp_path / "one.txt"
    path.write_bytes(b"\xff")
    got = simulate(specsim, path)
    assert got.exit_code == 0, got.output
    assert json.loads(got.stdout)["lossless"] is True


def test_the_seed_decides(specsim, text):
    one, two, other = (simulate(specsim, text, "--model", "hash", "--seed", seed).stdout for seed in (1, 1, 2))
    assert one == two != other
