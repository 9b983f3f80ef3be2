"""Sampled decoding end to end: the engine emits exactly the law of decoding token by token, and follows its seeds."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.acceptance import Acceptance
from specsim.host.logit_rules import LogitRules
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.distribution import NOTHING, Outcome, Row, autoregressive, require_same_law
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.constrained_runs import Automaton, Shifted
from specsim.properties.laws.support.frequencies import sequential_law
from specsim.properties.laws.support.histories import build_worker, loop_on, parts_of, tagged_pools
from specsim.properties.laws.support.sampled_law import HALVING
from specsim.properties.laws.support.sampled_runs import Watched, law_of_runs
from specsim.properties.laws.support.sampling_cells import slack_from_logits
from specsim.properties.laws.worker import check_tags, expected_tags
from specsim.properties.property import OF_EAGLE
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.strategies.logit_scenes import HALVING_TEMPERATURE
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.worker import Worker

OPERATIONS = ("generate_coins", "hash_sampling_logits", "verify_tree_sampled_from_logits")
TREES = (SpecConfig(1, 1, 2), SpecConfig(1, 2, 3), SpecConfig(2, 1, 3), SpecConfig(2, 2, 4), SpecConfig(2, 2, 5))


@dataclass(frozen=True)
class SampledRun:
    """Requests of one engine, whose worker accepts drafts by some rule; ``sampling`` has None for a greedy one."""

    config: SpecConfig
    model: HashModel
    prompts: tuple[tuple[int, ...], ...]
    sampling: tuple[SamplingParameters | None, ...]
    num_tokens: int
    is_v1: bool = False
    processor: Shifted | None = None
    grammar: Automaton | None = None
    rules: LogitRules | None = None
    acceptance: Acceptance = Acceptance.TOKEN
    page_size: int = 1
    is_overlapped: bool = False

    def requests(self) -> list[Request]:
        """Return fresh requests, numbered in order; the first has the processor, the grammar and the rules."""
        pairs = zip(self.prompts, self.sampling, strict=True)
        asked = [Request(number, prompt, self.num_tokens, sampling=one) for number, (prompt, one) in enumerate(pairs)]
        asked[0].processor, asked[0].logit_rules = self.processor, self.rules
        asked[0].grammar = None if self.grammar is None else self.grammar.start
        return asked


ALPHA, EFFECT_OF_RUNS, SEEDS_IN_A_BATCH = 1e-9, 0.4, 32
"""The chance of a false alarm, Cohen's w that has to be noticed, and sampled requests that run together."""

MakeWorker = Callable[[SampledRun, PoolSizes], Worker]


def loops_on(operations: CallsByName) -> MakeWorker:
    """Return what makes the reference's loops on some operations."""
    return lambda run, sizes: loop_on(operations, run.config, run.model, sizes, run.is_v1, run.acceptance)


def workers_of(backend: Backend) -> MakeWorker:
    """Return what makes the workers of an implementation."""
    return lambda run, sizes: build_worker(backend, run.config, run.model, sizes, run.is_v1, run.acceptance)


def decode(
    make: MakeWorker,
    operations: CallsByName,
    run: SampledRun,
    max_batch: int,
    order: Sequence[int] | None = None,
    schedule: Schedule = IN_TURN,
) -> dict[int, Request]:
    """Run an engine of some operations to its end and return the requests by number."""
    engine, requests = _engine_of(make, operations, run, max_batch, schedule)
    for number in range(len(requests)) if order is None else order:
        engine.submit(requests[number])
    return {request.request_id: request for request in engine.run()}


def _engine_of(
    make: MakeWorker, operations: CallsByName, run: SampledRun, max_batch: int, schedule: Schedule
) -> tuple[Engine, list[Request]]:
    """Return an engine of some operations without requests, and those of a run."""
    requests = run.requests()
    schedule = replace(schedule, is_overlapped=run.is_overlapped, stream_seed=run.model.seed)
    worker = make(run, sizes_for(run.config, requests, max_batch, run.page_size, schedule=schedule))
    return Engine(worker, max_batch, shuffle_seed=1, schedule=schedule, operations=operations), requests


def engine_emits_the_autoregressive_law(backend: Backend, run: SampledRun) -> None:
    """Over all coins a request emits exactly the law of decoding token by token; greedy neighbours stay as they are."""
    require_autoregressive_law(backend, run)


def require_autoregressive_law(backend: Backend, run: SampledRun, schedule: Schedule = IN_TURN) -> None:
    """Raise AssertionError unless the first request of a run emits that law, however the run is scheduled."""
    operations = Completed(backend, load("specsim.reference"))
    slack = slack_from_logits(run.model.vocab_size)
    law = law_of_runs(operations, lambda watched: emitted(watched, run, schedule), slack)
    prompt = run.prompts[0]

    def row_after(tokens: Outcome) -> Row:
        return constrained_shares(run, next_shares(run.model, [*prompt, *tokens]), tokens)

    what = f"law of prompt {list(prompt)}, {run.config}, {run.model}"
    require_same_law(what, law, autoregressive(row_after, run.num_tokens))


def engine_emits_the_law_of_its_grammar(backend: Backend, run: SampledRun) -> None:
    """The same under a processor and a grammar: every step draws among the tokens that the grammar still allows."""
    engine_emits_the_autoregressive_law(backend, run)


def constrained_shares(run: SampledRun, shares: Row, tokens: Outcome) -> Row:
    """Return the distribution after some output, shifted by the processor and cut to what the grammar allows."""
    if run.processor is not None:
        shares = tuple(shares[(token - run.processor.count) % len(shares)] for token in range(len(shares)))
    if run.grammar is None:
        return shares
    matcher = run.grammar.start()
    for token in tokens:
        matcher.accept(token)
    is_allowed = matcher.transitions[matcher.state] >= 0
    kept = [share if allowed else NOTHING for share, allowed in zip(shares, is_allowed.tolist(), strict=True)]
    total = sum(kept, NOTHING)
    return tuple(share / total for share in kept)


def emitted(operations: Watched, run: SampledRun, schedule: Schedule = IN_TURN) -> Outcome:
    """Return what the first request emits, and check what the greedy others do."""
    done = decode(loops_on(operations), operations, run, len(run.prompts), schedule=schedule)
    for number in range(1, len(run.prompts)):
        expected = greedy_decode(run.model, run.prompts[number], run.num_tokens)
        got = done[number].output
        require(got == expected, f"output of greedy request {number} beside a sampled one", got, expected)
    return tuple(done[0].output)


def sampled_output_follows_its_seed(backend: Backend, run: SampledRun) -> None:
    """A seeded request emits the same alone, in any batch and order, in a batch of another size, and once more."""
    make, parts = workers_of(backend), parts_of(backend)
    count = len(run.prompts)
    together = decode(make, parts, run, count)
    others = [
        ("once more", decode(make, parts, run, count)),
        ("in reversed order", decode(make, parts, run, count, range(count)[::-1])),
        ("in batches of one", decode(make, parts, run, 1)),
    ]
    for how, done in others:
        for number, request in done.items():
            got, expected = request.output, together[number].output
            require(got == expected, f"output of request {number} {how}", got, expected)


def both_workers_sample_alike(backend: Backend, run: SampledRun) -> None:
    """For the same seeds V1 and V2 emit the same tokens."""
    make, parts = workers_of(backend), parts_of(backend)
    of_v2, of_v1 = (decode(make, parts, replace(run, is_v1=is_v1), len(run.prompts)) for is_v1 in (False, True))
    for number, request in of_v1.items():
        require(
            request.output == of_v2[number].output,
            f"V1's output of request {number}",
            request.output,
            of_v2[number].output,
        )


def requests_draw_different_coins(backend: Backend, run: SampledRun) -> None:
    """Requests of one prompt and different seeds do not all emit the same.

    Where drafts are the implementation's own they emit each text as often as decoding token by token does: no run of
    the reference has the same coins.
    """
    count = 6
    alike = replace(
        run,
        prompts=(run.prompts[0],) * count,
        sampling=tuple(replace(HALVING, seed=seed) for seed in range(count)),
        num_tokens=4,
    )
    outputs = {
        tuple(request.output) for request in decode(workers_of(backend), parts_of(backend), alike, count).values()
    }
    require(len(outputs) > 1, f"different outputs of {count} seeds", len(outputs), "more than one")
    if backend.limits.has_own_drafts:
        require_frequencies_of_seeds(backend, run)


def require_frequencies_of_seeds(backend: Backend, run: SampledRun) -> None:
    """Raise AssertionError if what an implementation's workers emit for many seeds contradicts the exact law."""
    vocab_size, count, number = 3, SEEDS_IN_A_BATCH, run.model.seed % 2**16
    prompt = tuple(token % vocab_size for token in run.prompts[0])
    config = run.config if run.config.topk <= vocab_size else TREES[0]
    model = HashModel(vocab_size, run.model.seed, run.model.agreement)

    def sample(most: int, look: int) -> Counter[Outcome]:
        found = Counter[Outcome]()
        for start in range(0, most, count):
            first = number + (look << 20) + start
            seeds = range(first, first + min(count, most - start))
            sampling = tuple(replace(HALVING, seed=seed) for seed in seeds)
            alike = SampledRun(config, model, (prompt,) * len(seeds), sampling, 2, run.is_v1)
            done = decode(workers_of(backend), parts_of(backend), alike, count)
            found.update(tuple(request.output) for request in done.values())
        return found

    expected = autoregressive(lambda tokens: next_shares(model, [*prompt, *tokens]), 2)
    law = sequential_law(sample, expected, alpha=ALPHA, effect=EFFECT_OF_RUNS)
    what = f"chi-square of the outputs of {law.sample_size} seeds, prompt {list(prompt)}, {config}, {model}"
    reported = f"{law.statistic:.1f}, p = {law.p_value:.1e}"
    require(law.verdict != "differs", what, reported, f"one of chance above {ALPHA:.0e}")


def sampled_requests_come_back_in_chunks(backend: Backend, run: SampledRun) -> None:
    """A request that lost its slots computes its text again in chunks, which end inside of its former output, too.

    What it has output stays, and both caches have the entries of its own tokens.
    """
    schedule = Schedule(prefill_chunk=max(SHORT_CHUNK, run.page_size))
    engine, requests = _engine_of(workers_of(backend), parts_of(backend), run, len(run.prompts), schedule)
    for request in requests:
        engine.submit(request)
    known: dict[int, list[int]] = {}
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
        _report_resumed(engine)
        for request in requests:
            before = known.get(request.request_id, [])
            kept = request.output[: len(before)]
            require(kept == before, f"output of request {request.request_id} after a retraction", kept, before)
            known[request.request_id] = list(request.output)
        state = engine.worker.state()
        for request in engine.scheduler.running:
            for name, tags in zip(tagged_pools(backend), expected_tags(run.model, request.fill), strict=False):
                check_tags(name, state[name], request, tags)
        for request in [*engine.scheduler.running]:
            if not request.num_retractions and len(request.output) > 2 * SHORT_CHUNK:
                engine.scheduler.retract(request)
    for request in requests:
        require(len(request.output) == run.num_tokens, "output tokens", len(request.output), run.num_tokens)


def _report_resumed(engine: Engine) -> None:
    """Report a chunk of a sampled request that has ended inside of its former output."""
    for request in engine.scheduler.holders:
        is_inside = len(request.prompt) < request.num_committed < request.num_fill - 1
        if is_inside and request.num_retractions and not request.is_greedy:
            reached(Condition.SAMPLED_CHUNK)


SHORT_CHUNK = 2
"""Tokens of a chunk: some chunk of a text that comes back ends in any two tokens of its former output."""


@composite
def lawful_runs(draw: st.DrawFn) -> SampledRun:
    """Draw a sampled request over two to four tokens, with or without a greedy neighbour."""
    vocab_size = draw(st.sampled_from((2, 2, 3, 3, 4)))
    prompts = draw(st.lists(_prompts(vocab_size), min_size=1, max_size=2))
    return SampledRun(
        config=draw(st.sampled_from([one for one in TREES if one.topk <= vocab_size])),
        model=_model(draw, vocab_size),
        prompts=tuple(prompts),
        sampling=(HALVING, *([None] * (len(prompts) - 1))),
        num_tokens=draw(st.sampled_from((2, 3))) if vocab_size == 2 else 2,
        is_v1=draw(st.booleans()),
    )


@composite
def constrained_runs(draw: st.DrawFn) -> SampledRun:
    """Draw the same for a request with a grammar that goes on for ever, with or without a processor.

    Three tokens let masks of nodes below the root decide, and a grammar keeps the number of outputs small.
    """
    run = draw(lawful_runs())
    grammar = Automaton(run.model.vocab_size, draw(st.integers(3, 4)), 0.6, 1 << 30, draw(st.integers(0, 2**32 - 1)))
    return replace(
        run,
        grammar=grammar,
        processor=draw(st.sampled_from((None, Shifted(1)))),
        num_tokens=3 if run.model.vocab_size < 4 else 2,
    )


@composite
def seeded_runs(draw: st.DrawFn, most_tokens: int = 32) -> SampledRun:
    """Draw a batch in which most requests are sampled, each with parameters and a seed of its own."""
    vocab_size = draw(st.integers(4, most_tokens))
    prompts = draw(st.lists(_prompts(vocab_size), min_size=2, max_size=3))
    return SampledRun(
        config=draw(st.sampled_from(TREES)),
        model=_model(draw, vocab_size),
        prompts=tuple(prompts),
        sampling=tuple(draw(st.one_of(_parameters(), _parameters(), st.none())) for _ in prompts),
        num_tokens=draw(st.integers(3, 6)),
        is_v1=draw(st.booleans()),
    )


@composite
def resumed_runs(draw: st.DrawFn) -> SampledRun:
    """Draw the same for outputs that are long enough to be interrupted; all but the last request are sampled."""
    run = draw(seeded_runs())
    sampling = [HALVING if one is None else one for one in run.sampling[:-1]]
    return replace(
        run,
        sampling=(*sampling, run.sampling[-1]),
        num_tokens=draw(st.integers(10, 14)),
        page_size=draw(st.sampled_from((1, 2))) if run.config.topk == 1 or not run.is_v1 else 1,
    )


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

PROPERTIES = (
    # NOTE: where all coins are tried, they are set at a call of the verify, which the reference's loop makes.
    *(
        state_of_runs(
            "sampled_engine", law, strategy, called, catalogue, plays=OF_EAGLE if strategy is seeded_runs else ()
        )
        for law, strategy, catalogue, called in (
            (engine_emits_the_autoregressive_law, lawful_runs, "P03", OPERATIONS),
            (engine_emits_the_law_of_its_grammar, constrained_runs, "P03", CONSTRAINED),
            (sampled_output_follows_its_seed, seeded_runs, "P10", OPERATIONS),
            (both_workers_sample_alike, seeded_runs, "P10", OPERATIONS),
            (requests_draw_different_coins, seeded_runs, "P09", OPERATIONS),
        )
    ),
    state_of_runs(
        "sampled_engine",
        sampled_requests_come_back_in_chunks,
        resumed_runs,
        OPERATIONS,
        "P55",
        tags=tags_of(Condition.SAMPLED_CHUNK),
    ),
)
