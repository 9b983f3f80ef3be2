"""Conditions that few machines meet by chance, and how many machines of a round aim at each.

A machine that aims at a condition is one of those that are drawn anyway: machines are drawn until one can meet it. The
rest of a round aims at nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from specsim.properties.soak.setups import Setup
from specsim.simulation.events import Tag
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS, PoolKind

ROUND = 24
"""Machines of a round: 3,000 steps have at least as many."""


@dataclass(frozen=True)
class Aim:
    """A condition, and the machines that are drawn for it.

    Parameters
    ----------
    condition : str
        What a report calls it.
    num_machines : int
        Machines of a round that aim at it.
    can_meet : callable
        Returns whether a machine meets it almost surely.
    """

    condition: str
    num_machines: int
    can_meet: Callable[[Setup], bool]


def _frees_what_a_window_has_passed(setup: Setup) -> bool:
    """Return whether texts outgrow the window: brief ones hardly do."""
    return setup.model.target_pool is PoolKind.SWA and not setup.texts.is_brief and not setup.is_padded


def _goes_on_after_a_launch(setup: Setup) -> bool:
    """Return whether requests still run when their results come."""
    return setup.schedule.is_overlapped and not setup.texts.is_brief and not setup.is_padded


def _ends_by_grammars(setup: Setup) -> bool:
    """Return whether many requests with a grammar have their turn."""
    is_plain = not (setup.texts.has_sampling or setup.is_padded)
    return setup.texts.has_constraints and setup.num_at_once >= FEW and is_plain


def _has_wide_batches(setup: Setup) -> bool:
    """Return whether many requests run at once, for long, and are soon prefilled."""
    has_time = setup.texts.longest_output >= LONG and setup.schedule.prefill_chunk is None
    is_plain = not (setup.texts.has_sampling or setup.texts.has_constraints or setup.is_padded)
    return setup.num_at_once > FEW and has_time and is_plain


FEW, LONG = 4, 24
"""Requests, and tokens of an output, of machines whose batches are wide."""

AIMS = (
    Aim(Tag.BIG.value, 1, lambda setup: setup.has_big_drafts),
    Aim(Tag.IDLE_RANK.value, 1, lambda setup: setup.is_ranked),
    Aim(Tag.BUCKET.value, 1, lambda setup: setup.is_padded and not setup.is_ranked),
    Aim(Tag.PARAMETERS.value, 3, lambda setup: setup.has_parameters and bool(setup.others)),
    Aim(Tag.SWA.value, 1, _frees_what_a_window_has_passed),
    Aim(Tag.RECURRENT.value, 1, lambda setup: setup.model.target_pool in RECURRENT_KINDS and not setup.is_padded),
    Aim(Tag.FILTERED.value, 1, lambda setup: setup.texts.has_sampling and not setup.is_padded),
    Aim(Tag.LATE.value, 1, _goes_on_after_a_launch),
    Aim(Tag.ROW_IN_FLIGHT.value, 3, lambda setup: setup.texts.is_brief),
    Aim(Tag.GRAMMAR.value, 3, _ends_by_grammars),
    Aim("decode iterations of four or more requests", 5, _has_wide_batches),
)
"""Every condition that too few machines meet by chance; those of padding take long, and are left out of the others."""

_TURNS = tuple(aim for turn in range(ROUND) for aim in AIMS if turn < aim.num_machines)


def aim_of(number: int) -> Aim | None:
    """Return what a machine aims at, by its number: a round has one machine for each condition first, then more."""
    place = number % ROUND
    return _TURNS[place] if place < len(_TURNS) else None
