"""The unit of work of a soak: one machine with its history, drawn by its seed."""

import gc
import os
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from specsim.conformance.backend import load
from specsim.conformance.brought import Brought
from specsim.properties.seeds import source_of
from specsim.properties.soak.drawing import DrawSetup, draw_setup
from specsim.properties.soak.history import Played, play, replay
from specsim.properties.soak.own import aim_at
from specsim.properties.soak.shrinking import shrink
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.properties.soak.trace import Traces
from specsim.properties.unit_of_work import PlainOutcome, require_device
from specsim.simulation.drafted import counting_drafts
from specsim.simulation.turns.priorities import Coverage

ANY = "machine"
DRAWN: Mapping[str, DrawSetup] = {ANY: draw_setup}
"""How a machine is drawn, by the name of the unit."""


@dataclass(frozen=True)
class SoakLimits:
    """How much is done about a failure.

    Parameters
    ----------
    replays : int
        Histories that are tried to find a shorter one that fails.
    is_repeated : bool
        A machine that does not fail runs once more, and twice on the reference, to see that it does the same.
    """

    replays: int = 0
    is_repeated: bool = False


class PlainMachine(PlainOutcome):
    """What the process of a machine sends."""

    algorithm: str
    num_steps: int
    num_decodes: int
    num_wide_decodes: int
    num_leaked: int
    reused: dict[str, int]
    trace: str
    coverage: Coverage
    repeated: Traces | None
    untried: dict[str, str]
    refused: str
    brings: Brought
    process: int
    rss_mib: float


def run_unit(implementation: str, name: str, seeds: Sequence[str], limits: SoakLimits) -> dict[str, Any]:
    """Run a machine to its end, or until it fails; what is returned is plain values.

    Parameters
    ----------
    implementation, name : str
        The module, and how the machine is drawn.
    seeds : sequence of str
        One, which decides machine and history.

    Returns
    -------
    outcome : dict
        The fields of a ``Played``, ``duration`` in seconds, what the implementation ``brings``, and which ``process``
        ran it, of which memory, ``rss_mib``.
    """
    started = time.monotonic()
    (seed,) = seeds
    subject = loaded(implementation)
    with counting_drafts() as drafts:
        played = _play(subject, seed, name)
    played.drafts = drafts.public()
    if played.failure is not None:
        require_device(subject.backend)
        if limits.replays:
            played = replace(played, failure=shrink(played.failure, partial(replay, subject), limits.replays))
    elif limits.is_repeated:
        played.repeated = _repeat(subject, seed, name, played.trace)
    # NOTE: an engine is a cycle; what waits to be collected is not what the process holds.
    gc.collect()
    duration = time.monotonic() - started
    plain = {"brings": asdict(Brought.of(subject.backend)), "process": os.getpid(), "rss_mib": rss_mib()}
    return {**played.as_plain(), **plain, "duration": duration}


def _repeat(subject: Subject, seed: str, name: str, trace: str) -> Traces:
    """Run a machine once more, and one of the reference twice; the reference itself needs no other one."""
    own = (trace, _play(subject, seed, name).trace)
    if subject.is_reference:
        return Traces(_number_of(seed), own, own)
    first, again = (_play(Subject(REFERENCE), seed, name).trace for _ in range(2))
    return Traces(_number_of(seed), own, (first, again))


def _play(subject: Subject, seed: str, name: str) -> Played:
    """Run a machine, which aims at what its number says."""
    return play(subject, source_of(seed), DRAWN[name], aim_at(subject, _number_of(seed)))


def _number_of(seed: str) -> int:
    """Return the number of a machine, which is the last word of its seed."""
    return int(seed.split()[-1])


@cache
def loaded(implementation: str) -> Subject:
    """Return an implementation as a soak tries it."""
    subject = Subject(load(implementation))
    # NOTE: what is imported stays; going through all of it after every machine took as long as some machines.
    gc.freeze()
    return subject


def rss_mib() -> float:
    """Return the memory that this process holds; where the system does not tell, the most that it has held."""
    table = Path("/proc/self/statm")
    if table.exists():
        return int(table.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
