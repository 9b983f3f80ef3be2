"""Whole runs whose iterations verify as many drafts as a budget admits, and what the target and the draft cache get."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.sampling import SamplingParameters
from specsim.operations.protocol import ModelOperations
from specsim.properties.composite import composite
from specsim.properties.laws.support.histories import VOCABULARY, Arrival, Scenario, model_for, models
from specsim.properties.laws.support.numbered_runs import MOST, PatternNumbers
from specsim.properties.laws.support.padded_runs import POOLS, V1_WORKERS, V2_WORKERS, PaddedRun, run_of
from specsim.reference.models.toy_model import KV, ToyModel
from specsim.rejection import SpecRejection, WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.fitting import require_schedule
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.block import FeatureBatch
from specsim.simulation.models.confidence import TOY_HEAD, TableHead
from specsim.simulation.numbers import NumDrafts
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import Budget, Verification, VerifyMode
from specsim.simulation.worker import Iteration, Worker

CHAIN_WORKERS = tuple(name for name in (*V1_WORKERS, *V2_WORKERS) if not name.startswith("ngram"))
"""Every drafter of chains on both loops."""

MODES = (VerifyMode.CAP_ACCEPT, VerifyMode.COMPACT)

HEADS = (TOY_HEAD, TableHead((0.5, 0.9, 0.25, 0.8)), TableHead((0.9, 0.9, 1.0, 0.05, 0.7)))


@dataclass(frozen=True)
class OfSurvivals:
    """A budget of as many drafts as are expected to be accepted, or a part of them."""

    divisor: int

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int:
        """Return the number."""
        return int(sum(map(sum, survivals))) // self.divisor


@dataclass(frozen=True)
class Constant:
    """A budget that does not change; None for all drafts."""

    num_drafts: int | None

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int | None:
        """Return the number."""
        return self.num_drafts


class NotedBudget:
    """Takes the budgets of another one, and notes survivals and budget: an entry an iteration, as they are launched."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.noted: list[tuple[list[list[float]], int | None]] = []

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int | None:
        """Return the budget of an iteration."""
        self.noted.append(([list(one) for one in survivals], self._budget(survivals)))
        return self.noted[-1][1]


class NotedTurns:
    """Takes the numbers of drafts of a pattern, and notes who takes part, by number, and how many each drafts."""

    def __init__(self, pattern: tuple[int, ...]) -> None:
        self._numbers = PatternNumbers(pattern)
        self.noted: list[tuple[list[int], list[int]]] = []

    def __call__(self, requests: Sequence[Request], most: int) -> list[int]:
        """Return the numbers."""
        own = self._numbers(requests, most)
        self.noted.append(([request.request_id for request in requests], own))
        return own


@dataclass
class Seen:
    """What the forwards of a model have been given: rows of verifies, and places of features in the draft cache."""

    verified: list[tuple[Array, Array]] = field(default_factory=list)
    injected: list[tuple[Array, Array]] = field(default_factory=list)


class SeenModel(ToyModel):
    """A toy model that notes positions and slots of what it verifies and of the features that it stores."""

    def __init__(self, inner: ToyModel, operations: ModelOperations[Array], seen: Seen) -> None:
        super().__init__(inner.language_model, operations)
        self.description = inner.description
        self._seen = seen

    def verify(self, batch: TargetBatch[Array], kv: KV, states: KV, scratch: KV) -> TargetOutput[Array]:
        """Note the rows of a verify, and run it."""
        self._seen.verified.append((batch.positions.copy(), batch.out_cache_loc.copy()))
        return super().verify(batch, kv, states, scratch)

    def project_features(self, batch: FeatureBatch[Array], kv: KV) -> None:
        """Note where features go, and store them."""
        self._seen.injected.append((batch.positions.copy(), batch.out_cache_loc.copy()))
        super().project_features(batch, kv)


@dataclass(frozen=True)
class BudgetRun:
    """A run of a worker by its name, with the budget of its iterations; some of its requests may be sampled.

    ``pattern`` has numbers of drafts that requests go through, none for as many as there are.
    """

    run: PaddedRun
    mode: VerifyMode
    budget: Budget
    head: TableHead = TOY_HEAD
    is_overlapped: bool = False
    pattern: tuple[int, ...] = ()
    sampling: tuple[SamplingParameters | None, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """What is asked for."""
        return self.run.scenario

    def requests(self) -> list[Request]:
        """Return fresh requests."""
        asked = self.scenario.requests()
        for request, sampling in zip(asked, self.sampling, strict=False):
            request.sampling = sampling
        return asked

    def schedule(self, budget: Budget | None = None, numbers: NumDrafts | None = None) -> Schedule:
        """Return how the engine is scheduled, with another budget or other numbers if these are given."""
        return Schedule(
            self.is_overlapped,
            stream_seed=self.scenario.shuffle_seed,
            num_drafts=numbers or (PatternNumbers(self.pattern) if self.pattern else None),
            verification=Verification(self.mode, budget or self.budget),
        )

    def own_worker(self, backend: Backend, seen: Seen | None = None) -> Worker:
        """Return the implementation's own worker, or the reference's loop on its operations if it has none.

        What its model gets is noted in ``seen`` where it computes on NumPy's arrays.

        Raises
        ------
        WorkerRefusal
            Its own worker verifies all drafts.
        """
        run = self.run
        operations = Completed(backend, load("specsim.reference"))
        if run.base_name not in backend.workers:
            return run.worker_on(self.model_on(operations, seen), operations=operations)
        model = model_for(backend, self.scenario.model)
        if backend.arrays.KIND == "numpy":
            model = self.model_on(operations, seen)
        else:
            described: Any = model
            described.description = replace(model.description, confidence_head=self.head)
        own: Worker = backend.build_worker(run.base_name, run.parameters, model, run.sizes())
        try:
            require_schedule(own, self.schedule())
        except SpecRejection as refusal:
            raise WorkerRefusal(refusal) from refusal
        return own

    def model_on(self, operations: CallsByName, seen: Seen | None = None) -> ToyModel:
        """Return the model of the run on some operations, with its head of confidences."""
        model = ToyModel(self.scenario.model, operations)
        model.description = replace(model.description, confidence_head=self.head)
        return model if seen is None else SeenModel(model, operations, seen)

    def engine(
        self, backend: Backend, worker: Worker, budget: Budget | None = None, numbers: NumDrafts | None = None
    ) -> Engine:
        """Return an engine with all requests waiting."""
        scenario = self.scenario
        operations = Completed(backend, load("specsim.reference"))
        schedule = self.schedule(budget, numbers)
        engine = Engine(worker, scenario.max_batch, scenario.shuffle_seed, schedule=schedule, operations=operations)
        for request in self.requests():
            engine.submit(request)
        return engine


def played(engine: Engine) -> list[Iteration]:
    """Run an engine to the end and return its iterations."""
    iterations = []
    while engine.has_work:
        iteration = engine.step()
        engine.scheduler.check_ledger()
        if iteration is not None:
            iterations.append(iteration)
    return iterations


BUDGETS: tuple[Budget, ...] = (
    Constant(2),
    OfSurvivals(2),
    Constant(1),
    Constant(4),
    Constant(0),
    OfSurvivals(3),
    Constant(None),
)
"""The first of them are those that cut most runs in the middle of chains."""

_PATTERNS = ((), (MOST, 1), (2, 0, MOST))


@composite
def budget_runs(draw: st.DrawFn, names: tuple[str, ...] = CHAIN_WORKERS) -> BudgetRun:
    """Draw a run of two or three requests that decode together, most of whose drafts are right; some of V2 overlap."""
    name = draw(st.sampled_from(names))
    model = draw(models())
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    scenario = Scenario(
        config=draw(st.sampled_from((SpecConfig(1, 3, 4), SpecConfig(1, 4, 5), SpecConfig(1, 2, 3)))),
        model=draw(st.sampled_from((replace(model, agreement=0.9, num_right=None), model))),
        arrivals=tuple(
            Arrival((number, *prompt), draw(st.integers(10, 14)), None, 0) for number, prompt in enumerate(prompts)
        ),
        max_batch=draw(st.sampled_from((3, 2))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        page_size=draw(st.sampled_from((1, 1, 4))),
    )
    return BudgetRun(
        run_of(name, scenario, draw(st.sampled_from(POOLS))),
        draw(st.sampled_from(MODES)),
        draw(st.sampled_from(BUDGETS)),
        draw(st.sampled_from(HEADS)),
        is_overlapped=name in V2_WORKERS and draw(st.booleans()),
        pattern=draw(st.sampled_from(_PATTERNS)),
    )


def _in_turn(run: BudgetRun) -> BudgetRun:
    return replace(run, is_overlapped=False, pattern=run.pattern or (MOST, MOST, 1))


def budget_runs_in_turn(names: tuple[str, ...] = CHAIN_WORKERS) -> SearchStrategy[BudgetRun]:
    """Return a strategy of such runs whose iterations are seen right after they run, in the mode with fewer rows.

    In each of them some request has fewer drafts than others.
    """
    return budget_runs(names).map(_in_turn).map(partial(replace, mode=VerifyMode.COMPACT))


def block_runs() -> SearchStrategy[BudgetRun]:
    """Return a strategy of such runs of DFLASH."""
    return budget_runs_in_turn(("dflash_v2", "dflash_v2", "dflash"))


@composite
def sampled_budget_runs(draw: st.DrawFn) -> BudgetRun:
    """Draw a run on slots that everything can be sampled from: every second request is, the others are greedy."""
    run = draw(budget_runs())
    sampling = SamplingParameters(
        temperature=draw(st.sampled_from((1.0, 0.5, 2.0))),
        top_k=draw(st.sampled_from((8, 2**30))),
        seed=draw(st.integers(0, 2**31)),
    )
    is_all = draw(st.sampled_from((True, False)))
    return replace(run, sampling=(sampling, replace(sampling, seed=5) if is_all else None, sampling))


def compact_budget_runs() -> SearchStrategy[BudgetRun]:
    """Return a strategy of runs, sampled ones among them, whose target runs over verified rows alone."""
    return st.one_of(sampled_budget_runs(), budget_runs()).map(partial(replace, mode=VerifyMode.COMPACT))
