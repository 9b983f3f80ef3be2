"""Checkpoints decode without loss: greedy output is that of ``generate``, sampled output has the target's law."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="checkpoints need the extra models")

from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.folder import open_folder
from specsim.checkpoints.in_numpy import InNumpy
from specsim.checkpoints.model import CheckpointModel
from specsim.checkpoints.near_ties import Judge
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.properties.laws.frequencies import chi_square_law, samples_needed
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_of, simulate
from tests.specsim.checkpoints.tiny import ARCHITECTURES, LLAMA

CPU = torch.device("cpu")
CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(2, 3, 6)
CONFIGS = pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
PROMPTS = [[3], [5, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [8, 2, 8, 1, 8, 2]]


@cache
def load(folder, device=CPU):
    """Return the checkpoint of a folder in float32, with kernels on the device of the worker alone."""
    return CausalLM(open_folder(folder), device, torch.float32, has_kernels=device is not CPU)


@cache
def generated(target, prompt, number):
    """Return what ``generate`` outputs after a prompt."""
    with target.by_itself() as network:
        whole = network.generate(torch.tensor([prompt], device=target.device), max_new_tokens=number, do_sample=False)
    return whole[0, len(prompt) :].tolist()


def decodes_without_loss(target, worker, asked, max_batch):
    """Run to the end, and return the share of drafts that were accepted.

    An output is that of ``generate``, or the first token that is not nearly ties with it: see ``near_ties``.
    """
    engine = Engine(worker, max_batch)
    for request in asked:
        engine.submit(request)
    for request in engine.run():
        expected = generated(target, tuple(request.prompt), request.max_new_tokens)
        if request.output != expected:
            pairs = zip(request.output, expected, strict=True)
            place = next(place for place, (got, wanted) in enumerate(pairs) if got != wanted)
            below, allowed = Judge(target).distances(request.prompt, request.output[: place + 1])
            assert below[place, request.output[place]] <= allowed, (request.output, expected)
    counts = [request.counters for request in asked]
    verifies = sum(one.num_verifies for one in counts)
    return sum(one.num_accepted_drafts for one in counts) / (engine.num_drafts_per_round * verifies)


@CONFIGS
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker], ids=["v1", "v2"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_output_is_that_of_generate(made, architecture, loop, page_size, config):
    target, asked = load(made(architecture)), requests_of(PROMPTS, 14)
    worker = loop(config, InNumpy(CheckpointModel(target, target)), sizes_for(config, asked, 3, page_size))
    assert 0 < decodes_without_loss(target, worker, asked, 3) < 1


@pytest.mark.parametrize("draft", [ARCHITECTURES[1], ARCHITECTURES[2]])
def test_a_draft_may_have_another_architecture(made, draft):
    target, asked = load(made(LLAMA)), requests_of(PROMPTS, 8)
    model = InNumpy(CheckpointModel(target, load(made(draft, seed=5))))
    decodes_without_loss(target, ReferenceWorker(TREE, model, sizes_for(TREE, asked, 4)), asked, 4)


@pytest.mark.parametrize(
    ("architecture", "others"),
    [
        ("mistral", {"sliding_window": 4}),
        ("gemma2", {"sliding_window": 4, "head_dim": 16, "attn_logit_softcapping": 2.0}),
        ("gpt_oss", {"sliding_window": 4, "num_local_experts": 4, "num_experts_per_tok": 2}),
        ("gpt2", {}),
    ],
    ids=["window", "bounded scores", "sinks and experts", "learned positions"],
)
def test_attention_of_other_kinds_is_computed_over_pages(made, architecture, others):
    target, asked = load(made(architecture, **others)), requests_of(PROMPTS, 10)
    worker = ReferenceWorker(TREE, InNumpy(CheckpointModel(target, target)), sizes_for(TREE, asked, 3))
    assert decodes_without_loss(target, worker, asked, 3) > 0


@pytest.mark.parametrize("loop", [GpuWorkerV1, GpuWorker], ids=["v1", "v2"])
def test_the_device_decodes_without_loss_over_the_operation(made, loop):
    target, asked = load(made(LLAMA, layers=1), DEVICE), requests_of(PROMPTS[1:3], 4)
    has_graphs = DEVICE.type == "cuda" and loop is GpuWorker
    worker = loop(TREE, CheckpointModel(target, target), sizes_for(TREE, asked, 2), use_graphs=has_graphs)
    assert decodes_without_loss(target, worker, asked, 2) > 0


def test_texts_draft_beside_a_target_alone(made):
    target, asked = load(made(LLAMA)), requests_of(PROMPTS, 24)
    drafting = NgramParameters(num_draft_tokens=6)
    worker = loop_of("ngram")(drafting, InNumpy(CheckpointModel(target, None)), sizes_for(drafting.config, asked, 2))
    assert decodes_without_loss(target, worker, asked, 2) > 0


class Faulty(CheckpointModel):
    """A model whose verify gets a batch with a fault."""

    def __init__(self, target, draft, change):
        super().__init__(target, draft)
        self.change = change

    def verify(self, batch, kv, states, scratch):
        return super().verify(self.change(batch), kv, states, scratch)


def every_node_sees_every_node(batch):
    return replace(batch, tree_mask=torch.ones_like(batch.tree_mask))


def positions_of_the_root(batch):
    return replace(batch, positions=batch.prefix_lens.repeat_interleave(TREE.num_draft_tokens))


def slots_of_the_neighbour(batch):
    return replace(batch, out_cache_loc=batch.out_cache_loc.roll(1))


@pytest.mark.parametrize("fault", [every_node_sees_every_node, positions_of_the_root, slots_of_the_neighbour])
def test_a_fault_in_what_a_verify_is_given_loses_tokens(made, fault):
    target, asked = load(made(LLAMA)), requests_of(PROMPTS, 14)
    model = InNumpy(Faulty(target, target, fault))
    worker = ReferenceWorker(TREE, model, sizes_for(TREE, asked, 3))
    assert not simulate(worker, asked, max_batch=3, own=Judge(target).start).lossless


VOCABULARY, LENGTH, ALPHA, EFFECT = 3, 3, 1e-5, 0.4
SAMPLING = SamplingParameters(0.9)


def law_of(target, prompt):
    """Return the probability of every output of three tokens, by the target's own logits."""
    law = {}
    for output in product(range(VOCABULARY), repeat=LENGTH):
        logits = target.own_logits([*prompt, *output[:-1]])[len(prompt) - 1 :].double()
        shares = torch.softmax(logits / SAMPLING.temperature, dim=-1)
        law[output] = float(np.prod([float(shares[place, token]) for place, token in enumerate(output)]))
    return law


def outputs_of(model, config, prompt, number):
    """Return how often each output is sampled."""
    asked = requests_of([prompt] * number, LENGTH, sampling=SAMPLING)
    engine = Engine(ReferenceWorker(config, model, sizes_for(config, asked, 256)), 256)
    for request in asked:
        engine.submit(request)
    done = engine.run()
    return Counter(tuple(request.output) for request in done), sum(one.counters.num_accepted_drafts for one in done)


@CONFIGS
def test_sampled_output_has_the_law_of_the_target(made, config):
    sizes = {"vocab_size": VOCABULARY, "layers": 1, "spread": 0.3}
    target, draft = (load(made(LLAMA, seed=seed, **sizes)) for seed in (3, 4))
    law = law_of(target, [1, 2, 0, 2])
    number = samples_needed(len(law) - 1, alpha=ALPHA, effect=EFFECT)
    counts, accepted = outputs_of(InNumpy(CheckpointModel(target, draft)), config, [1, 2, 0, 2], number)
    assert number / 20 < accepted < 2 * number
    assert chi_square_law(counts, law, alpha=ALPHA, effect=EFFECT).verdict == "fits"
    of_the_draft = law_of(draft, [1, 2, 0, 2])
    assert chi_square_law(counts, of_the_draft, alpha=ALPHA, effect=EFFECT).verdict == "differs"
