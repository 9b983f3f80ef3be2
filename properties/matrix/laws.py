"""The law of sampled decoding in every allowed combination of algorithm, chain or tree, worker and pages.

A tiny model's output has few values, and all coins that lead to them can be gone through: the distribution of the
first tokens is exact. It is that of decoding token by token, whatever drafts, pages and schedule.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter
from specsim.assertion import require
from specsim.config import SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.host.acceptance import Acceptance
from specsim.properties.distribution import Outcome
from specsim.properties.laws.frequencies import sequential_law
from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.setups import draw_setup
from specsim.properties.runs.play import loop_on, parts_of
from specsim.properties.runs.sampling.laws_sampled import ALPHA, EFFECT_OF_RUNS, SEEDS_IN_A_BATCH
from specsim.properties.runs.sampling.sampled_law import NUM_TOKENS, Sampled, drawn_alone
from specsim.properties.runs.sampling.sampled_runs import Run, seeds_of, total
from specsim.properties.seeds import source_of
from specsim.properties.soak.drafters import chains_of
from specsim.properties.soak.history import describe
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.sides import engine_around
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.rejection import WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.models.frozen import accepting_unread_states

CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
"""Drafts of few nodes: every node has a coin, and the cells of all of them are multiplied."""

VOCABULARY = 3
MOST_BEFORE_AN_END = 2
"""Positions between the end of a prompt and the next end of a page, which the first verify crosses."""

NUM_DRAWS, MOST_DRAWS = 16, 256
"""Seeds for which an output is compared with what the target draws alone, and as long as no draft is accepted."""

Combination = tuple[str, bool, str, str, int]
"""Algorithm, whether drafts are trees, worker, rule of acceptance, and slots of a page, 0 where these do not matter."""


@dataclass(frozen=True)
class LawResult:
    """What the law of a cell came to in a mode of the workers.

    Parameters
    ----------
    num_runs : int
        Ways in which the request can go.
    num_outcomes : int
        Different outputs among them.
    num_with_drafts : int
        Ways in which a draft is accepted.
    num_seeded : int
        Those of them that the worker ran by a seed that leads there; of drafts of its own, the texts that it output.
    error : str or None
        What does not hold.
    refused : str
        What the worker takes alone, where it refuses what the law is stated of.
    seconds : float
        How long that took.
    drafts : mapping
        What became of the drafts of all engines, those beside included.
    """

    cell: Cell
    mode: str
    num_runs: int = 0
    num_outcomes: int = 0
    num_with_drafts: int = 0
    num_seeded: int = 0
    error: str | None = None
    refused: str = ""
    seconds: float = field(default=0.0, compare=False)
    drafts: Mapping[str, int] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return what it came to as plain values."""
        reach = {name: number for name, number in vars(self).items() if name.startswith("num_")}
        failure = None if self.error is None else {"error": self.error, "lines": []}
        return {"reach": reach, "failure": failure, "refused": self.refused, "drafts": dict(self.drafts)}


def combination_of(cell: Cell) -> Combination:
    """Return what a law is stated of once; pages are asked for where each draft has its coin."""
    page_size = cell.page_size if cell.is_coin_by_token else 0
    return cell.algorithm, cell.topk > 1, cell.worker, cell.acceptance, page_size


def law_cells(cells: Iterable[Cell], allowed: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return one allowed cell of each combination: one that is run, or any if there is none."""
    chosen = {combination_of(cell): cell for cell in reversed([*cells])}
    others: dict[Combination, list[Cell]] = {}
    for cell in allowed:
        others.setdefault(combination_of(cell), []).append(cell)
    return tuple(chosen.get(one) or source_of(repr(one)).choice(its) for one, its in others.items())


@accepting_unread_states()
def try_law(subject: Subject, cell: Cell, mode: str, seed: int, most_seeded: int | None = None) -> LawResult:
    """Go through all coins of a sampled request, and let the worker run by seeds that lead to each of its ways.

    The coins are set where the reference's loop verifies, on the operations that are tried. By seeds runs whatever loop
    is tried, with coins that it draws itself; ``most_seeded`` of them if that is not None. Where drafts are the
    implementation's own, the same seed leads elsewhere, and how often each text comes of many seeds is judged; of a
    drafter that it brings alone, that alone.
    """
    tried = LawResult(cell, mode)
    try:
        brought = subject.brought(cell.algorithm)
        setup, sampled = draw_law(cell, seed, brought)
        if brought is not None:
            num_outcomes = _check_frequencies(subject, setup, sampled, seed)
            return replace(tried, num_outcomes=num_outcomes, num_seeded=num_outcomes)
        if setup.drafting.acceptance is Acceptance.TARGET_DRAW:
            return _follow_draws(subject, setup, sampled, tried)
        is_own = subject.has_own_worker(setup)
        runs = _runs_of_the_reference(cell, seed) if is_own else _all_runs(subject, cell, seed)
        num_with_drafts = sum(run.num_accepted_drafts > 0 for run in runs)
        outcomes = {run.outcome for run in runs}
        tried = replace(tried, num_runs=len(runs), num_outcomes=len(outcomes), num_with_drafts=num_with_drafts)
        sampled.require_law(total(runs))
        require(num_with_drafts > 0, "ways in which a draft is accepted", num_with_drafts, "at least one")
        chosen = sorted(runs, key=lambda run: -run.weight)[:most_seeded]
        if subject.has_own_drafts(setup):
            num_seeded = _check_frequencies(subject, setup, sampled, seed)
        else:
            _check_seeds(subject, setup, sampled, chosen)
            num_seeded = len(chosen)
    except WorkerRefusal as refusal:
        return replace(tried, refused=refusal.limit)
    except Exception as error:  # NOTE: an implementation may fail in any way, and a crash is a failure too.
        return replace(tried, error=describe(error))
    return replace(tried, num_seeded=num_seeded)


def draw_law(cell: Cell, seed: int, brought: Drafter | None = None) -> tuple[Setup, Sampled]:
    """Draw an engine of a cell around a tiny model, and a prompt whose first verify crosses the end of a page."""
    random = source_of(f"{seed} {cell.name} law")
    chains = chains_of(brought or DRAFTERS[cell.algorithm])
    usual = (TREE,) if cell.topk > 1 else (chains or (CHAIN,))[:1]
    setup = draw_setup(cell, random, usual, VOCABULARY, brought)
    end, chunk = cell.page_size, setup.schedule.prefill_chunk or 0
    distance = random.randint(1, MOST_BEFORE_AN_END) if cell.page_size > 1 else 0
    while end - distance <= max(chunk, 1):
        end += cell.page_size
    prompt = tuple(random.randrange(VOCABULARY) for _ in range(end - distance))
    sampled = Sampled(setup.model, prompt, is_continued=cell.prefix_cache)
    longest = max(len(prompt), len(sampled.neighbour))
    return with_room(setup.having(longest_prompt=longest, longest_output=NUM_TOKENS), 2), sampled


def with_room(setup: Setup, max_batch: int) -> Setup:
    """Return a setup in which so many requests run at once."""
    return setup.having(max_batch=max_batch).with_spare(max_batch)


@lru_cache(maxsize=4)
def _runs_of_the_reference(cell: Cell, seed: int) -> tuple[Run, ...]:
    """Return what the modes of an implementation with workers of its own have in common."""
    return _all_runs(Subject(REFERENCE), cell, seed)


def _all_runs(subject: Subject, cell: Cell, seed: int) -> tuple[Run, ...]:
    """Return every way in which the request of a cell can go around the reference's loop."""
    setup, sampled = draw_law(cell, seed)

    def make_engine(operations: CallsByName) -> Engine:
        return engine_around(loop_on(setup, operations), setup, subject)

    return tuple(sampled.runs(parts_of(subject.backend), make_engine))


def _follow_draws(subject: Subject, setup: Setup, sampled: Sampled, tried: LawResult) -> LawResult:
    """Return what came of some seeds; raise AssertionError unless each outputs what the target draws alone by it.

    Requests that share a budget run in pairs, for among many hardly a draft of each is verified. More seeds are asked
    for where none of these has had a draft accepted.
    """
    at_once = NUM_DRAWS if setup.schedule.verification is None else 2
    roomy = with_room(setup, at_once + 1)
    operations = parts_of(subject.backend)
    outputs: list[Outcome] = []
    num_with_drafts = 0
    while len(outputs) < NUM_DRAWS or (num_with_drafts == 0 and len(outputs) < MOST_DRAWS):
        seeds = range(len(outputs), len(outputs) + at_once)
        engine = engine_around(subject.worker(roomy), roomy, subject)
        outputs += sampled.play(engine, seeds)
        for seed in seeds:
            asked = replace(sampled.sampling, seed=seed)
            expected = drawn_alone(operations, setup.model, sampled.prompt, asked, sampled.num_tokens)
            require(list(outputs[seed]) == expected, f"output of seed {seed}", list(outputs[seed]), expected)
        drawn = [request for request in engine.scheduler.finished if request.sampling is not None]
        num_with_drafts += sum(request.counters.num_accepted_drafts > 0 for request in drawn)
    require(num_with_drafts > 0, "requests of which a draft is accepted", num_with_drafts, "at least one")
    return replace(
        tried,
        num_runs=len(outputs),
        num_outcomes=len(set(outputs)),
        num_with_drafts=num_with_drafts,
        num_seeded=len(outputs),
    )


def _check_seeds(subject: Subject, setup: Setup, sampled: Sampled, runs: Sequence[Run]) -> None:
    """Raise AssertionError unless a request outputs what its seed leads to, beside others or alone.

    Where what is drafted or verified depends on those beside a request, each runs as it did when its coins were set.
    """
    seeds = seeds_of(runs)
    has_company = setup.drafter.has_memory or setup.schedule.verification is not None
    together = [[place] for place in range(len(runs))] if has_company else [[*range(len(runs))]]
    for places in together:
        roomy = with_room(setup, len(places) + 1)
        engine = engine_around(subject.worker(roomy), roomy, subject)
        for place, got in zip(places, sampled.play(engine, [seeds[place] for place in places]), strict=True):
            expected, weight = runs[place].outcome, runs[place].weight
            what = f"output of seed {seeds[place]}, one of the {weight} that lead to one text"
            require(got == expected, what, list(got), list(expected))


def _check_frequencies(subject: Subject, setup: Setup, sampled: Sampled, seed: int) -> int:
    """Return how many texts a worker outputs; raise AssertionError if they contradict decoding token by token."""
    seen: set[Outcome] = set()
    roomy = with_room(setup, SEEDS_IN_A_BATCH + 1)

    def sample(most: int, look: int) -> Counter[Outcome]:
        found = Counter[Outcome]()
        for start in range(0, most, SEEDS_IN_A_BATCH):
            first = seed % 2**16 + (look << 20) + start
            engine = engine_around(subject.worker(roomy), roomy, subject)
            found.update(sampled.play(engine, range(first, first + min(SEEDS_IN_A_BATCH, most - start))))
        seen.update(found)
        return found

    law = sequential_law(sample, sampled.expected_law(), alpha=ALPHA, effect=EFFECT_OF_RUNS)
    what = f"chi-square of the outputs of {law.sample_size} seeds, prompt {list(sampled.prompt)}"
    plain = f"{law.statistic:.1f}, p = {law.p_value:.1e}"
    require(law.verdict != "differs", what, plain, f"one of chance above {ALPHA:.0e}")
    return len(seen)
