"""Drafts from a store change no greedy token, on slots and pages, in any mode and however much is forgotten."""

from dataclasses import replace
from functools import partial
from itertools import cycle, islice

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.completed import Completed
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.host.stopping import FinishReason
from specsim.host.truncation import truncate_at_stop
from specsim.properties.runs.choices import Automaton
from specsim.properties.runs.sampling.sampled_law import check_sampled_law
from specsim.reference.models import load_model
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.ngram import figures_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

ORACLE = load("specsim.reference")
DEFAULTS = NgramParameters()
V1, V2 = KINDS = [loop_of("ngram"), loop_of("ngram_v2")]
TIGHT = NgramParameters(max_depth=3, max_breadth=3, capacity=6, num_draft_tokens=5)


def worker_of(parameters, model, asked, page_size=1, schedule=None, kind=V1):
    schedule = Schedule() if schedule is None else schedule
    sizes = sizes_for(parameters.config, asked, 3, page_size, schedule=schedule)
    return kind(parameters, load_model(model), sizes)


def repetitive(count):
    return [Request(number, list(islice(cycle([1, 2, 3]), 9 + number)), 20) for number in range(count)]


@pytest.mark.parametrize("mode", TreeMode)
@pytest.mark.parametrize("page_size", [1, 4])
def test_real_text_is_decoded_without_loss_and_drafts_are_accepted(page_size, mode):
    text = default_text()[:8000]
    asked = requests_from_text(text, 5, 24, 24)
    parameters = NgramParameters(mode=mode)
    worker = worker_of(parameters, TextModel.from_text(text), asked, page_size)
    report = simulate(worker, asked, max_batch=3)
    assert report.lossless
    assert report.num_accepted_drafts > 0
    assert figures_of(worker)["num_nodes"] == worker.side.store.num_nodes > 1


@pytest.mark.parametrize("parameters", [DEFAULTS, TIGHT, NgramParameters(num_draft_tokens=1), NgramParameters(2, 1, 1)])
@pytest.mark.parametrize("schedule", [Schedule(), Schedule(prefill_chunk=4), Schedule(has_prefix_cache=True)], ids=str)
def test_tiny_languages_are_decoded_without_loss(parameters, schedule):
    asked = repetitive(5)
    report = simulate(
        worker_of(parameters, HashModel(4, 3, 0.7), asked, schedule=schedule), asked, max_batch=3, schedule=schedule
    )
    assert report.lossless


def test_exactly_the_committed_positions_are_owned_between_iterations():
    asked = repetitive(4)
    worker = worker_of(TIGHT, HashModel(4, 3, 0.7), asked)
    engine = Engine(worker, 3, shuffle_seed=5)
    for request in asked:
        engine.submit(request)
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
        owned = sum(request.num_committed for request in engine.scheduler.running)
        assert engine.scheduler.slots.num_free == engine.scheduler.sizes.num_slots - 1 - owned
    assert worker.side.store.num_forgotten > 0


def test_the_last_tokens_of_prompt_and_output_are_inserted_after_a_verify():
    asked = [Request(0, [1, 2, 3], 9)]
    parameters = NgramParameters(max_depth=4, capacity=100, num_draft_tokens=3)
    worker = worker_of(parameters, HashModel(4, 3, 0.7), asked)
    engine = Engine(worker, 1)
    engine.submit(asked[0])
    assert worker.side.store.num_nodes == 1
    engine.step()
    text = [1, 2, 3, *asked[0].output]
    assert len(asked[0].output) == 2
    windows = {tuple(text[-4:][start : start + length]) for start in range(4) for length in range(1, 5 - start)}
    assert worker.side.store.num_nodes == 1 + len(windows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("is_random", "least", "most"), [(False, 5.0, 11.0), (True, 0.0, 2.0)])
def test_repetitive_and_random_text_are_decoded_without_loss(kind, is_random, least, most):
    """Of a text that repeats, nearly every verify accepts something; of one without pattern, next to none does."""
    text = np.random.default_rng(1).integers(0, 256, 4000, dtype=np.uint8).tobytes() if is_random else b"abcdef " * 200
    asked = requests_from_text(text, 4, 24, 40)
    worker = worker_of(DEFAULTS, TextModel.from_text(text), asked, kind=kind)
    report = simulate(worker, asked, max_batch=3)
    assert report.lossless
    assert least <= report.num_accepted_drafts / report.spec_verify_ct <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [1, 3])
def test_requests_of_one_batch_draft_another_number_each(kind, page_size):
    """Some draft nothing that is known beside others that do, and no one's output or books change."""
    model, parameters = HashModel(7, 3, 0.7), replace(TIGHT, capacity=1000)
    asked = [Request(number, [number, 1, 2, number][: 1 + number], 12) for number in range(4)]
    worker = worker_of(parameters, model, asked, page_size, kind=kind)
    engine, seen = Engine(worker, 3, shuffle_seed=5), set()
    for request in asked:
        engine.submit(request)
    while engine.has_work:
        texts = [[*request.prompt, *request.output] for request in engine.scheduler.running if request.output]
        seen.add(tuple(sorted({worker.side.store.draft(text).num_genuine for text in texts})))
        engine.step()
        engine.scheduler.check_ledger()
    assert any(len(counts) > 1 and counts[0] == 1 for counts in seen), seen
    for request in asked:
        assert request.output == greedy_decode(model, request.prompt, request.max_new_tokens)
        assert request.counters.num_verifies + request.counters.num_accepted_drafts >= request.max_new_tokens - 1


@pytest.mark.parametrize("mode", TreeMode)
@pytest.mark.parametrize("prompt", [(1, 2), (0, 1, 0, 1), (2, 2, 2)])
def test_sampled_requests_have_the_law_of_decoding_token_by_token(prompt, mode):
    """The first drafts are padding alone: equal siblings, each of which must not add its share again."""
    parameters = NgramParameters(max_depth=3, max_breadth=2, capacity=50, num_draft_tokens=4, mode=mode)
    loop = V1 if mode is TreeMode.BFS else V2
    check_sampled_law(partial(loop, parameters), parameters.config, HashModel(3, 11, 0.9), prompt)


def constrained(parameters, seed, kind, operations=None):
    """Return a request whose grammar ends its text soon, after a run, and what plain decoding makes of it."""
    model, grammar = HashModel(2, seed, 1.0), Automaton(2, 3, 1.0, 4, seed)
    request = Request(0, list(islice(cycle([0, 1, 1]), 9)), 16, grammar=grammar.start)
    sizes = sizes_for(parameters.config, [request], 1)
    reported = {} if operations is None else {"operations": operations}
    engine = Engine(kind(parameters, load_model(model), sizes, **reported), 1, operations=operations)
    engine.submit(request)
    engine.run()
    matcher = grammar.start()
    decoder = ExactDecoder(Prefix(model), request.choice_alone(matcher))
    return request, decode_alone(decoder, request.prompt, request.rules, matcher)


SEEDS = range(12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_ends_at_the_token_that_completes_its_grammar(kind):
    """In the middle of an accepted path too: nothing after that token is output."""
    finishes = []
    for seed in SEEDS:
        request, (output, finish) = constrained(TIGHT, seed, kind)
        assert (request.output, request.finish) == (output, finish)
        finishes.append(finish.reason)
    assert finishes.count(FinishReason.GRAMMAR) > len(SEEDS) // 2


def looks_before_the_grammar(accept_index, predict, rules, outputs, prompt_lengths, text_of, grammars):
    """End a request where engines do: the token that completes its text is followed by one more of the path."""
    truncation = truncate_at_stop(accept_index, predict, rules, outputs, prompt_lengths, text_of, grammars)
    appended, finishes, kept = list(truncation.appended), list(truncation.finishes), truncation.accept_index.copy()
    counts = truncation.batch_num_accepted_drafts.copy()
    for place, finish in enumerate(finishes):
        count = len(appended[place])
        has_more = count < (accept_index[place] >= 0).sum()
        if finish is not None and finish.reason is FinishReason.GRAMMAR and has_more:
            appended[place] = (*appended[place], int(predict[accept_index[place, count]]))
            finishes[place] = replace(finish, num_tokens=finish.num_tokens + 1)
            kept[place, count] = accept_index[place, count]
            counts[place] += 1
    cut = replace(truncation, accept_index=kept, batch_num_accepted_drafts=counts)
    return replace(cut, appended=tuple(appended), finishes=tuple(finishes))


def test_engines_that_do_not_look_again_output_one_token_after_the_end():
    operations = ORACLE.with_function("truncate_at_stop", looks_before_the_grammar, "as engines do")
    num_longer = 0
    for seed in SEEDS:
        request, (output, _) = constrained(TIGHT, seed, V1, Completed(operations, ORACLE))
        assert request.output[: len(output)] == output and len(request.output) <= len(output) + 1
        num_longer += len(request.output) > len(output)
    assert num_longer > 0
