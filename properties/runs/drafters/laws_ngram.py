"""Whole runs that draft from an n-gram store: no token is lost, and every draft is that of all that was said."""

from functools import partial

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.assertion import require_present
from specsim.conformance.backend import Backend
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.properties.composite import composite
from specsim.properties.host.ngram.oracle import (
    EXACT_AND_ROUNDED,
    Path,
    PlainStore,
    below_documents,
    created_nodes,
    merged_nodes,
)
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.ngram import storing

OPERATIONS = (
    *("NgramStore", "draft_with_corpora", "reconstruct_indices_from_tree_mask"),
    *("verify_tree_greedy", "truncate_at_stop"),
)


@composite
def ngram_runs(draw: DrawFn, is_v1: bool = True) -> Scenario:
    """Draw runs over few tokens, whose texts soon repeat, and whose requests join together."""
    max_depth, num_nodes = draw(st.sampled_from((5, 3, 2))), draw(st.sampled_from((6, 2, 8, 12)))
    vocab, seed = draw(st.sampled_from((4, 2, 3))), draw(st.integers(0, 2**16))
    text, num_requests = np.random.default_rng(seed), draw(st.sampled_from((4, 2, 1)))
    num_corpora = draw(st.sampled_from((2, 0, 1)))
    parameters = NgramParameters(
        max_depth=max_depth,
        max_breadth=draw(st.sampled_from((3, 1, 4))),
        capacity=max_depth + draw(st.sampled_from((1000, 1, 6))),
        num_draft_tokens=num_nodes,
        mode=draw(st.sampled_from(TreeMode)),
        corpora=tuple((tuple(text.integers(0, vocab, 30).tolist()),) for _ in range(num_corpora)),
        corpus_budget=draw(st.sampled_from((num_nodes - 1, (num_nodes + 1) // 2, 1))),
    )
    prompts = [tuple(text.integers(0, vocab, draw(st.integers(1, 7))).tolist()) for _ in range(num_requests)]
    lengths = [draw(st.sampled_from((20, 12, 5, 1))) + place for place in range(num_requests)]
    arrivals = [Arrival(prompt, length) for prompt, length in zip(prompts, lengths, strict=True)]
    model, page_size = HashModel(vocab, seed % 50, 0.7), draw(st.sampled_from((1, 1, 3)))
    return scenario_of(parameters, model, arrivals, num_requests, 1, drafter="NGRAM", is_v1=is_v1, page_size=page_size)


def drafts_are_those_of_all_that_was_said(backend: Backend, scenario: Scenario) -> None:
    """Texts are those of plain decoding, and every verify accepts what a list of the last windows lets it accept.

    An engine steps beside a plain store that reads the ends of its texts, with V2 a verify late.
    """
    play, parameters = Play(scenario, backend), scenario.drafting.sizes
    engine, asked, plain = play.engine, play.requests, PlainStore(parameters)
    store = require_present("store", storing(play.worker)).store
    reach = parameters.num_draft_tokens
    truths = [greedy_decode(scenario.model, request.prompt, request.max_new_tokens + reach) for request in asked]
    for request in asked:
        engine.submit(request)
    while engine.has_work:
        running = [request for request in asked if request.finish is None]
        texts = [request.output or truths[request.request_id][:1] for request in running]
        expected = [
            _lengths_after(plain, parameters, (*request.prompt, *text), truths[request.request_id][len(text) :])
            for request, text in zip(running, texts, strict=True)
        ]
        counted = [request.counters.num_accepted_drafts for request in running]
        engine.step()
        engine.scheduler.check_ledger()
        verified = [request for request in running if request.counters.num_verifies]
        for request, text, lengths in zip(running, texts, expected, strict=True):
            truth = truths[request.request_id]
            require(
                request.output == truth[: len(request.output)], f"output of {request.prompt}", request.output, truth
            )
            most = request.max_new_tokens
            wanted = [min(most, len(text) + length) for length in lengths] if request in verified else [1]
            got = len(request.output)
            require(got in wanted, f"tokens of {request.prompt} after a verify", got, wanted)
        for request, before, lengths in zip(running, counted, expected, strict=True):
            if request in verified:
                # NOTE: what the target accepted after an end counts for the request as well.
                drafts, wanted_drafts = request.counters.num_accepted_drafts - before, [one - 1 for one in lengths]
                require(drafts in wanted_drafts, f"drafts counted for {request.prompt}", drafts, wanted_drafts)
        for request, text in zip(running, texts, strict=True):
            if request in verified:
                # NOTE: the host of V2 does not know yet what the verify output.
                said = request.output if scenario.is_v1 else text
                plain.insert(tuple([*request.prompt, *said][-parameters.max_depth :]))
        for name in ("num_nodes", "num_forgotten"):
            got, wanted_count = getattr(store, name), getattr(plain, name)
            require(got == wanted_count, f"{name} of the store", got, wanted_count)


def _lengths_after(plain: PlainStore, sizes: NgramParameters, text: Path, truth: list[int]) -> set[int]:
    """Return how many tokens a verify may output: the drafts that the truth follows, and the bonus."""
    most, context, found = sizes.num_draft_tokens - 1, text[-sizes.max_depth :], set()
    each = sizes.corpus_budget // len(sizes.corpora) if sizes.corpora else 0
    shares = [(plain.below(), most - len(sizes.corpora) * each)]
    shares += [(below_documents(documents), each) for documents in sizes.corpora]
    for number in EXACT_AND_ROUNDED:
        sources = [created_nodes(below, context, sizes, own, number) for below, own in shares]
        created = merged_nodes(sources)
        padding = [(0,)] if len(created) < most else []
        followed = [len(path) for path in [*created, *padding] if list(path) == truth[: len(path)]]
        found.add(max(followed, default=0) + 1)
    return found


def drafts_of_v2_are_those_of_all_that_was_said_a_verify_before(backend: Backend, scenario: Scenario) -> None:
    """The same of V2, whose store learns what a verify output with the next one."""
    drafts_are_those_of_all_that_was_said(backend, scenario)


PROPERTIES = states_of_runs(
    "ngram_engine",
    (drafts_are_those_of_all_that_was_said, ngram_runs, OPERATIONS, "", {"plays": ("ngram",)}),
    (
        drafts_of_v2_are_those_of_all_that_was_said_a_verify_before,
        partial(ngram_runs, is_v1=False),
        OPERATIONS,
        "",
        {"plays": ("ngram_v2",)},
    ),
    least_examples=3,
)
