"""One history of a cell: requests, then whatever a soak does, until it has come to all that its cell is there for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from specsim.host.stopping import FinishReason
from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.setups import MOST_FOLLOWING, draw_following, draw_request, draw_setup
from specsim.properties.runs.scenario import Arrival
from specsim.properties.seeds import source_of
from specsim.properties.soak.history import Failure, run_course
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import STEP, Action, draw_action
from specsim.properties.soak.subject import Subject
from specsim.simulation.events import Tag
from specsim.simulation.models.frozen import accepting_unread_states

LEAST = {"requests": 3, "iterations": 8, "partial_rejections": 1, "finishes": 1}
"""What every history has to come to, by the names under which it is counted."""

LEAST_OF_FACTORS = {"chunking": "chunks", "prefix_cache": "prefix_hits", "overlap": "overlaps"}
"""What a history has to come to once where a factor is switched on."""

CUT_DRAFTS = "cut_drafts"

SAMPLED = "sampled"

COUNTED = (*LEAST, *LEAST_OF_FACTORS.values(), CUT_DRAFTS, SAMPLED)

MOST_CONTINUED = 3
"""Texts that somebody continues in the end: what a cache has of the last verify shows after some of them alone."""

MOST_ACTIONS = 400
"""Actions before a history is let go that has not come to everything; most take a tenth."""


@dataclass
class Tried:
    """What a history came to, by the names of ``COUNTED``, and what became of the drafts of its engines."""

    counts: Counter[str] = field(default_factory=Counter)
    num_leaked: int = 0
    failure: Failure | None = None
    drafts: dict[str, int] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return everything as plain values."""
        failure = None if self.failure is None else self.failure.as_plain()
        plain = {"num_leaked": self.num_leaked, "drafts": self.drafts}
        return {"reach": dict(self.counts), "failure": failure, **plain}


def least_of(cell: Cell) -> dict[str, int]:
    """Return what every history of a cell has to come to."""
    of_factors = {counted: 1 for factor, counted in LEAST_OF_FACTORS.items() if vars(cell)[factor]}
    of_rules = {} if cell.is_coin_by_token else {SAMPLED: 1}
    return LEAST | of_factors | ({CUT_DRAFTS: 1} if cell.is_scheduled else {}) | of_rules


@accepting_unread_states()
def try_history(subject: Subject, cell: Cell, seed: int, number: int) -> Tried:
    """Run one history of a seed, the same in any process."""
    random = source_of(f"{seed} {cell.name} {number}")
    setup = draw_setup(cell, random, brought=subject.brought(cell.algorithm))
    opening = [draw_request(setup, random) for _ in range(LEAST["requests"])]
    num_steps = random.randint(1, 3)
    first = [*(Action("admit", asked) for asked in opening[:-1]), *[STEP] * num_steps, Action("admit", opening[-1])]
    course = run_course(subject, setup, partial(_choose, cell, first, random))
    tried = Tried(failure=course.failure)
    if course.machine is not None:
        tried.counts, tried.num_leaked = count_events(course.machine), course.machine.num_leaked
    return tried


def _choose(cell: Cell, first: Sequence[Action], random: Random, machine: Machine) -> Iterator[Action]:
    """Yield some actions, then any until a history has come to all that its cell asks for, then what goes on."""
    yield from first
    for _ in range(MOST_ACTIONS - len(first)):
        if not shortfalls(count_events(machine), cell):
            break
        yield draw_action(random, machine)
    yield from (Action("admit", asked) for asked in _following(machine, random))


def count_events(machine: Machine) -> Counter[str]:
    """Return what a machine has come to.

    Of drafts that have one token only, rejecting that counts as a part; of those that no reference drafts, rejecting
    anything: how much of them is accepted is not known.
    """
    reach = machine.reach.counts
    num_rejected = reach[Tag.REJECTED if reach[Tag.STEPS] else Tag.ZERO]
    if machine.has_own_drafts:
        num_rejected = reach[Tag.REJECTED] + reach[Tag.ZERO]
    finished = machine.engine.scheduler.finished
    ended = [request.finish_reason for request in finished]
    return Counter(
        requests=len(machine.asked),
        iterations=machine.num_decodes,
        partial_rejections=num_rejected,
        finishes=len(ended) - ended.count(FinishReason.ABORT),
        chunks=reach[Tag.CHUNK],
        prefix_hits=reach[Tag.PREFIX],
        overlaps=reach[Tag.OVERLAP],
        sampled=sum(one.sampling is not None and one.finish_reason is not FinishReason.ABORT for one in finished),
        cut_drafts=machine.engine.verified.num_drafts - machine.engine.verified.num_verified,
    )


def shortfalls(counts: Mapping[str, int], cell: Cell) -> list[str]:
    """Return what a history of a cell should have come to and has not, a phrase each."""
    return [
        f"{name} = {counts[name]}, but should be at least {least}"
        for name, least in least_of(cell).items()
        if counts[name] < least
    ]


def _following(machine: Machine, random: Random) -> Iterator[Arrival]:
    """Yield prompts that continue the texts of some that ended, where texts are kept."""
    ended = [one for one in machine.engine.scheduler.finished if one.finish_reason is not FinishReason.ABORT]
    texts = [one.fill for one in ended if len(one.fill) <= machine.setup.texts.longest_prompt - MOST_FOLLOWING]
    if machine.setup.schedule.has_prefix_cache:
        for text in texts[:MOST_CONTINUED]:
            yield draw_following(machine.setup, text, random)
