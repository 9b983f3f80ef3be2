"""Machines of the workers that a module brings: without this, one that brings a drafter alone would seldom meet it."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from specsim.algorithms import DRAFTERS, Drafter
from specsim.properties.seeds import source_of
from specsim.properties.soak.aims import ROUND, Aim, aim_of
from specsim.properties.soak.algorithms import of_algorithm, with_algorithm
from specsim.properties.soak.drawing import DrawSetup, with_padding
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.subject import Subject
from specsim.rejection import WorkerRefusal
from specsim.simulation.models.description import Side
from specsim.simulation.models.pool_kinds import PoolKind

MOST_TRIES = 50
"""Setups that are drawn before one of them runs on a worker of the module."""

MOST_AIMED = 200
"""Setups that are drawn before a machine aims at nothing: the workers of a module may be unable to meet a condition."""

ONE_IN = 2
"""Of so many machines whose worker a module of functions lacks, one becomes a machine of a worker that it brings."""

Kind = tuple[str, bool]
"""The name of an algorithm or of a drafter that is brought, and whether the worker is one of V1."""


def kinds_of(subject: Subject) -> list[Kind]:
    """Return the kinds of machines that run on a worker of the module itself."""
    drafters = {**DRAFTERS, **subject.backend.drafters}
    every = [(name, is_v1) for name in drafters for is_v1 in (False, True)]
    return [(name, is_v1) for name, is_v1 in every if drafters[name].worker_name(is_v1) in subject.backend.workers]


def aim_at(subject: Subject, number: int) -> Aim | None:
    """Return what a machine aims at; the first ones of a round at a worker each, where a module has nothing else."""
    workers, place = [] if subject.backend.functions else [*subject.backend.workers], number % ROUND
    if place < len(workers):
        return Aim(f"the worker {workers[place]}", 1, lambda setup: setup.worker_name == workers[place])
    return aim_of(number)


def draw_machine(subject: Subject, random: Random, draw: DrawSetup, aim: Aim | None = None) -> Setup:
    """Draw a machine that tries something of what a module brings, and can meet what it aims at.

    Machines whose worker the module lacks become machines of one that it has: all of them where it has no function
    that the reference's loop could call, else every other one. Where the first of them cannot meet what is aimed at,
    machines aim at nothing.

    Raises
    ------
    WorkerRefusal
        The workers of the module refuse all that is drawn, and it has nothing else to run.
    """
    kinds = kinds_of(subject)
    num_aimed = 0 if aim is None else MOST_AIMED
    for left in reversed(range(num_aimed + MOST_TRIES)):
        setup = _draw_one(subject, random, draw, kinds)
        has_missed = aim is not None and left >= MOST_TRIES and setup is not None and not aim.can_meet(setup)
        if setup is None or has_missed:
            continue
        if subject.backend.functions or not kinds:
            return setup
        try:
            subject.own_worker(setup)
        except WorkerRefusal:
            if not left:
                raise
        else:
            return setup
    raise AssertionError("setups without a wide tree = 0, but should be most")


def _draw_one(subject: Subject, random: Random, draw: DrawSetup, kinds: list[Kind]) -> Setup | None:
    """Draw a machine, perhaps one of the kinds that a module brings; None where these have no such drafts."""
    plain = draw(random)
    setup = with_padding(with_algorithm(plain))
    if not kinds or subject.has_own_worker(setup):
        return setup
    other = source_of(f"own kind of {setup.room.shuffle_seed} and {setup.model.seed}")
    if subject.backend.functions and other.randrange(ONE_IN):
        return setup
    if plain.has_big_drafts:
        return None
    return with_padding(of_kind(plain, other.choice(kinds), other, subject.backend.drafters))


def of_kind(setup: Setup, kind: Kind, random: Random, brought: Mapping[str, Drafter]) -> Setup:
    """Return an EAGLE machine as one of another algorithm or drafter, or of the other kind of worker."""
    name, is_v1 = kind
    plain = setup.having(is_v1=is_v1, is_overlapped=setup.schedule.is_overlapped and not is_v1)
    setup = of_algorithm(plain, name, random, brought.get(name))
    model, stuck = setup.model, setup.moving_sides
    if model.target_pool is PoolKind.OTHER and Side.TARGET in stuck:
        model = replace(model, target_pool=PoolKind.MHA)
    if model.draft_pool is PoolKind.OTHER and Side.DRAFT in stuck:
        model = replace(model, draft_pool=PoolKind.MHA)
    return setup.having(model=model)
