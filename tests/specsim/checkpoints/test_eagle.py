"""Heads of EAGLE and EAGLE-3 draft over the target's hidden states what their layer computes, and nothing is lost."""

import pytest
import torch

pytest.importorskip("transformers", reason="checkpoints need the extra models")

from torch.nn import functional

from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.eagle import EagleHead
from specsim.checkpoints.folder import open_folder
from specsim.checkpoints.model import CheckpointModel
from specsim.checkpoints.near_ties import Judge
from specsim.config import SpecConfig
from specsim.rejection import SpecRejection
from specsim.simulation.report import requests_of, simulate
from tests.specsim.checkpoints.tiny import LLAMA, QWEN, config_of, save_head
from tests.specsim.simulation.models.foreign_runs import WORKERS, on_numpy

CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(3, 3, 8)
PROMPTS = [[5, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [3]]
LAYERS, WIDTH, HEADS, KV_HEADS = (0, 2, 1), 32, 4, 2
KINDS = pytest.mark.parametrize("kind", ["EAGLE", "EAGLE3", "EAGLE3 of hot tokens"])


def load(folder):
    return CausalLM(open_folder(folder), torch.device("cpu"), torch.float32, has_kernels=False)


@pytest.fixture
def pair(made, tmp_path):
    """Return a function that returns a target, a head of it, and the weights of the head."""

    def make(kind, architecture=LLAMA):
        target = load(made(architecture, layers=3))
        weights = save_head(
            tmp_path,
            target.folder.config,
            seed=7,
            is_third=kind != "EAGLE",
            layers=LAYERS,
            draft_vocab=20 if "hot" in kind else None,
        )
        return target, EagleHead(open_folder(tmp_path), target), weights

    return make


def rotated(heads):
    """Turn the halves of [token, head, dim] by positions from 0 on."""
    rates = 10000.0 ** (-torch.arange(0, heads.shape[2], 2) / heads.shape[2])
    angles = torch.arange(heads.shape[0])[:, None, None] * rates
    left, right = heads.chunk(2, dim=-1)
    return torch.cat([left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], dim=-1)


def normed(rows, weight):
    return rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def layer_after(weights, is_third, embedded, hidden):
    """Return what the layer computes of a whole text, by matrices and one square of scores."""
    name = "midlayer" if is_third else "layers.0"
    own = {key.removeprefix(f"{name}."): one for key, one in weights.items()}
    read = hidden
    if is_third:
        sides = normed(embedded, own["input_layernorm.weight"]), normed(hidden, own["hidden_norm.weight"])
        read = torch.cat(sides, dim=1)
    query, key, value = (
        (read @ own[f"self_attn.{one}_proj.weight"].T).view(len(read), heads, WIDTH // HEADS)
        for one, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
    )
    key, value = (one.repeat_interleave(HEADS // KV_HEADS, dim=1) for one in (rotated(key), value))
    scores = torch.einsum("thd,shd->hts", rotated(query), key) / (WIDTH // HEADS) ** 0.5
    later = torch.ones(len(read), len(read)).triu(1).bool()
    weighed = scores.masked_fill(later, -torch.inf).softmax(-1)
    hidden = hidden + torch.einsum("hts,shd->thd", weighed, value).flatten(1) @ own["self_attn.o_proj.weight"].T
    x = normed(hidden, own["post_attention_layernorm.weight"])
    gated = functional.silu(x @ own["mlp.gate_proj.weight"].T) * (x @ own["mlp.up_proj.weight"].T)
    return hidden + gated @ own["mlp.down_proj.weight"].T


def drafted(target, weights, kind, text, number):
    """Return the chain that a head proposes after a text whose last token the target has not seen."""
    is_third = kind != "EAGLE"
    with target.by_itself() as network:
        found = network(torch.tensor([text[:-1]]), output_hidden_states=True)
        table, vocabulary = network.get_input_embeddings().weight, network.get_output_embeddings().weight
    states = found.hidden_states
    given = [states[layer + 1][0] for layer in LAYERS] if is_third else [states[-1][0]]
    embeddings = table if is_third else weights["embed_tokens.weight"]
    tokens, own, chain = list(text[1:]), [], []
    for _ in range(number):
        embedded = embeddings[torch.tensor(tokens)]
        if is_third:
            first = torch.cat(given, dim=1) @ weights["fc.weight"].T
            hidden = torch.cat([first, *own])
        else:
            joined = torch.cat([embedded, torch.cat([*given, *own])], dim=1)
            hidden = joined @ weights["fc.weight"].T + weights["fc.bias"]
        last = layer_after(weights, is_third, embedded, hidden)[-1:]
        logits = normed(last, weights["norm.weight"]) @ weights["lm_head.weight"].T if is_third else last @ vocabulary.T
        token = int(logits.argmax())
        tokens.append(token + int(weights["d2t"][token]) if "d2t" in weights else token)
        own.append(last)
        chain.append(tokens[-1])
    return chain


@KINDS
def test_a_chain_proposes_what_the_layer_computes_of_the_whole_text(pair, kind):
    target, head, weights = pair(kind)
    run = on_numpy(CheckpointModel(target, head), CHAIN, requests_of(PROMPTS[:1], 10), 1)
    text = [*PROMPTS[0], int(target.own_logits(PROMPTS[0])[-1].argmax())]
    for worker in run.steps():
        proposed = worker.phases()[1].draft_token.tolist()
        assert proposed == [text[-1], *drafted(target, weights, kind, text, CHAIN.num_steps)]
        verified = worker.phases()[2]
        count = int(verified.num_accepted_tokens[0])
        text = [*text, *verified.predict[verified.accept_index[0, :count]].tolist()]


@KINDS
@pytest.mark.parametrize("worker", WORKERS)
def test_trees_of_a_head_lose_nothing_and_some_drafts_are_accepted(pair, kind, worker):
    target, head, _ = pair(kind, QWEN)
    asked = requests_of(PROMPTS, 16)
    run = WORKERS[worker](CheckpointModel(target, head), TREE, asked, 2)
    judge = Judge(target)
    report = simulate(run.engine.worker, asked, max_batch=2, own=judge.start)
    assert (report.lossless, report.mismatches, judge.near_ties) == (True, (), [])
    assert report.num_accepted_drafts > 0


def test_a_head_of_another_target_is_refused(made, tmp_path):
    target = load(made(LLAMA, layers=3))
    for name, config, more, message in (
        ("wide", config_of(LLAMA, hidden=64), {"is_third": True}, "size mismatch for fc.weight"),
        ("short", config_of(LLAMA), {"is_third": True, "layers": (0, 1, 3)}, "is [0, 1, 3], but should be 3 of 0 to 2"),
        ("narrow", config_of(LLAMA), {"is_third": False, "hidden": 16}, "is 16, but should be the 32 of the target"),
    ):
        folder = tmp_path / name
        save_head(folder, config, 7, **more)
        with pytest.raises(SpecRejection) as caught:
            EagleHead(open_folder(folder), target)
        assert message in str(caught.value)


def test_weights_that_a_head_lacks_are_named(made, tmp_path):
    target = load(made(LLAMA, layers=3))
    weights = save_head(tmp_path, target.folder.config, 7, is_third=False)
    del weights["layers.0.mlp.up_proj.weight"]
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(SpecRejection) as caught:
        EagleHead(open_folder(tmp_path), target)
    assert caught.value.what == f"weights of {tmp_path}"
    assert caught.value.got == "others in mlp.up_proj.weight"
