"""Seconds that count for a process that is tried: those that it computes and those that it sleeps, not those it waits.

On a busy machine a process that could run waits for its turn. A limit that counted these seconds would end what is
only slow, so a process that computes is measured by its CPU seconds, its children's included.
"""

import os
from contextlib import suppress
from pathlib import Path

from specsim.conformance.isolation.process_limits import MOST_PROCESSES, seconds_waited

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SHORTEST_LOOK = 0.05
"""Seconds between two looks at a process: the system counts CPU time in hundredths."""

MOST_STRETCHED = 20.0
"""How many times a limit may pass on the clock of the wall: one that sleeps in short turns has no CPU seconds."""

Lap = tuple[float, float]
"""When something began: seconds that counted until then, and seconds of the wall."""


class Stopwatch:
    """Counts the seconds of one process and what it has started.

    While a thread of theirs is running or could run, CPU seconds count, of all threads together at most those of the
    wall. While all of them sleep, those of the wall count, but not those in which the main thread waited for its turn.

    Parameters
    ----------
    process : int
        The process.
    now : float
        Seconds on the clock of the wall, which may stand still where the process that looks has no turn.
    """

    def __init__(self, process: int, now: float = 0.0) -> None:
        self.seconds = 0.0
        self.wall = now
        self._process = process
        self._cpu, _ = look_at(process)
        self._waited = seconds_waited(process)

    def look(self, now: float) -> None:
        """Count the seconds since the last look."""
        wall = now - self.wall
        if wall < SHORTEST_LOOK:
            return
        cpu, is_runnable = look_at(self._process)
        waited = seconds_waited(self._process)
        computed = min(max(cpu - self._cpu, 0.0), wall)
        self.seconds += computed if is_runnable else max(computed, wall - (waited - self._waited))
        self.wall, self._cpu, self._waited = now, cpu, waited

    def lap(self) -> Lap:
        """Return when something begins."""
        return self.seconds, self.wall

    def since(self, lap: Lap) -> float:
        """Return the seconds that counted since then."""
        return self.seconds - lap[0]

    def is_over(self, lap: Lap, seconds: float) -> bool:
        """Return whether a limit of so many seconds has passed since then."""
        return self.since(lap) > seconds or self.wall - lap[1] > MOST_STRETCHED * seconds


def look_at(process: int) -> tuple[float, bool]:
    """Return CPU seconds of a process and its descendants, and whether a thread of theirs runs or could run.

    Where the system does not tell it, that is 0.0 and False: seconds of the wall count.
    """
    cpu, is_runnable = 0.0, False
    found = [process]
    for one in found:
        with suppress(OSError, ValueError, IndexError):
            cpu += sum(map(int, _status(f"{one}")[11:15])) / TICKS_PER_SECOND
            for task in os.listdir(f"/proc/{one}/task"):
                is_runnable |= _status(f"{one}/task/{task}")[0] == "R"
                children = Path(f"/proc/{one}/task/{task}/children").read_text().split()
                found += map(int, children[: max(MOST_PROCESSES - len(found), 0)])
    return cpu, is_runnable


def _status(place: str) -> list[str]:
    """Return the fields of a process or a thread from its state on."""
    return Path(f"/proc/{place}/stat").read_text().rpartition(")")[2].split()
