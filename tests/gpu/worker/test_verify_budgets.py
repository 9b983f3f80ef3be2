"""The device's workers verify within budgets beside the reference's: every phase, and what was verified, agree."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import simulating_graphs
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.drafted import drafted_by
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.ranks.padded_runs import waiting_of
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.steps.laws_budgets import CHAIN_WORKERS
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import FixedBudget, Verification, VerifyMode

CHAIN = SpecConfig(1, 2, 3)
ARRIVALS = tuple(Arrival((number, 7), 6, None, 0) for number in range(3))
MODES = (VerifyMode.CAP_ACCEPT, VerifyMode.COMPACT)
IN_GRAPHS = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")


def run_named(name, page_size=1, pool=PoolKind.MHA):
    scenario = scenario_of(CHAIN, HashModel(32, 3, 0.9), ARRIVALS, 3, 0, page_size=page_size)
    return drafted_by(name, scenario, target_pool=pool)


def workers_of(run, **options):
    """Return the reference's worker and the device's."""
    model = load_on_device(run.model)
    own = loop_of(run.worker_name, "gpu")(run.drafting.sizes, model, run.sizes(), **waiting_of(run), **options)
    return loop_on(run, **waiting_of(run)), own


def schedule_of(mode, budget=2, **options):
    return Schedule(verification=Verification(mode, FixedBudget(budget)), **options)


def asked_of(run):
    plain, *others = run.requests()
    return [replace(plain.fresh(), sampling=SamplingParameters(1.2, seed=3)), *others]


def require_alike(run, schedule, **options):
    """Run both engines in lockstep; every phase has to be the same, and the budget has to hold in both."""
    assert find_divergence(*workers_of(run, **options), asked_of(run), max_batch=3, schedule=schedule) is None


@pytest.mark.parametrize("mode", MODES)
def test_what_was_verified_is_counted_alike(mode):
    run, counted = run_named("eagle_v2"), []
    for worker in workers_of(run, use_graphs=False, pads=True):
        engine = Engine(worker, 3, schedule=schedule_of(mode))
        for request in asked_of(run):
            engine.submit(request)
        engine.run()
        counted.append((engine.verified, [request.output for request in engine.scheduler.finished]))
    assert counted[0] == counted[1]
    assert 0 < counted[0][0].num_verified < counted[0][0].num_drafts


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, MODES[place % 2]) for place, name in enumerate(CHAIN_WORKERS) if not name.startswith("eagle3")],
)
def test_budgets_are_those_of_the_reference(name, mode):
    require_alike(run_named(name, page_size=4), schedule_of(mode), use_graphs=False, pads=True)


@pytest.mark.parametrize(("name", "pool"), [("eagle_v1", PoolKind.SWA), ("eagle_v2", PoolKind.HYBRID)])
def test_windows_and_recurrent_states_follow_ragged_rows(name, pool):
    require_alike(run_named(name, pool=pool), schedule_of(VerifyMode.COMPACT), use_graphs=False)


@pytest.mark.parametrize("mode", MODES)
def test_budgets_and_numbers_of_drafts_go_together(mode):
    numbers = PatternNumbers((MOST, 1, 0))
    require_alike(run_named("eagle_v2"), schedule_of(mode, num_drafts=numbers), use_graphs=False, pads=True)


def test_a_budget_of_none_verifies_everything():
    schedule = Schedule(verification=Verification(VerifyMode.COMPACT, lambda survivals: None))
    run = run_named("eagle_v2")
    for worker in workers_of(run, use_graphs=False, pads=True):
        engine = Engine(worker, 3, schedule=schedule)
        for request in asked_of(run):
            engine.submit(request)
        engine.run()
        assert engine.verified.num_verified == engine.verified.num_drafts > 0


def test_budgets_replay():
    """Captured as a CUDA graph would be: what changes between replays is read where batches are loaded."""
    with simulating_graphs():
        require_alike(run_named("eagle_v2"), schedule_of(VerifyMode.COMPACT), use_graphs=True)


@IN_GRAPHS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHAIN_WORKERS)
def test_budgets_in_graphs_are_those_of_the_reference(name, mode):
    require_alike(run_named(name, page_size=4), schedule_of(mode), use_graphs=True)
