"""Folders that no worker can run are refused in one line, before their weights are read or a token is decoded."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers", reason="checkpoints need the extra models")

import transformers

from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.folder import Absent, open_folder, require_same_vocabulary
from specsim.rejection import SpecRejection
from tests.specsim.checkpoints.tiny import LLAMA, QWEN, save_tokenizer

CPU = torch.device("cpu")


def load(folder):
    return CausalLM(open_folder(folder), CPU, torch.float32, has_kernels=False)


@pytest.fixture
def copy(made, tmp_path):
    """Return a function that returns a folder like a checkpoint's, whose configuration is changed."""

    def make(changes, architecture=LLAMA, name="changed"):
        folder = shutil.copytree(made(architecture), tmp_path / name)
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return folder

    return make


def refusal(run, *arguments):
    """Return what is refused: what, got, expected, because."""
    with pytest.raises(SpecRejection) as caught:
        run(*arguments)
    rejection = caught.value
    return rejection.what, str(rejection.got), rejection.expected, rejection.because


KEEPS_PAGES = "a worker rolls rejected drafts back by forgetting slots of keys and values"
ONE_TEXT = "the worker feeds one text and reads its next token"


@pytest.mark.parametrize(
    ("changes", "got", "expected", "because"),
    [
        ({"model_type": "t5"}, "t5, an encoder and a decoder", "a causal language model", ONE_TEXT),
        ({"model_type": "vit"}, "vit", "a causal language model", ONE_TEXT),
        (
            {"model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"]},
            "qwen3_next with layers of linear_attention",
            "attention over all positions or a sliding window",
            KEEPS_PAGES,
        ),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
            "llama with rotary positions of kind dynamic",
            "angles that depend on positions alone",
            "keys in a cache cannot follow angles that change with the length of a text",
        ),
    ],
    ids=["encoder and decoder", "no language model", "recurrent state", "angles by length"],
)
def test_an_architecture_is_refused_by_its_configuration(copy, changes, got, expected, because):
    folder = copy(changes)
    assert refusal(open_folder, folder) == (f"architecture of {folder}", got, expected, because)


def test_an_unknown_architecture_is_refused(copy):
    folder = copy({"model_type": "llama99"})
    what, got, expected, because = refusal(open_folder, folder)
    assert (what, expected) == (f"config.json of {folder}", "a known architecture")
    assert "`llama99`" in got
    assert because == f"transformers {transformers.__version__} reads it"


@pytest.mark.parametrize(
    ("architecture", "got"),
    [("gpt_neox_japanese", "paged attention in 0 of 2 layers"), ("bloom", "no position_ids")],
)
def test_layers_that_do_not_ask_for_their_attention_are_refused(made, architecture, got):
    folder = made(architecture)
    what, found, _, _ = refusal(load, folder)
    assert (what, found) == (f"architecture of {folder}", got)


def test_attention_that_is_not_causal_is_refused(made):
    folder = made("bert", is_decoder=False)
    what, got, expected, because = refusal(load, folder)
    assert what == f"architecture of {folder}"
    assert got.startswith("bert, whose logits over pages differ by ")
    assert expected.startswith("at most ")
    assert because == "its attention or its state is not in the worker's pages"


def test_weights_that_are_missing_are_refused(copy):
    folder = copy({})
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert refusal(load, folder) == (
        f"weights of {folder}",
        "none for model.layers.1.mlp.up_proj.weight",
        "all of them",
        "the others would be random numbers",
    )


def test_weights_that_cannot_be_read_are_refused(copy):
    folder = copy({})
    (folder / "model.safetensors").write_bytes(b"no weights")
    what, got, _, _ = refusal(load, folder)
    assert what == f"weights of {folder}"
    assert "\n" not in got


def test_what_is_not_there_is_named(made, tmp_path):
    empty, bare = tmp_path / "empty", tmp_path / "bare"
    empty.mkdir()
    bare.mkdir()
    shutil.copy(made(LLAMA) / "config.json", bare)
    for folder, message in (
        (tmp_path / "none", "is not there, but should be the folder of a checkpoint"),
        (empty, "has no config.json, but should be the folder of a checkpoint"),
        (bare, "has no weights: neither *.safetensors nor *.bin"),
    ):
        with pytest.raises(Absent) as caught:
            open_folder(folder)
        assert str(caught.value) == f"{folder} {message}"
    with pytest.raises(Absent) as caught:
        _ = open_folder(made(LLAMA)).tokenizer
    assert str(caught.value).startswith(f"{made(LLAMA)} has no tokenizer that can be read: ")


def test_a_draft_of_another_vocabulary_is_refused(made, copy):
    target, draft = made(LLAMA), made(QWEN, vocab_size=48)
    because = f"{target} verifies what {draft} proposes, token by token"
    assert refusal(require_same_vocabulary, open_folder(target), open_folder(draft)) == (
        "tokens of the draft's vocabulary",
        "48",
        "the 32 of the target",
        because,
    )
    one, other = copy({}, name="one"), copy({}, name="other")
    save_tokenizer(one)
    save_tokenizer(other, "bacdefghijklmnopqrstuvwxyz .!?\n,")
    got = refusal(require_same_vocabulary, open_folder(one), open_folder(other))
    assert got[:3] == ("vocabulary of the draft", "a tokenizer that numbers 2 tokens otherwise", "the target's")
    save_tokenizer(other)
    require_same_vocabulary(open_folder(one), open_folder(other))


def test_ends_of_texts_are_those_of_generate(copy):
    folder = copy({"eos_token_id": 7})
    assert open_folder(folder).eos_tokens == (7,)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 9]}))
    assert open_folder(folder).eos_tokens == (3, 9)
