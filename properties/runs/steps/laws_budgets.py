"""Laws of whole runs that verify within budgets: no output depends on what is verified, nor on rows after a cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.host.sampling import SamplingParameters
from specsim.operations.protocol import ModelOperations
from specsim.phases import VerifyInput
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_equal, require_present, states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.drafted import ALL_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.ranks.padded_runs import POOLS
from specsim.properties.runs.sampling.laws_sampled import engine_emits_the_autoregressive_law, lawful_runs
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers, crowds
from specsim.reference.models.toy_model import KV, ToyModel
from specsim.reference.scheduled import schedule_verify_lens
from specsim.reference.worker import arrays
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.block import FeatureBatch
from specsim.simulation.models.confidence import TOY_HEAD, TableHead
from specsim.simulation.verification import Budget, Verification, VerifyMode
from specsim.simulation.worker import Iteration

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
    *(Constant(2), OfSurvivals(2), Constant(1), Constant(4)),
    *(Constant(0), OfSurvivals(3), Constant(None)),
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
    scenario = draw(crowds((SpecConfig(1, 3, 4), SpecConfig(1, 4, 5), SpecConfig(1, 2, 3)), 0.9, 10, 14))
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


SCATTER = "scatter_compact_to_strided"
CUT = ("schedule_verify_lens", "cap_accepted_drafts")
WINDOW = ("ragged_verify_window", "pad_verify_lens_to_bucket", "ragged_verify_metadata", SCATTER)


def budgets_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """Outputs are those of plain decoding at every budget; nothing is accepted that was not verified."""
    Play(scenario, backend).run(checks_ledger=True).require_outputs()


def both_modes_output_the_same(backend: Backend, scenario: Scenario) -> None:
    """By the same coins every iteration admits, accepts and outputs the same, whether all rows are run or few."""
    plays = [Play(in_mode(mode, scenario), backend) for mode in MODES]
    for got in _require_same_iterations("compact", *plays):
        require(not require_present("verified", got.verified).trim.any(), "drafts known to be lost", "some", "none")


def rows_after_the_cut_decide_nothing(backend: Backend, scenario: Scenario) -> None:
    """Iterations return the same, whatever stands where no row was computed."""
    operations = parts_of(backend)
    plays = [Play(scenario, operations=one) for one in (operations, Poisoned(operations))]
    _require_same_iterations("poisoned", *plays)


def verifies_are_those_of_earlier_budgets(backend: Backend, scenario: Scenario) -> None:
    """Each request verifies the first rows of its window, as many as the confidences and an earlier budget admit.

    A budget has been given the survivals of the iteration before, and ones for requests that had none.
    """
    seen = Seen()
    play = Play(scenario, backend, wrap=SeenModel.wrapping(parts_of(backend), seen))
    known, head = dict[int, list[float]](), require_present("head", scenario.drafting.head)
    for number, iteration in enumerate(play.iterations()):
        ((requests, _), own_steps), ((given,), drafts) = play.numbers.calls[number], play.budgets.calls[number]
        ids = [request.request_id for request in requests]
        phase, verified = play.last_verify_input(), require_present("verified", iteration.verified)
        ones = [1.0] * scenario.config.num_steps
        expected = [tuple(known.get(one, ones)) for one in ids]
        read = [*map(tuple, given)]
        require(read == expected, f"survivals that the budget of iteration {number} reads", read, expected)
        width = phase.num_draft_tokens
        confidence = head(phase.draft_token.reshape(-1, width), arrays)
        require_equal(f"confidence of iteration {number}", verified.confidence, confidence)
        counts = np.array(own_steps, dtype=np.int32)
        lengths = counts + np.int32(1)
        if drafts is not None:
            lengths = schedule_verify_lens(confidence, counts, None, drafts, width)
        require_equal(f"verify_lens of iteration {number}", verified.verify_lens, lengths)
        if seen.verified:
            _require_rows(f"iteration {number}", *seen.verified[number], phase, lengths)
        survivals = verified.survivals().tolist()
        known = dict(zip(ids, survivals, strict=True))


def features_of_committed_rows_alone_are_stored(backend: Backend, scenario: Scenario) -> None:
    """What a verify stores in the draft cache is the root and the accepted drafts of each request, each in its slot."""
    seen = Seen()
    play = Play(scenario, backend, wrap=SeenModel.wrapping(parts_of(backend), seen))
    counted = 0, 0
    for iteration in play.turns():
        before, counted = counted, (len(seen.verified), len(seen.injected))
        if iteration is None or before[0] == counted[0] or before[1] == counted[1]:
            continue
        phase = play.last_verify_input()
        positions, slots = (values[seen.injected[-1][1] > 0] for values in seen.injected[-1])
        width, lengths = phase.num_draft_tokens, phase.seq_lens.tolist()
        committed = list(zip(lengths, iteration.num_accepted_tokens.tolist(), strict=True))
        expected = [length + place for length, count in committed for place in range(count)]
        require_equal("positions whose features are stored", positions, expected)
        own = phase.out_cache_loc.reshape(-1, width)
        kept = [own[place, :count] for place, (_, count) in enumerate(committed)]
        require_equal("slots whose features are stored", slots, np.concatenate(kept))


def budgets_keep_the_autoregressive_law(backend: Backend, scenario: Scenario) -> None:
    """Over all coins a request emits exactly the law of decoding token by token, at every budget and in both modes."""
    engine_emits_the_autoregressive_law(backend, scenario)


@dataclass(frozen=True)
class Poisoned(CallsByName):
    """Operations that leave what no one may rely on where a ragged forward computed no row: huge numbers."""

    operations: CallsByName

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation."""
        value = self.operations.call(name, *positional, **named)
        return _poisoned(value, *positional[1:]) if name == SCATTER else value

    def host(self, name: str) -> Any:
        """Return a function of the host."""
        return self.operations.host(name)


def _poisoned(strided: Array, verify_lens: Array, num_draft_tokens: int) -> Array:
    """Return rows of which those that were not computed hold numbers that no forward has written."""
    rows = strided.reshape(len(verify_lens), num_draft_tokens, -1).copy()
    is_void = np.arange(num_draft_tokens) >= verify_lens[:, None]
    huge = np.random.default_rng(int(verify_lens.sum())).integers(0, 2**32, size=rows.shape)
    rows[is_void] = huge.astype(rows.dtype)[is_void]
    return rows.reshape(strided.shape)


def _require_same_iterations(what: str, expected: Play, tried: Play) -> list[Iteration]:
    """Run two plays; raise AssertionError unless all iterations admitted, accepted and output the same.

    Slots have one owner after each step.
    """
    believed, found = ([one for one in play.turns(checks_ledger=True) if one is not None] for play in (expected, tried))
    require(len(found) == len(believed), f"iterations of the {what} run", len(found), len(believed))
    for number, (got, wanted) in enumerate(zip(found, believed, strict=True)):
        mine, other = (require_present("verified", one.verified) for one in (got, wanted))
        require_equal(f"verify_lens of iteration {number}, {what}", mine.verify_lens, other.verify_lens)
        drafts = got.num_accepted_drafts, wanted.num_accepted_drafts
        require_equal(f"num_accepted_drafts of iteration {number}, {what}", *drafts)
        for request, count in enumerate(wanted.num_accepted_tokens.tolist()):
            tokens = (one.tokens[request, :count] for one in (got, wanted))
            require_equal(f"tokens of request {request} in iteration {number}, {what}", *tokens)
    return found


def _require_rows(what: str, positions: Array, slots: Array, phase: VerifyInput, lengths: Array) -> None:
    """Raise AssertionError unless a forward ran the first rows of each window, and beside them wrote the dump alone."""
    width = phase.num_draft_tokens
    own = [phase.out_cache_loc.reshape(-1, width)[place, :count] for place, count in enumerate(lengths.tolist())]
    places = [length + place for length, count in zip(phase.seq_lens, lengths, strict=True) for place in range(count)]
    total = int(lengths.sum())
    require_equal(f"slots that {what} writes", slots[:total], np.concatenate(own))
    require_equal(f"positions that {what} verifies", positions[:total], places)
    require(not slots[total:].any(), f"slots that padding of {what} writes", slots[total:].tolist(), "the dump")


@composite
def lawful_budgets(draw: st.DrawFn) -> Scenario:
    """Draw a sampled request of a few tokens over chains, with or without a greedy neighbour."""
    verification = Verification(draw(st.sampled_from(MODES)), draw(st.sampled_from(BUDGETS)))
    chain = draw(st.sampled_from((SpecConfig(1, 2, 3), SpecConfig(1, 2, 3), SpecConfig(1, 1, 2))))
    return draw(lawful_runs()).having(sizes=chain, hot_token_id=None, verification=verification)


PROPERTIES = states_of_runs(
    "budget_engine",
    (budgets_change_no_output, budget_runs, (*CUT, *WINDOW), "P01"),
    (both_modes_output_the_same, sampled_budget_runs, (*CUT, *WINDOW), ""),
    (verifies_are_those_of_earlier_budgets, budget_runs_in_turn, (*CUT, *WINDOW), ""),
    (features_of_committed_rows_alone_are_stored, block_runs, CUT, ""),
    (rows_after_the_cut_decide_nothing, compact_budget_runs, (*CUT, SCATTER), "", {"plays": ()}),
    (budgets_keep_the_autoregressive_law, lawful_budgets, (*CUT, *WINDOW), "P10", {"plays": ()}),
    plays=OF_ENGINES,
)
