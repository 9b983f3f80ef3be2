"""Sampled decoding end to end: the engine emits exactly the law of decoding token by token, and follows its seeds."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.distribution import NOTHING, Outcome, Row, autoregressive, require_same_law
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.laws.frequencies import sequential_law
from specsim.properties.laws.sampling_cells import slack_from_logits
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.properties.runs.histories import tagged_pools
from specsim.properties.runs.play import Play, parts_of, require_decoded_alone
from specsim.properties.runs.sampling.sampled_law import HALVING
from specsim.properties.runs.sampling.sampled_runs import Watched, law_of_runs
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.laws_state import check_texts
from specsim.properties.strategies.logit_scenes import HALVING_TEMPERATURE
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares

OPERATIONS = ("generate_coins", "hash_sampling_logits", "verify_tree_sampled_from_logits")
TREES = (SpecConfig(1, 1, 2), SpecConfig(1, 2, 3), SpecConfig(2, 1, 3), SpecConfig(2, 2, 4), SpecConfig(2, 2, 5))


ALPHA, EFFECT_OF_RUNS, SEEDS_IN_A_BATCH = 1e-9, 0.4, 32
"""The chance of a false alarm, Cohen's w that has to be noticed, and sampled requests that run together."""


def sampled_scenario(
    config: SpecConfig,
    model: HashModel,
    prompts: Iterable[tuple[int, ...]],
    sampling: Sequence[SamplingParameters | None],
    num_tokens: int,
    **changes: Any,
) -> Scenario:
    """Return a run of requests that decode together; ``sampling`` has None for a greedy one."""
    pairs = zip(prompts, sampling, strict=True)
    arrivals = [Arrival(prompt, num_tokens, sampling=one) for prompt, one in pairs]
    scenario = scenario_of(config, model, arrivals, len(arrivals), 1, stream_seed=model.seed)
    return scenario.having(**changes)


def with_first(scenario: Scenario, **changes: Any) -> Scenario:
    """Return a run whose first request has some other fields."""
    first, *others = scenario.arrivals
    return scenario.having(arrivals=(replace(first, **changes), *others))


def outputs_of(scenario: Scenario, backend: Backend) -> list[list[int]]:
    """Return what each request outputs on an implementation's own worker."""
    return [request.output for request in Play(scenario, backend).run().requests]


def engine_emits_the_autoregressive_law(backend: Backend, scenario: Scenario) -> None:
    """Over all coins a request emits exactly the law of decoding token by token; greedy neighbours stay as they are."""
    first = scenario.arrivals[0]

    def row_after(tokens: Outcome) -> Row:
        return constrained_shares(first, next_shares(scenario.model, [*first.prompt, *tokens]), tokens)

    require_law(backend, scenario, row_after)


def engine_emits_the_law_of_its_grammar(backend: Backend, scenario: Scenario) -> None:
    """The same under a processor and a grammar: every step draws among the tokens that the grammar still allows."""
    engine_emits_the_autoregressive_law(backend, scenario)


def constrained_shares(first: Arrival, shares: Row, tokens: Outcome) -> Row:
    """Return the distribution after some output, shifted by the processor and cut to what the grammar allows."""
    if first.processor is not None:
        shares = tuple(shares[(token - first.processor.count) % len(shares)] for token in range(len(shares)))
    if first.grammar is None:
        return shares
    matcher = first.grammar.start()
    for token in tokens:
        matcher.accept(token)
    is_allowed = matcher.transitions[matcher.state] >= 0
    kept = [share if allowed else NOTHING for share, allowed in zip(shares, is_allowed.tolist(), strict=True)]
    total = sum(kept, NOTHING)
    return tuple(share / total for share in kept)


def require_law(backend: Backend, scenario: Scenario, row_after: Callable[[Outcome], Row]) -> None:
    """Raise AssertionError unless the first request emits exactly the law of rows that follow what it has output."""
    first, slack = scenario.arrivals[0], slack_from_logits(scenario.model.vocab_size)
    law = law_of_runs(parts_of(backend), lambda watched: emitted(watched, scenario), slack)
    rules = "" if first.logit_rules is None else f", {first.logit_rules}"
    what = f"law of prompt {list(first.prompt)}, {scenario.config}, {scenario.model}{rules}"
    require_same_law(what, law, autoregressive(row_after, first.max_new_tokens))


def emitted(operations: Watched, scenario: Scenario) -> Outcome:
    """Return what the first request emits, and check what the greedy others do."""
    first, *others = Play(scenario, operations=operations).run().requests
    for request in others:
        require_decoded_alone(scenario.model, request)
    return tuple(first.output)


def sampled_output_follows_its_seed(backend: Backend, scenario: Scenario) -> None:
    """A seeded request emits the same alone, in any batch and order, in a batch of another size, and once more."""
    expected = outputs_of(scenario, backend)
    others = (
        ("once more", outputs_of(scenario, backend)),
        ("in reversed order", outputs_of(scenario.having(arrivals=scenario.arrivals[::-1]), backend)[::-1]),
        ("in batches of one", outputs_of(scenario.having(max_batch=1), backend)),
    )
    for how, outputs in others:
        require_same_outputs(how, outputs, expected)


def require_same_outputs(how: str, outputs: list[list[int]], expected: list[list[int]]) -> None:
    """Raise AssertionError unless every request outputs what it outputs elsewhere."""
    for number, (output, other) in enumerate(zip(outputs, expected, strict=True)):
        require(output == other, f"output of request {number} {how}", output, other)


def both_workers_sample_alike(backend: Backend, scenario: Scenario) -> None:
    """For the same seeds V1 and V2 emit the same tokens."""
    of_v2, of_v1 = (outputs_of(scenario.having(is_v1=is_v1), backend) for is_v1 in (False, True))
    require_same_outputs("on V1", of_v1, of_v2)


def requests_draw_different_coins(backend: Backend, scenario: Scenario) -> None:
    """Requests of one prompt and different seeds do not all emit the same.

    Where drafts are the implementation's own they emit each text as often as decoding token by token does: no run of
    the reference has the same coins.
    """
    first, count = scenario.arrivals[0], 6
    alike = [replace(first, sampling=replace(HALVING, seed=seed), max_new_tokens=4) for seed in range(count)]
    outputs = {*map(tuple, outputs_of(scenario.having(arrivals=tuple(alike), max_batch=count), backend))}
    require(len(outputs) > 1, f"different outputs of {count} seeds", len(outputs), "more than one")
    if backend.limits.has_own_drafts:
        require_frequencies_of_seeds(backend, scenario)


def require_frequencies_of_seeds(backend: Backend, scenario: Scenario) -> None:
    """Raise AssertionError if what an implementation's workers emit for many seeds contradicts the exact law."""
    vocab_size, count, number = 3, SEEDS_IN_A_BATCH, scenario.model.seed % 2**16
    prompt = tuple(token % vocab_size for token in scenario.arrivals[0].prompt)
    config = scenario.config if scenario.config.topk <= vocab_size else TREES[0]
    model = HashModel(vocab_size, scenario.model.seed, scenario.model.agreement)

    def sample(most: int, look: int) -> Counter[Outcome]:
        found = Counter[Outcome]()
        for start in range(0, most, count):
            first = number + (look << 20) + start
            sampling = [replace(HALVING, seed=seed) for seed in range(first, first + min(count, most - start))]
            alike = sampled_scenario(config, model, [prompt] * len(sampling), sampling, 2, is_v1=scenario.is_v1)
            found.update(map(tuple, outputs_of(alike.having(max_batch=count), backend)))
        return found

    expected = autoregressive(lambda tokens: next_shares(model, [*prompt, *tokens]), 2)
    law = sequential_law(sample, expected, alpha=ALPHA, effect=EFFECT_OF_RUNS)
    what = f"chi-square of the outputs of {law.sample_size} seeds, prompt {list(prompt)}, {config}, {model}"
    reported = f"{law.statistic:.1f}, p = {law.p_value:.1e}"
    require(law.verdict != "differs", what, reported, f"one of chance above {ALPHA:.0e}")


def sampled_requests_come_back_in_chunks(backend: Backend, scenario: Scenario) -> None:
    """A request that lost its slots computes its text again in chunks, which end inside of its former output, too.

    What it has output stays, and both caches have the entries of its own tokens.
    """
    play = Play(scenario, backend)
    known: dict[int, list[int]] = {}
    for _ in play.turns(checks_ledger=True):
        scheduler, state = play.engine.scheduler, play.worker.state()
        _report_resumed(scheduler.holders)
        for request in play.requests:
            before = known.get(request.request_id, [])
            kept = request.output[: len(before)]
            require(kept == before, f"output of request {request.request_id} after a retraction", kept, before)
            known[request.request_id] = list(request.output)
        for request in scheduler.running:
            check_texts(tagged_pools(backend), state, scenario.model, request)
        for request in [*scheduler.running]:
            if not request.num_retractions and len(request.output) > 2 * SHORT_CHUNK:
                scheduler.retract(request)
    for request in play.requests:
        require(len(request.output) == request.max_new_tokens, "output tokens", request.output, request.max_new_tokens)


def _report_resumed(holders: Sequence[Request]) -> None:
    """Report a chunk of a sampled request that has ended inside of its former output."""
    for request in holders:
        is_inside = len(request.prompt) < request.num_committed < request.num_fill - 1
        if is_inside and request.num_retractions and not request.is_greedy:
            reached(Condition.SAMPLED_CHUNK)


SHORT_CHUNK = 2
"""Tokens of a chunk: some chunk of a text that comes back ends in any two tokens of its former output."""


@composite
def lawful_runs(draw: st.DrawFn) -> Scenario:
    """Draw a sampled request over two to four tokens, with or without a greedy neighbour."""
    vocab_size = draw(st.sampled_from((2, 2, 3, 3, 4)))
    prompts = draw(st.lists(_prompts(vocab_size), min_size=1, max_size=2))
    return sampled_scenario(
        draw(st.sampled_from([one for one in TREES if one.topk <= vocab_size])),
        _model(draw, vocab_size),
        prompts,
        (HALVING, *([None] * (len(prompts) - 1))),
        draw(st.sampled_from((2, 3))) if vocab_size == 2 else 2,
        is_v1=draw(st.booleans()),
    )


@composite
def constrained_runs(draw: st.DrawFn) -> Scenario:
    """Draw the same for a request with a grammar that goes on for ever, with or without a processor.

    Three tokens let masks of nodes below the root decide, and a grammar keeps the number of outputs small.
    """
    scenario = draw(lawful_runs())
    vocab_size = scenario.model.vocab_size
    grammar = Automaton(vocab_size, draw(st.integers(3, 4)), 0.6, 1 << 30, draw(st.integers(0, 2**32 - 1)))
    processor = draw(st.sampled_from((None, Shifted(1))))
    scenario = scenario.asking(max_new_tokens=3 if vocab_size < 4 else 2)
    return with_first(scenario, grammar=grammar, processor=processor)


@composite
def seeded_runs(draw: st.DrawFn, most_tokens: int = 32) -> Scenario:
    """Draw a batch in which most requests are sampled, each with parameters and a seed of its own."""
    vocab_size = draw(st.integers(4, most_tokens))
    prompts = draw(st.lists(_prompts(vocab_size), min_size=2, max_size=3))
    tree, model = draw(st.sampled_from(TREES)), _model(draw, vocab_size)
    sampling = [draw(st.one_of(_parameters(), _parameters(), st.none())) for _ in prompts]
    return sampled_scenario(tree, model, prompts, sampling, draw(st.integers(3, 6)), is_v1=draw(st.booleans()))


@composite
def resumed_runs(draw: st.DrawFn) -> Scenario:
    """Draw the same for outputs that are long enough to be interrupted; all but the last request are sampled."""
    scenario = draw(seeded_runs())
    num_tokens = draw(st.integers(10, 14))
    page_size = draw(st.sampled_from((1, 2))) if scenario.config.topk == 1 or not scenario.is_v1 else 1
    *others, last = (replace(one, max_new_tokens=num_tokens) for one in scenario.arrivals)
    arrivals = (*(one if one.sampling else replace(one, sampling=HALVING) for one in others), last)
    return scenario.having(arrivals=arrivals, page_size=page_size, prefill_chunk=max(SHORT_CHUNK, page_size))


def _prompts(vocab_size: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, vocab_size - 1), min_size=1, max_size=4).map(tuple)


def _parameters() -> st.SearchStrategy[SamplingParameters]:
    return st.builds(
        SamplingParameters,
        temperature=st.sampled_from((0.5, 1.0, HALVING_TEMPERATURE, 4.0)),
        top_k=st.sampled_from((2, 5, 2**30)),
        top_p=st.sampled_from((0.85, 1.0)),
        min_p=st.sampled_from((0.0, 0.03)),
        seed=st.integers(0, 2**32 - 1),
    )


def _model(draw: st.DrawFn, vocab_size: int) -> HashModel:
    agreement = draw(st.sampled_from((0.5, 0.9, 1.0)))
    return HashModel(vocab_size, draw(st.integers(0, 2**32 - 1)), agreement)


CONSTRAINED = (*OPERATIONS, "apply_logit_processors", "traverse_tree")

_TAGS = tags_of(Condition.SAMPLED_CHUNK)

PROPERTIES = states_of_runs(
    "sampled_engine",
    # NOTE: where all coins are tried, they are set at a call of the verify, which the reference's loop makes.
    (engine_emits_the_autoregressive_law, lawful_runs, OPERATIONS, "P03", {"plays": ()}),
    (engine_emits_the_law_of_its_grammar, constrained_runs, CONSTRAINED, "P03", {"plays": ()}),
    (sampled_output_follows_its_seed, seeded_runs, OPERATIONS, "P10"),
    (both_workers_sample_alike, seeded_runs, OPERATIONS, "P10"),
    (requests_draw_different_coins, seeded_runs, OPERATIONS, "P09"),
    (sampled_requests_come_back_in_chunks, resumed_runs, OPERATIONS, "P55", {"tags": _TAGS}),
)
