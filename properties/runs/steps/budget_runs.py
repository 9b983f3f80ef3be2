"""Whole runs whose iterations verify as many drafts as a budget admits, and what the target and the draft cache get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.host.sampling import SamplingParameters
from specsim.operations.protocol import ModelOperations
from specsim.properties.composite import composite
from specsim.properties.runs.drafted import ALL_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.ranks.padded_runs import POOLS
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers
from specsim.reference.models.toy_model import KV, ToyModel
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.block import FeatureBatch
from specsim.simulation.models.confidence import TOY_HEAD, TableHead
from specsim.simulation.verification import Budget, Verification, VerifyMode

CHAIN_WORKERS = tuple(name for name in ALL_WORKERS if not name.startswith("ngram"))
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

    @classmethod
    def wrapping(cls, operations: ModelOperations[Array], seen: Seen) -> Callable[[Any], Any]:
        """Return what makes it of toy models, and leaves others as they are."""
        return lambda model: cls(model, operations, seen) if isinstance(model, ToyModel) else model

    def verify(self, batch: TargetBatch[Array], kv: KV, states: KV, scratch: KV) -> TargetOutput[Array]:
        """Note the rows of a verify, and run it."""
        self._seen.verified.append((batch.positions.copy(), batch.out_cache_loc.copy()))
        return super().verify(batch, kv, states, scratch)

    def project_features(self, batch: FeatureBatch[Array], kv: KV) -> None:
        """Note where features go, and store them."""
        self._seen.injected.append((batch.positions.copy(), batch.out_cache_loc.copy()))
        super().project_features(batch, kv)


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

AMPLE_BUDGETS: tuple[Budget, ...] = (Constant(4), Constant(None))
"""Budgets that often exceed what requests with few drafts have, so that their own numbers cut them."""

_PATTERNS = (None, PatternNumbers((MOST, 1)), PatternNumbers((2, 0, MOST)))


@composite
def budget_runs(
    draw: st.DrawFn, names: tuple[str, ...] = CHAIN_WORKERS, budgets: tuple[Budget, ...] = BUDGETS
) -> Scenario:
    """Draw a run of two or three requests that decode together, most of whose drafts are right; some of V2 overlap."""
    name = draw(st.sampled_from(names))
    model = draw(models())
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    scenario = scenario_of(
        draw(st.sampled_from((SpecConfig(1, 3, 4), SpecConfig(1, 4, 5), SpecConfig(1, 2, 3)))),
        draw(st.sampled_from((replace(model, agreement=0.9, num_right=None), model))),
        [Arrival((number, *prompt), draw(st.integers(10, 14))) for number, prompt in enumerate(prompts)],
        max_batch=draw(st.sampled_from((3, 2))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        page_size=draw(st.sampled_from((1, 1, 4))),
    )
    return drafted_by(
        name,
        scenario,
        target_pool=draw(st.sampled_from(POOLS)),
        verification=Verification(draw(st.sampled_from(MODES)), draw(st.sampled_from(budgets))),
        head=draw(st.sampled_from(HEADS)),
        is_overlapped=name in V2_WORKERS and draw(st.booleans()),
        num_drafts=draw(st.sampled_from(_PATTERNS)),
        stream_seed=scenario.room.shuffle_seed,
    )


def in_mode(mode: VerifyMode, scenario: Scenario) -> Scenario:
    """Return the same run whose iterations do something else with drafts that are not admitted."""
    return scenario.having(verification=Verification(mode, budget_of(scenario)))


def budget_of(scenario: Scenario) -> Budget:
    """Return what chooses how many drafts are verified."""
    return require_present("verification", scenario.schedule.verification).budget


def _in_turn(scenario: Scenario) -> Scenario:
    numbers = scenario.schedule.num_drafts or PatternNumbers((MOST, MOST, 1))
    return in_mode(VerifyMode.COMPACT, scenario.having(is_overlapped=False, num_drafts=numbers))


def budget_runs_in_turn(names: tuple[str, ...] = CHAIN_WORKERS) -> SearchStrategy[Scenario]:
    """Return a strategy of such runs whose iterations are seen right after they run, in the mode with fewer rows.

    In each of them some request has fewer drafts than others, and more than half of the budgets are ample.
    """
    return budget_runs(names, (*BUDGETS, *AMPLE_BUDGETS, *AMPLE_BUDGETS)).map(_in_turn)


def block_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of such runs of DFLASH."""
    return budget_runs_in_turn(("dflash_v2", "dflash_v2", "dflash"))


@composite
def sampled_budget_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run on slots that everything can be sampled from: every second request is, the others are greedy."""
    run = draw(budget_runs())
    sampling = SamplingParameters(
        temperature=draw(st.sampled_from((1.0, 0.5, 2.0))),
        top_k=draw(st.sampled_from((8, 2**30))),
        seed=draw(st.integers(0, 2**31)),
    )
    is_all = draw(st.sampled_from((True, False)))
    samplings = (sampling, replace(sampling, seed=5) if is_all else None, sampling)
    pairs = zip(run.arrivals, samplings, strict=False)
    return run.having(arrivals=tuple(replace(one, sampling=of_one) for one, of_one in pairs))


def compact_budget_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of runs, sampled ones among them, whose target runs over verified rows alone."""
    return st.one_of(sampled_budget_runs(), budget_runs()).map(partial(in_mode, VerifyMode.COMPACT))
