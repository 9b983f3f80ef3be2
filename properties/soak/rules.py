"""What can be done to a machine, a rule each: when, how often, with which argument, and what it does.

Merging, filtering, resuming and late results are no rules: they are what a step does once these have been applied. A
feature joins with one more rule, or with one more thing that a setup or a request may have.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Any

from specsim.assertion import require_present
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.asked import draw_arrival
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.neighbour import MOST_REQUESTS as MOST_NEXT_DOOR
from specsim.properties.soak.padding import BUCKETS

MOST_REQUESTS = 60
"""Requests of one machine."""


@dataclass(frozen=True)
class Rule:
    """One thing that happens to a machine.

    Parameters
    ----------
    draw : callable
        Returns its argument, which means something in any state: shorter histories keep it.
    apply : callable
        Does it.
    weight : callable
        How often it is chosen, beside the others; 0 where it cannot be applied.
    """

    name: str
    draw: Callable[[Random, Machine], Any]
    apply: Callable[[Machine, Any], None]
    weight: Callable[[Machine], int]


@dataclass(frozen=True)
class Action:
    """A rule by its name, and its argument."""

    rule: str
    argument: Arrival | tuple[Arrival, ...] | int | None = None

    def single(self) -> tuple["Action", ...]:
        """Return the same as actions that ask for one thing each."""
        if not isinstance(self.argument, tuple):
            return (self,)
        return tuple(Action("admit", asked) for asked in self.argument)

    def __str__(self) -> str:
        return self.rule if self.argument is None else f"{self.rule} {self.argument}"


def _number(random: Random, machine: Machine) -> int:
    return random.randrange(MOST_REQUESTS)


def _nothing(random: Random, machine: Machine) -> None:
    return None


def _num_places(machine: Machine) -> int:
    scheduler = machine.engine.scheduler
    return max(0, scheduler.max_batch - len(scheduler.waiting) - len(scheduler.holders))


def _draw_crowd(random: Random, machine: Machine) -> tuple[Arrival, ...]:
    return tuple(draw_arrival(random, machine.setup) for _ in range(_num_places(machine)))


def _admit_crowd(machine: Machine, crowd: tuple[Arrival, ...]) -> None:
    for asked in crowd:
        machine.submit(asked)


def _admit_weight(machine: Machine) -> int:
    if len(machine.asked) >= MOST_REQUESTS:
        return 0
    return 16 if _num_places(machine) else 1


def _again(machine: Machine, number: int) -> None:
    machine.submit(machine.asked[number % len(machine.asked)])


def _unfinished(machine: Machine) -> list[int]:
    scheduler = machine.engine.scheduler
    return sorted(one.request_id for one in (*scheduler.holders, *scheduler.waiting))


def _abort(machine: Machine, number: int) -> None:
    unfinished = _unfinished(machine)
    machine.abort(unfinished[number % len(unfinished)])


def _change_steps(machine: Machine, place: int) -> None:
    candidates = machine.setup.candidates
    machine.change_steps(candidates[place % len(candidates)])


def _change_engine(machine: Machine, place: int) -> None:
    machine.change_engine(machine.sides.draftings[place % len(machine.sides.draftings)])


def _change_engine_weight(machine: Machine) -> int:
    """Return how often drafts change; few machines have parameters of their own, which change twice as often."""
    if len(machine.sides.draftings) == 1:
        return 0
    return 6 if machine.setup.has_parameters else 3


def _change_buckets(machine: Machine, place: int) -> None:
    padding = require_present("padding", machine.padding)
    padding.buckets = BUCKETS[place % len(BUCKETS)]


def _idle_weight(machine: Machine) -> int:
    """Return how often an idle batch runs: of V1 only where no request does."""
    engine = machine.engine
    return 0 if engine.is_v1 and engine.scheduler.holders else 1


def _draw_next_door(random: Random, machine: Machine) -> Arrival:
    return replace(draw_arrival(random, machine.setup), sampling=None)


def _admit_next_door(machine: Machine, asked: Arrival) -> None:
    require_present("neighbour", machine.neighbour).submit(asked)


def _next_door_weight(machine: Machine) -> int:
    neighbour = machine.neighbour
    return 4 if neighbour is not None and neighbour.num_asked < MOST_NEXT_DOOR else 0


RULES = (
    Rule("step", _nothing, lambda machine, _: machine.step(), lambda machine: 32 if machine.has_work else 0),
    Rule("admit", lambda random, machine: draw_arrival(random, machine.setup), Machine.submit, _admit_weight),
    Rule("admit a crowd", _draw_crowd, _admit_crowd, lambda machine: 16 if _num_places(machine) > 1 else 0),
    Rule("admit again", _number, _again, lambda machine: _admit_weight(machine) // 6 if machine.asked else 0),
    Rule("abort", _number, _abort, lambda machine: 1 if _unfinished(machine) else 0),
    Rule("retract", _number, Machine.retract, lambda machine: 1 if machine.engine.scheduler.holders else 0),
    Rule("change steps", _number, _change_steps, lambda machine: 6 if machine.setup.candidates else 0),
    Rule("change engine", _number, _change_engine, _change_engine_weight),
    Rule("change buckets", _number, _change_buckets, lambda machine: 0 if machine.padding is None else 6),
    Rule("idle batch", _nothing, lambda machine, _: machine.run_idle_batch(), _idle_weight),
    Rule("admit next door", _draw_next_door, _admit_next_door, _next_door_weight),
)
"""In the order in which a history prefers them when it is made smaller."""

BY_NAME = {rule.name: rule for rule in RULES}
STEP = Action("step")


def draw_action(random: Random, machine: Machine) -> Action:
    """Choose a rule that can be applied, and its argument."""
    weights = [rule.weight(machine) for rule in RULES]
    ticket = random.randrange(sum(weights))
    rule = RULES[next(place for place, end in enumerate(accumulate(weights)) if ticket < end)]
    return Action(rule.name, rule.draw(random, machine))


def apply_action(machine: Machine, action: Action) -> bool:
    """Do something to a machine and check it; return False where the rule cannot be applied."""
    rule = BY_NAME[action.rule]
    if not rule.weight(machine):
        return False
    rule.apply(machine, action.argument)
    machine.check()
    return True
