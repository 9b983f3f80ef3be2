"""Where an output leaves the model's own decoding, its margin decides, and near ties are counted."""

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers", reason="checkpoints need the extra models")

from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.folder import open_folder
from specsim.checkpoints.near_ties import Judge, NearTie
from specsim.host.choice import UNCONSTRAINED
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.requests import Request
from tests.specsim.checkpoints.tiny import LLAMA, config_of, save_checkpoint

PROMPT, NUMBER = [5, 1, 4], 6


def load(folder, dtype=torch.float32):
    return CausalLM(open_folder(folder), torch.device("cpu"), dtype, has_kernels=False)


def alone(judge, output):
    """Return what the judge has for a request with an output."""
    request = Request(3, PROMPT, NUMBER, output=list(output))
    decoder = ExactDecoder(judge.start(request), UNCONSTRAINED)
    return decode_alone(decoder, PROMPT, request.rules)[0]


@pytest.fixture
def twins(tmp_path):
    """Return a checkpoint whose first choice has a twin, a token of the same logits and the same embedding."""
    save_checkpoint(tmp_path, config_of(LLAMA), seed=1)
    (first, *_) = alone(Judge(load(tmp_path)), [])
    other = (first + 1) % 32
    weights = load_file(tmp_path / "model.safetensors")
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        weights[name][other] = weights[name][first]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return load(tmp_path), first, other


def test_a_token_that_ties_passes_and_is_counted(twins):
    model, first, other = twins
    chosen, twin = min(first, other), max(first, other)
    own = alone(Judge(model), [])
    assert own[0] == chosen
    judge = Judge(model)
    swapped = [twin, *own[1:]]
    assert alone(judge, swapped) == swapped
    (tie,) = judge.near_ties
    assert tie == NearTie(3, 0, 0.0, tie.allowed)
    assert 0 < tie.allowed < 1e-4
    assert judge.figures() == {"count": 1, "largest_margin": 0.0, "allowed": tie.allowed}


def test_a_token_that_rounding_does_not_explain_is_lost(twins):
    model, *_ = twins
    own = alone(Judge(model), [])
    logits = model.own_logits([*PROMPT, *own[:2]])[-1]
    wrong = [*own[:2], int(logits.argmin()), *own[3:]]
    judge = Judge(model)
    assert alone(judge, wrong)[:3] == own[:3]
    assert judge.near_ties == []
    below, allowed = judge.distances(PROMPT, wrong)
    assert float(below[2, wrong[2]]) == pytest.approx(float(logits.max() - logits.min()), abs=1e-3)
    assert allowed < 1e-4


def test_what_rounding_explains_follows_the_type(made):
    folder = made(LLAMA)
    outputs = alone(Judge(load(folder)), [])
    narrow, wide = (Judge(load(folder, one)).distances(PROMPT, outputs)[1] for one in (torch.bfloat16, torch.float32))
    # NOTE: bfloat16 has 16 digits less than float32, so that distances round by 2**16 times as much.
    assert 2**11 < narrow / wide < 2**21


def test_the_own_decoding_is_that_of_generate(made):
    model = load(made(LLAMA))
    with model.by_itself() as network:
        whole = network.generate(torch.tensor([PROMPT]), max_new_tokens=NUMBER, do_sample=False)
    assert alone(Judge(model), []) == whole[0, len(PROMPT) :].tolist()
