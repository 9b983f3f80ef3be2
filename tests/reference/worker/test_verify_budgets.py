"""Iterations verify as many drafts as a budget admits, whatever drafts, on both loops and in both modes."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.host.budget import StepRates
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.drafted import drafted_by
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.steps.laws_budgets import CHAIN_WORKERS
from specsim.reference.models import load_model
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.confidence import TableHead
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.numbers import DrawnNumbers
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import FixedBudget, PricedBudget, Verification, VerifyMode

CHAIN = SpecConfig(1, 3, 4)
MODEL = HashModel(32, 7, 0.8, None, None, 2, 1)
ARRIVALS = tuple(Arrival((number, 7, 1), 14, None, 0) for number in range(4))
MODES = (VerifyMode.CAP_ACCEPT, VerifyMode.COMPACT)
MOST_IN_A_BATCH = 3
SAMPLED = SamplingParameters(temperature=0.9, seed=11)


class Noted:
    """A budget that keeps what it was given."""

    def __init__(self, budget):
        self.budget, self.noted = budget, []

    def __call__(self, survivals):
        self.noted.append([*map(list, survivals)])
        return self.budget(survivals)


def engine_of(name, mode, budget, model=MODEL, config=CHAIN, head=None, **options):
    """Return an engine without requests, and what its worker is run on."""
    run = drafted_by(name, scenario_of(config, model, ARRIVALS, MOST_IN_A_BATCH, 4, head=head))
    verification = Verification(mode, budget)
    return Engine(loop_on(run), MOST_IN_A_BATCH, 4, schedule=Schedule(verification=verification, **options)), run


def played(engine, run, sampling=None):
    """Run all requests of an engine and return every iteration and the requests."""
    for request in run.requests():
        request.sampling = None if sampling is None else replace(sampling, seed=sampling.seed + request.request_id)
        engine.submit(request)
    iterations = []
    while engine.has_work:
        iterations.append(engine.step())
        engine.scheduler.check_ledger()
    return [one for one in iterations if one is not None], sorted(
        engine.scheduler.finished, key=lambda one: one.request_id
    )


def require_lossless(run, done):
    for request in done:
        assert request.output == greedy_decode(run.model, request.prompt, request.max_new_tokens)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "pool"),
    [(name, PoolKind.MHA) for name in CHAIN_WORKERS]
    + [(name, pool) for name in ("eagle_v1", "dflash_v2") for pool in (PoolKind.SWA, PoolKind.HYBRID)],
)
def test_every_drafter_decodes_the_same_within_a_budget(name, mode, pool):
    model = replace(MODEL, target_pool=pool)
    for budget in (0, 4):
        engine, run = engine_of(name, mode, FixedBudget(budget), model)
        iterations, done = played(engine, run)
        require_lossless(run, done)
        assert all(sum(one.verified.num_verified_drafts()) <= budget for one in iterations)
        assert engine.verified.num_verified == sum(sum(one.verified.num_verified_drafts()) for one in iterations)
        assert (engine.verified.num_verified > 0) == (budget > 0)
        assert engine.verified.num_accepted_drafts <= engine.verified.num_verified <= engine.verified.num_drafts


@pytest.mark.parametrize("sampling", [None, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("options", [{}, {"is_overlapped": True, "stream_seed": 5}], ids=["in turn", "overlapped"])
def test_modes_agree_token_by_token(options, sampling):
    name = "eagle_v2"
    runs = [played(*engine_of(name, mode, FixedBudget(4), **options), sampling) for mode in MODES]
    (capped, capped_done), (compact, compact_done) = runs
    assert [one.output for one in capped_done] == [one.output for one in compact_done]
    for one, other in zip(capped, compact, strict=True):
        assert one.num_accepted_drafts.tolist() == other.num_accepted_drafts.tolist()
        assert one.verified.verify_lens.tolist() == other.verified.verify_lens.tolist()
        assert not other.verified.trim.any()
    assert any(one.verified.trim.any() for one in capped)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["eagle_v1", "eagle_v2", "dflash_v2"])
def test_budgets_and_numbers_of_drafts_go_together(name, mode):
    engine, run = engine_of(name, mode, FixedBudget(3), num_drafts=DrawnNumbers(3))
    _, done = played(engine, run)
    require_lossless(run, done)
    assert 0 < engine.verified.num_verified < engine.verified.num_drafts


@pytest.mark.parametrize("mode", MODES)
def test_without_a_budget_all_drafts_are_verified(mode):
    engine, run = engine_of("eagle_v2", mode, lambda survivals: None)
    _, done = played(engine, run)
    require_lossless(run, done)
    assert engine.verified.num_verified == engine.verified.num_drafts
    assert engine.verified.num_trimmed == 0


def test_accepted_and_trimmed_drafts_are_those_of_a_run_without_a_budget():
    engine, run = engine_of("eagle_v2", VerifyMode.CAP_ACCEPT, FixedBudget(0), replace(MODEL, agreement=1.0))
    played(engine, run)
    assert engine.verified.num_accepted_drafts == engine.verified.num_verified == 0
    assert engine.verified.num_trimmed == engine.verified.num_drafts > 0


@pytest.mark.parametrize(("overlaps", "lag"), [(False, 1), (True, 2)])
def test_a_budget_reads_the_survivals_of_earlier_results(overlaps, lag):
    """In turn those of the iteration before; overlapped, that has not come yet, and those of the one before it."""
    budget = Noted(FixedBudget(4))
    engine, run = engine_of("eagle_v2", VerifyMode.COMPACT, budget, is_overlapped=overlaps)
    run = run.having(arrivals=ARRIVALS[:1])
    iterations, _ = played(engine, run)
    survivals = [one.verified.survivals().tolist() for one in iterations]
    expected = [[[1.0] * CHAIN.num_steps]] * lag + survivals
    assert budget.noted == expected[: len(budget.noted)]
    assert len(budget.noted) > lag + 1


def test_a_request_that_was_retracted_starts_with_ones():
    budget = Noted(FixedBudget(4))
    engine, run = engine_of("eagle_v2", VerifyMode.COMPACT, budget)
    (request, *_) = run.requests()
    engine.submit(request)
    for _ in range(3):
        engine.step()
    before = len(budget.noted)
    engine.scheduler.retract(request)
    engine.step()
    engine.step()
    assert budget.noted[before] == [[1.0] * CHAIN.num_steps]


def test_a_budget_may_follow_costs():
    """Three requests of certain drafts are verified whole where rows cost nothing, and not at all where they do."""
    sure = TableHead((1.0,))
    for rates, is_verified in (((1.0, 1.0), True), ((1.0, 1e-3), False)):
        costs = StepRates((1, 4), rates)
        engine, run = engine_of("eagle_v2", VerifyMode.COMPACT, PricedBudget(costs), head=sure)
        _, done = played(engine, run)
        require_lossless(run, done)
        assert (engine.verified.num_verified == engine.verified.num_drafts) == is_verified


def test_trees_other_workers_and_models_without_confidence_are_refused():
    with pytest.raises(SpecRejection, match="topk is above 1") as refusal:
        engine_of("eagle_v2", VerifyMode.COMPACT, FixedBudget(1), config=SpecConfig(2, 2, 5))
    assert refusal.value.reason is Reason.BAD_CONFIGURATION
    with pytest.raises(SpecRejection, match="does not say schedules_verify"):
        engine_of("ngram_v2", VerifyMode.COMPACT, FixedBudget(1))
    run = scenario_of(CHAIN, MODEL, ARRIVALS, 2, 4)
    loaded = load_model(MODEL)
    loaded.description = replace(loaded.description, confidence_head=None)
    worker = loop_of("eagle_v2")(CHAIN, loaded, run.sizes())
    with pytest.raises(SpecRejection, match="no head"):
        Engine(worker, 2, schedule=Schedule(verification=Verification(VerifyMode.COMPACT, FixedBudget(1))))
    with pytest.raises(SpecRejection, match="verify budget is -1") as refusal:
        FixedBudget(-1)
    assert refusal.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_reports_cover_what_was_verified():
    """Log-probabilities, penalties and grammars see the rows of accepted drafts alone, in either mode."""
    outputs = []
    for mode in MODES:
        engine, run = engine_of("eagle_v2", mode, FixedBudget(3))
        for number, arrival in enumerate(ARRIVALS):
            engine.submit(Request(number, arrival.prompt, 10, top_logprobs=2, returns_hidden_states=True))
        done = engine.run()
        outputs.append([(one.output, one.logprobs, one.hidden_states) for one in done])
        require_lossless(run, done)
    assert outputs[0] == outputs[1]
