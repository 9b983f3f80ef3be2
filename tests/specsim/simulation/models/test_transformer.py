"""The transformer of the documentation decodes without loss on every worker, and its caches are those of a prefill."""

from dataclasses import replace
from functools import partial

import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.host.logit_rules import LogitRules
from specsim.host.sampling import SamplingParameters
from specsim.simulation.comparing.autoregressive import PrefillDecoder, decode_alone
from specsim.simulation.models.description import FINAL_LAYER, DraftSource
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from tests.specsim.simulation.models.dense import chain_of_drafts, greedy_output
from tests.specsim.simulation.models.examples import my_transformer
from tests.specsim.simulation.models.foreign_runs import CPU, EAGER, WORKERS, on_device, on_numpy, requests

CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(2, 3, 6)
CONFIGS = pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
SOURCES = pytest.mark.parametrize("source", [DraftSource.HIDDEN, DraftSource.TOKENS], ids=lambda one: one.name)
PROMPTS = [[3], [5, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [8, 2, 8, 1, 8, 2]]
needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")


def transformer(device=CPU, source=DraftSource.HIDDEN, draft_layers=(FINAL_LAYER,)):
    return my_transformer.Transformer(my_transformer.Sizes(), 7, device, source, draft_layers)


def decodes_without_loss(start, model, config, asked, max_batch=3, **options):
    """Run, and return the run when every output is that of the dense model."""
    run = start(model, config, asked, max_batch, **options)
    outputs = run.outputs()
    for request in asked:
        assert outputs[request.request_id] == greedy_output(model, request.prompt, request.max_new_tokens)
    return run


@SOURCES
@CONFIGS
@pytest.mark.parametrize("worker", WORKERS)
def test_numpy_workers_lose_nothing_and_accept_some_drafts(worker, config, source):
    run = decodes_without_loss(WORKERS[worker], transformer(source=source), config, requests(PROMPTS, 14))
    assert 0 < run.accept_rate < 1


@CONFIGS
@pytest.mark.parametrize("worker", EAGER)
def test_the_device_worker_loses_nothing_and_accepts_some_drafts(worker, config):
    model = transformer(DEVICE, DraftSource.TOKENS if worker == "eager" else DraftSource.HIDDEN)
    run = decodes_without_loss(EAGER[worker], model, config, requests(PROMPTS[:3], 7), max_batch=2)
    assert 0 < run.accept_rate < 1


@needs_gpu
@SOURCES
@CONFIGS
def test_graphs_lose_nothing_and_accept_some_drafts(config, source):
    asked = requests([*PROMPTS, *PROMPTS[::-1]], 40)
    run = decodes_without_loss(on_device, transformer(DEVICE, source), config, asked, max_batch=5, use_graphs=True)
    assert 0 < run.accept_rate < 1
    eager = on_device(transformer(DEVICE, source), config, asked, 5)
    assert eager.outputs() == {request.request_id: request.output for request in run.engine.scheduler.finished}


@SOURCES
def test_auxiliary_layers_reach_the_draft_side_by_side(source):
    model = transformer(source=source, draft_layers=(0, FINAL_LAYER))
    run = on_numpy(model, TREE, requests(PROMPTS[:2], 6), 2)
    widths = {worker.phases()[3].hidden_states.shape[1] for worker in run.steps() if source is DraftSource.HIDDEN}
    assert widths == ({2 * model.sizes.hidden} if source is DraftSource.HIDDEN else set())
    decodes_without_loss(on_numpy, model, TREE, requests(PROMPTS[:2], 6))


@SOURCES
@CONFIGS
@pytest.mark.parametrize("worker", WORKERS)
def test_what_is_carried_is_what_a_prefill_would_leave(worker, config, source):
    run = WORKERS[worker](transformer(source=source), config, requests(PROMPTS[1:3], 8), 2)
    for _ in run.steps():
        assert run.differences_from_a_fresh_prefill() == set()


def test_what_the_device_carries_is_what_a_prefill_would_leave():
    run = on_device(transformer(DEVICE), TREE, requests(PROMPTS[2:3], 4), 1)
    for _ in run.steps():
        assert run.differences_from_a_fresh_prefill() == set()


@SOURCES
def test_a_chain_proposes_what_the_draft_alone_would(source):
    model = transformer(source=source)
    run = on_numpy(model, CHAIN, requests(PROMPTS[1:2], 8), 1)
    texts = [[*PROMPTS[1], first] for first in greedy_output(model, PROMPTS[1], 1)]
    for worker in run.steps():
        proposed = worker.phases()[1].draft_token.tolist()
        assert proposed == [texts[-1][-1], *chain_of_drafts(model, texts[-1], CHAIN.num_steps)]
        verified = worker.phases()[2]
        count = int(verified.num_accepted_tokens[0])
        texts.append([*texts[-1], *verified.predict[verified.accept_index[0, :count]].tolist()])


@pytest.mark.parametrize("prefill_chunk", [1, 2, 5])
@pytest.mark.parametrize("worker", WORKERS)
def test_prompts_in_chunks_leave_what_whole_prompts_leave(worker, prefill_chunk):
    run = WORKERS[worker](transformer(), TREE, requests(PROMPTS, 5), 4, prefill_chunk=prefill_chunk)
    for _ in run.steps():
        assert run.differences_from_a_fresh_prefill() == set()
    decodes_without_loss(WORKERS[worker], transformer(), TREE, requests(PROMPTS, 5), 4, prefill_chunk=prefill_chunk)


def test_the_device_takes_prompts_in_chunks():
    decodes_without_loss(on_device, transformer(DEVICE), CHAIN, requests(PROMPTS[:2], 3), 2, prefill_chunk=3)


def test_the_report_compares_with_the_models_own_prefill():
    model, asked = transformer(), requests(PROMPTS[:2], 6)
    worker = on_numpy(model, TREE, asked, 2).engine.worker
    assert simulate(worker, asked, max_batch=2).lossless
    output, _ = decode_alone(PrefillDecoder(worker), PROMPTS[1], asked[1].rules)
    assert output == greedy_output(model, PROMPTS[1], 6)


@pytest.mark.parametrize(
    ("start", "length"),
    [(on_numpy, 6), pytest.param(partial(on_device, use_graphs=True), 6, marks=needs_gpu)],
    ids=["numpy", "graphs"],
)
def test_rules_follow_the_outputs_of_a_model_whose_logits_serve_for_everything(start, length):
    """Penalties and biases change the model's own float logits, and none of a request without any."""
    model, asked = transformer(CPU if start is on_numpy else DEVICE), requests(PROMPTS[:2], length)
    worker = start(model, CHAIN, requests(PROMPTS[:2], length), 2).engine.worker
    asked[0].logit_rules = LogitRules(frequency_penalty=2.0, logit_bias=((4, 9.0),), bad_words=((4, 4),))
    assert simulate(worker, asked, max_batch=2).lossless
    assert asked[1].output == greedy_output(model, PROMPTS[1], length)
    assert asked[0].output[0] == 4 != asked[0].output[1]


def test_sampled_requests_follow_their_seeds_and_leave_greedy_neighbours_alone():
    model = transformer()
    warm = [None, SamplingParameters(0.8, top_p=0.9, seed=4), SamplingParameters(1.5, top_k=5, seed=9)]
    asked = [replace(one, sampling=sampling) for one, sampling in zip(requests(PROMPTS[:3], 8), warm, strict=True)]
    workers = [on_numpy(model, TREE, asked, size).engine.worker for size in (3, 1)]
    report = simulate(workers[0], asked, max_batch=3, alone=workers[1])
    assert (report.lossless, report.reproducible) == (True, True)
    assert asked[0].output == greedy_output(model, PROMPTS[0], 8)
    assert all(asked[place].output != greedy_output(model, PROMPTS[place], 8) for place in (1, 2))


def test_the_device_samples_what_the_numpy_worker_samples():
    model = transformer(DEVICE)
    asked = [replace(one, sampling=SamplingParameters(1.2, seed=7)) for one in requests(PROMPTS[1:3], 4)]
    assert on_device(model, CHAIN, asked, 2).outputs() == on_numpy(transformer(), CHAIN, asked, 2).outputs()


def test_pools_are_as_the_description_says():
    model, asked = transformer(), requests(PROMPTS[:1], 3)
    state = on_numpy(model, TREE, asked, 1).engine.worker.state()
    shape = (sizes_for(TREE, asked, 1).num_slots, 2, 8)
    assert [(one.shape, one.dtype.name) for one in state["target_kv"]] == [(shape, "float64")] * 4
    assert [(one.shape, one.dtype.name) for one in state["draft_kv"]] == [(shape, "float64")] * 4
