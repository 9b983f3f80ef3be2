"""The unit of work of a matrix: one history of a cell, or its law; and what an implementation is asked before."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import msgspec

from specsim.assertion import require_present
from specsim.conformance.brought import Brought
from specsim.properties.matrix.factors import Cell, cell_named, cells_of
from specsim.properties.matrix.history import try_history
from specsim.properties.matrix.laws import try_law
from specsim.properties.matrix.refusals import Refusal, refusals
from specsim.properties.matrix.subjects import load_subject
from specsim.properties.soak.history import replay
from specsim.properties.soak.shrinking import shrink
from specsim.properties.unit_of_work import PlainOutcome, require_device
from specsim.simulation.drafted import counting_drafts

LAW = "law"
"""Stands in the place of a number where the law of a cell is gone through instead of a history."""


@dataclass(frozen=True)
class MatrixLimits:
    """In which mode workers run, and how much is tried.

    Parameters
    ----------
    seed : int
        That of the run.
    mode : str
        How workers run.
    most_seeded : int or None
        Ways of a request that a worker runs by seeds at most, of a law; None for all.
    replays : int
        Histories that are tried to find a shorter one that fails.
    """

    seed: int
    mode: str
    most_seeded: int | None = None
    replays: int = 0


class PlainHistory(PlainOutcome):
    """What the process of a history sends."""

    num_leaked: int


class PlainLaw(PlainOutcome):
    """What the process of a law sends; ``refused`` is what its worker takes alone, if it refuses the law's requests."""

    refused: str


def run_unit(implementation: str, name: str, seeds: Sequence[int | str], limits: MatrixLimits) -> dict[str, Any]:
    """Run a history of a cell, or go through its law; what is returned is plain values.

    Parameters
    ----------
    implementation, name : str
        The module, and the cell.
    seeds : sequence of int or str
        One: the number of the history, or ``LAW``.

    Returns
    -------
    outcome : dict
        The fields of a ``Tried``, or the numbers of a ``LawResult`` as ``reach``; ``ran``, which counts what of the
        implementation ran; ``drafts``, what became of those of its engines; ``duration`` in seconds.
    """
    started = time.monotonic()
    (number,) = seeds
    subject, cell = loaded(implementation, limits.mode), require_present("cell", cell_named(name))
    before = subject.backend.uses.copy()
    if number == LAW:
        with counting_drafts() as drafts:
            law = try_law(subject, cell, limits.mode, limits.seed, limits.most_seeded)
        outcome = replace(law, drafts=drafts.public()).as_plain()
        ran = dict(subject.backend.uses - before) if outcome["reach"]["num_seeded"] else {}
    else:
        with counting_drafts() as drafts:
            tried = try_history(subject, cell, limits.seed, int(number))
        tried.drafts = drafts.public()
        ran = dict(subject.backend.uses - before) if tried.counts["iterations"] else {}
        if tried.failure is not None and limits.replays:
            tried = replace(tried, failure=shrink(tried.failure, partial(replay, subject), limits.replays))
        outcome = tried.as_plain()
    if outcome["failure"] is not None:
        require_device(subject.backend)
    return {**outcome, "ran": ran, "duration": time.monotonic() - started}


def refusals_unit(implementation: str, mode: str, cells: Sequence[Cell], is_whole: bool = False) -> dict[str, Any]:
    """Ask an implementation about every cell of a product; return who refuses which, and why, and what it brings.

    ``is_whole`` says that the cells of drafters that it brings are asked about as well.
    """
    subject = loaded(implementation, mode)
    cells = [*cells, *(cells_of(subject.backend.drafters) if is_whole else ())]
    refused = {cell.name: asdict(refusal) for cell, refusal in refusals(subject, cells).items()}
    return {"refused": refused, "brings": asdict(Brought.of(subject.backend))}


class _PlainPlan(msgspec.Struct):
    refused: dict[str, Refusal]
    brings: Brought


def refusals_from(plain: Any, cells: Sequence[Cell]) -> tuple[dict[Cell, Refusal], Brought]:
    """Return the refusals of a worker, and what the implementation brings.

    Raises
    ------
    ValueError
        They are none of these cells.
    """
    plan = msgspec.convert(plain, _PlainPlan)
    by_name = {cell.name: cell for cell in [*cells, *cells_of(plan.brings.drafters)]}
    return {by_name[name]: refusal for name, refusal in plan.refused.items()}, plan.brings


loaded = cache(load_subject)
"""Returns an implementation as a matrix tries it in a mode."""
