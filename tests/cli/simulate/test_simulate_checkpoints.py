"""``specsim simulate --model hf:FOLDER`` runs checkpoints of a folder, and refuses others in one line."""

import json

import pytest
import torch

pytest.importorskip("transformers", reason="checkpoints need the extra models")

from specsim.installation import DISTRIBUTION
from tests.specsim.checkpoints.tiny import LLAMA, NEOX, config_of, save_checkpoint, save_head, save_tokenizer

TREE = ("--topk", 2, "--steps", 3, "--draft-tokens", 6)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a target and a draft with a tokenizer, and a file of prompts."""
    root = tmp_path_factory.mktemp("checkpoints")
    save_checkpoint(root / "target", config_of(LLAMA), seed=1)
    save_checkpoint(root / "draft", config_of(NEOX), seed=2)
    save_checkpoint(root / "narrow", config_of(LLAMA, vocab_size=24, layers=1), seed=3)
    save_head(root / "head", config_of(LLAMA), seed=4, is_third=False)
    save_head(root / "third", config_of(LLAMA), seed=5, is_third=True, layers=(0, 1, 1))
    for name in ("target", "draft"):
        save_tokenizer(root / name)
    lines = ('"abc, abc"', '{"prompt": "a text."}', '{"token_ids": [3, 1, 4]}')
    (root / "prompts.jsonl").write_text("\n".join(lines))
    return root


@pytest.fixture
def simulate(specsim, folders):
    """Return a function that runs the target, with names of folders in the place of paths."""

    def run(*options, model="target", **more):
        named = [f"hf:{folders / option[3:]}" if str(option).startswith("hf:") else option for option in options]
        return specsim("simulate", "--model", f"hf:{folders / model}", "--max-new-tokens", 8, *named, **more)

    return run


def figures(got):
    assert got.exit_code == 0, got.output
    return json.loads(got.stdout)


@pytest.mark.parametrize(
    ("options", "worker"),
    [
        (("--draft", "hf:draft", *TREE), "reference"),
        (("--draft", "hf:target", "--page-size", 4, "--mode", "v1"), "reference-v1"),
        (("--draft", "hf:target", "--overlap", "--chunk", 3, "--prefix-cache"), "reference"),
        (("--algorithm", "NGRAM"), "reference-ngram"),
        (("--draft", "hf:head"), "reference"),
        (("--draft", "hf:third", "--algorithm", "EAGLE3", *TREE), "reference"),
    ],
    ids=["tree", "pages of V1", "schedule", "texts", "head", "third head"],
)
def test_prompts_of_a_file_are_decoded_without_loss(simulate, folders, options, worker):
    report = figures(simulate(*options, "--prompts", folders / "prompts.jsonl", "--json"))
    assert (report["lossless"], report["worker"], report["dtype"]) == (True, worker, "float32")
    assert [one["prompt_tokens"] for one in report["meta_info"]] == [8, 7, 3]
    assert report["near_ties"] == {"count": 0, "largest_margin": 0.0, "allowed": None}


def test_outputs_end_where_generate_ends_them(simulate, folders):
    prompt = torch.tensor([[3, 1, 4]])
    network = save_checkpoint(folders / "ending", config_of(LLAMA), seed=1)
    whole = network.generate(prompt, max_new_tokens=8, do_sample=False)[0, 3:].tolist()
    (folders / "ending" / "generation_config.json").write_text(json.dumps({"eos_token_id": [31, whole[2]]}))
    ended = network.generate(prompt, max_new_tokens=8, do_sample=False, eos_token_id=[31, whole[2]])[0, 3:].tolist()
    (folders / "one.jsonl").write_text('{"token_ids": [3, 1, 4]}')
    got = simulate("--draft", "hf:draft", "--prompts", folders / "one.jsonl", "--json", model="ending")
    (one,) = figures(got)["meta_info"]
    assert one["completion_tokens"] == len(ended) < len(whole)
    assert one["finish_reason"] == {"type": "stop_token", "matched": ended[-1]}


def test_prompts_are_cut_out_of_a_text_by_its_tokens(simulate, tmp_path):
    (tmp_path / "text").write_text("a text, and some more of it. " * 3)
    cut = ("--text", tmp_path / "text", "--requests", 2, "--prompt-length", 5)
    report = figures(simulate("--draft", "hf:target", *cut, "--json"))
    assert (report["lossless"], [one["prompt_tokens"] for one in report["meta_info"]]) == (True, [5, 5])


@pytest.mark.parametrize("acceptance", ["token", "target-draw"])
def test_sampled_outputs_are_those_of_a_second_run(simulate, folders, acceptance):
    drawn = ("--temperature", 0.8, "--acceptance", acceptance, "--prompts", folders / "prompts.jsonl")
    report = figures(simulate("--draft", "hf:draft", *drawn, "--json"))
    assert (report["lossless"], report["reproducible"]) == (None, True)


def test_the_table_has_near_ties(simulate, folders):
    got = simulate("--draft", "hf:draft", "--prompts", folders / "prompts.jsonl", "--requests", 1)
    assert got.exit_code == 0
    assert got.stdout.splitlines()[-1].split() == ["near_ties", "none"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "STANDALONE needs a --draft hf:FOLDER; --algorithm NGRAM drafts without one"),
        (
            ("--algorithm", "DFLASH", "--draft", "hf:draft"),
            2,
            "--algorithm is DFLASH, but should be one of STANDALONE, NGRAM, EAGLE, EAGLE3 for a checkpoint",
        ),
        (
            ("--algorithm", "EAGLE", "--draft", "hf:draft"),
            2,
            "--algorithm is EAGLE, and --draft hf:{root}/draft drafts by STANDALONE",
        ),
        (
            ("--algorithm", "NGRAM", "--draft", "hf:draft"),
            2,
            "--draft is given, and --algorithm is NGRAM, which drafts from earlier texts",
        ),
        (
            ("--draft", "hf:draft", "--stop", "x"),
            2,
            "--stop is not for --model hf:FOLDER: it is about bytes, and a checkpoint has tokens of its own",
        ),
        (
            ("--draft", "hf:draft", "--lockstep"),
            2,
            "--lockstep is not for --model hf:FOLDER: it is compared exactly, and logits of a checkpoint are rounded",
        ),
        (
            ("--draft", "hf:draft", "--dtype", "bfloat16"),
            2,
            "--dtype bfloat16 is for --worker gpu: NumPy computes in float32",
        ),
        (("--draft", "hf:none"), 4, "{root}/none is not there, but should be the folder of a checkpoint"),
        (
            ("--draft", "hf:narrow"),
            2,
            "BAD_CONFIGURATION: tokens of the draft's vocabulary is 24, but should be the 32 of the target, because "
            "{root}/target verifies what {root}/narrow proposes, token by token",
        ),
        (
            ("--draft", "hf:draft", "--text", "x", "--prompts", "y"),
            2,
            "--text and --prompts both say what the prompts are",
        ),
        (
            ("--draft", "hf:draft", "--requests", 1, "--prompt-length", 4, "--max-new-tokens", 4096),
            2,
            "BAD_CONFIGURATION: positions is 4100 of the longest text and 4 of a draft, but should be at most 4096 "
            "together, because that many are the positions of {root}/target",
        ),
        (("--draft", "hf:draft", "--prompts", "y"), 4, "y is not there, but should have a prompt a line"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(simulate, folders, options, code, message):
    got = simulate(*options)
    assert (got.exit_code, got.stdout) == (code, "")
    assert " ".join(got.stderr.split()) == f"specsim: {message.format(root=folders)}"


def test_options_of_checkpoints_need_one(specsim, folders):
    got = specsim("simulate", "--draft", f"hf:{folders / 'draft'}")
    assert (got.exit_code, got.stderr) == (2, "specsim: --draft needs --model hf:FOLDER, and --model is text\n")
    wrong = specsim("simulate", "--model", "llama")
    assert wrong.exit_code == 2
    assert "'llama' is no model; it is text, hash or hf:FOLDER" in " ".join(wrong.stderr.split())


def test_an_installation_without_the_extra_says_so(simulate, monkeypatch):
    monkeypatch.setattr("specsim.cli.simulating.checkpoints.find_missing", lambda extra: ("transformers",))
    monkeypatch.setattr("specsim.installation.find_missing", lambda extra: ("transformers",))
    got = simulate("--draft", "hf:draft")
    assert got.exit_code == 4
    needs = f"specsim: --model hf: needs transformers: pip install '{DISTRIBUTION}[models]'"
    assert " ".join(got.stderr.split()) == needs
