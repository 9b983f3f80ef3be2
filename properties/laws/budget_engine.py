"""Laws of whole runs that verify within budgets: no output depends on what is verified, nor on rows after a cut."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.phases import VerifyInput
from specsim.properties.composite import composite
from specsim.properties.laws.sampled_engine import SampledRun, lawful_runs, require_autoregressive_law
from specsim.properties.laws.support.budget_runs import (
    BUDGETS,
    MODES,
    BudgetRun,
    NotedBudget,
    NotedTurns,
    Seen,
    block_runs,
    budget_runs,
    budget_runs_in_turn,
    compact_budget_runs,
    played,
    sampled_budget_runs,
)
from specsim.properties.laws.support.checks import require, require_equal, require_present, state_of_runs
from specsim.properties.laws.support.histories import iterations_of, last_verify_input
from specsim.properties.laws.support.numbered_runs import MOST
from specsim.properties.property import OF_ENGINES
from specsim.reference.scheduled import schedule_verify_lens
from specsim.reference.worker import arrays
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import Budget, Verification, VerifyMode
from specsim.simulation.worker import Iteration

SCATTER = "scatter_compact_to_strided"
CUT = ("schedule_verify_lens", "cap_accepted_drafts")
WINDOW = ("ragged_verify_window", "pad_verify_lens_to_bucket", "ragged_verify_metadata", SCATTER)


def budgets_change_no_output(backend: Backend, run: BudgetRun) -> None:
    """Outputs are those of plain decoding at every budget; nothing is accepted that was not verified."""
    engine = run.engine(backend, run.own_worker(backend))
    played(engine)
    for request in engine.scheduler.finished:
        output = greedy_decode(run.scenario.model, request.prompt, request.max_new_tokens)
        require(request.output == output, f"output of request {request.request_id}", request.output, output)


def both_modes_output_the_same(backend: Backend, run: BudgetRun) -> None:
    """By the same coins every iteration admits, accepts and outputs the same, whether all rows are run or few."""
    capped, compact = (
        played(one.engine(backend, one.own_worker(backend))) for one in (replace(run, mode=mode) for mode in MODES)
    )
    require(len(compact) == len(capped), "iterations of the compact run", len(compact), len(capped))
    for number, (got, expected) in enumerate(zip(compact, capped, strict=True)):
        _require_alike(f"iteration {number}, compact", got, expected)
        require(not require_present("verified", got.verified).trim.any(), "drafts known to be lost", "some", "none")


def rows_after_the_cut_decide_nothing(backend: Backend, run: BudgetRun) -> None:
    """Iterations return the same, whatever stands where no row was computed."""
    operations = Completed(backend, load("specsim.reference"))
    runs = []
    for used in (operations, Poisoned(operations)):
        worker = run.run.worker_on(run.model_on(operations), operations=used)
        runs.append(played(run.engine(backend, worker)))
    plain, poisoned = runs
    require(len(poisoned) == len(plain), "iterations of the poisoned run", len(poisoned), len(plain))
    for number, (got, expected) in enumerate(zip(poisoned, plain, strict=True)):
        _require_alike(f"iteration {number}, poisoned", got, expected)


def verifies_are_those_of_earlier_budgets(backend: Backend, run: BudgetRun) -> None:
    """Each request verifies the first rows of its window, as many as the confidences and an earlier budget admit.

    A budget has been given the survivals of the iteration before, and ones for requests that had none.
    """
    seen, budget, numbers = Seen(), NotedBudget(run.budget), NotedTurns(run.pattern or (MOST,))
    worker = run.own_worker(backend, seen)
    engine = run.engine(backend, worker, budget, numbers)
    known: dict[int, list[float]] = {}
    for number, iteration in enumerate(iterations_of(engine)):
        ids, own_steps = numbers.noted[number]
        phase = last_verify_input(worker)
        verified, (given, drafts) = require_present("verified", iteration.verified), budget.noted[number]
        ones = [1.0] * worker.config.num_steps
        expected = [known.get(one, ones) for one in ids]
        require(given == expected, f"survivals that the budget of iteration {number} reads", given, expected)
        width = phase.num_draft_tokens
        confidence = run.head(phase.draft_token.reshape(-1, width), arrays)
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


def features_of_committed_rows_alone_are_stored(backend: Backend, run: BudgetRun) -> None:
    """What a verify stores in the draft cache is the root and the accepted drafts of each request, each in its slot."""
    seen = Seen()
    worker = run.own_worker(backend, seen)
    engine = run.engine(backend, worker)
    while engine.has_work:
        num_verified, num_injected = len(seen.verified), len(seen.injected)
        iteration = engine.step()
        if iteration is None or len(seen.verified) == num_verified or len(seen.injected) == num_injected:
            continue
        phase = last_verify_input(worker)
        positions, slots = (values[seen.injected[-1][1] > 0] for values in seen.injected[-1])
        width, lengths = phase.num_draft_tokens, phase.seq_lens.tolist()
        committed = list(zip(lengths, iteration.num_accepted_tokens.tolist(), strict=True))
        expected = [length + place for length, count in committed for place in range(count)]
        require_equal("positions whose features are stored", positions, expected)
        own = phase.out_cache_loc.reshape(-1, width)
        kept = [own[place, :count] for place, (_, count) in enumerate(committed)]
        require_equal("slots whose features are stored", slots, np.concatenate(kept))


@dataclass(frozen=True)
class LawfulBudget:
    """A sampled run, and the mode and the budget of its iterations."""

    sampled: SampledRun
    mode: VerifyMode
    budget: Budget


def budgets_keep_the_autoregressive_law(backend: Backend, run: LawfulBudget) -> None:
    """Over all coins a request emits exactly the law of decoding token by token, at every budget and in both modes."""
    require_autoregressive_law(backend, run.sampled, Schedule(verification=Verification(run.mode, run.budget)))


@dataclass(frozen=True)
class Poisoned(CallsByName):
    """Operations that leave what no one may rely on where a ragged forward computed no row: huge numbers."""

    operations: Completed

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


def _require_alike(what: str, got: Iteration, expected: Iteration) -> None:
    """Raise AssertionError unless two iterations admitted, accepted and output the same."""
    mine, other = (require_present("verified", one.verified) for one in (got, expected))
    require_equal(f"verify_lens of {what}", mine.verify_lens, other.verify_lens)
    require_equal(f"num_accepted_drafts of {what}", got.num_accepted_drafts, expected.num_accepted_drafts)
    for request, count in enumerate(expected.num_accepted_tokens.tolist()):
        tokens = (one.tokens[request, :count] for one in (got, expected))
        require_equal(f"tokens of request {request} in {what}", *tokens)


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
def lawful_budgets(draw: st.DrawFn) -> LawfulBudget:
    """Draw a sampled request of a few tokens over chains, with or without a greedy neighbour."""
    run = draw(lawful_runs())
    chain = draw(st.sampled_from((SpecConfig(1, 2, 3), SpecConfig(1, 2, 3), SpecConfig(1, 1, 2))))
    run = replace(run, config=chain, model=replace(run.model, hot_token_id=None))
    return LawfulBudget(run, draw(st.sampled_from(MODES)), draw(st.sampled_from(BUDGETS)))


PROPERTIES = tuple(
    state_of_runs("budget_engine", law, strategy, operations, number, **options)
    for law, strategy, operations, number, options in (
        (budgets_change_no_output, budget_runs, (*CUT, *WINDOW), "P01", {"plays": OF_ENGINES}),
        (both_modes_output_the_same, sampled_budget_runs, (*CUT, *WINDOW), "", {"plays": OF_ENGINES}),
        (verifies_are_those_of_earlier_budgets, budget_runs_in_turn, (*CUT, *WINDOW), "", {"plays": OF_ENGINES}),
        (features_of_committed_rows_alone_are_stored, block_runs, CUT, "", {"plays": OF_ENGINES}),
        (rows_after_the_cut_decide_nothing, compact_budget_runs, (*CUT, SCATTER), "", {"plays": ()}),
        (budgets_keep_the_autoregressive_law, lawful_budgets, (*CUT, *WINDOW), "P10", {"plays": ()}),
    )
)
