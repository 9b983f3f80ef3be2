"""Trials: something is done in a fork of this process, which may die of it."""

import faulthandler
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from specsim.conformance.isolation.heartbeat import Heart, Poisoned, begin_example, listen
from specsim.conformance.isolation.jobs import Fate
from specsim.conformance.isolation.process_limits import (
    UNTIL_DEAD,
    bytes_held,
    describe_status,
    die_with_parent,
    kill_group,
    kill_leftovers,
)
from specsim.conformance.isolation.stopwatch import Stopwatch

PAUSE = 0.002
LONGEST_PAUSE = 0.05
"""Seconds that count at most between two looks, as in the supervisor."""

MOST_WORDS = 4096
POISONED = "poisoned: "


@dataclass(frozen=True)
class Death:
    """How a trial died, what it called last, and how many examples had begun, itself the first."""

    fate: Fate
    words: str
    call: tuple[str, dict[str, Any] | None] | None
    examples: int = 1


def try_apart(action: Callable[[], None], seconds: float, memory: int | None = None) -> tuple[Death | None, float]:
    """Do something in a fork of this process.

    Parameters
    ----------
    action : callable
        What it raises is forgotten.
    seconds : float
        After which it is killed.
    memory : int or None
        Bytes beyond which it is killed.

    Returns
    -------
    death : Death or None
        None where it came to its end.
    spent : float
        Seconds that counted for it.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    heart = Heart.new()
    parent = os.getpid()
    process = os.fork()
    if not process:
        try:
            os.setpgid(0, 0)
            die_with_parent(parent)
            _print_nothing()
            listen(heart)
            begin_example()
            action()
        except Poisoned as poisoned:
            os.write(writing, f"{POISONED}{poisoned}".encode())
        except BaseException:  # NOTE: an implementation may raise anything at all, and a trial asks who survives.
            os.write(writing, b"raised")
        else:
            os.write(writing, b"returned")
        finally:
            os._exit(0)
    os.close(writing)
    try:
        fate, words, spent = _wait(process, seconds, memory)
        last_words = ""
        with suppress(BlockingIOError):  # NOTE: one that does not end keeps the other end open.
            last_words = os.read(reading, MOST_WORDS).decode(errors="replace")
        if last_words.startswith(POISONED):
            words = last_words.removeprefix(POISONED)
        elif last_words and fate is Fate.CRASHED:
            return None, spent
        return Death(fate, words, heart.last_call(), heart.counts()[1]), spent
    finally:
        os.close(reading)
        heart.close()


def _print_nothing() -> None:
    """Discard what is printed: it was printed when the case was found, with where threads stood."""
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _wait(process: int, seconds: float, memory: int | None) -> tuple[Fate, str, float]:
    stopwatch, killed, watched = Stopwatch(process), 0.0, 0.0
    began = stopwatch.lap()
    started = before = time.monotonic()
    fate, words = Fate.CRASHED, ""
    while True:
        ended, status, used = os.wait4(process, os.WNOHANG)
        if ended:
            kill_leftovers(process)
            computed = min(used.ru_utime + used.ru_stime, time.monotonic() - started)
            return fate, words or describe_status(status), max(stopwatch.seconds, computed)
        now = time.monotonic()
        watched, before = watched + min(now - before, LONGEST_PAUSE), now
        stopwatch.look(watched)
        if killed and now - killed > UNTIL_DEAD:
            return fate, f"{words}; process {process} does not end: a driver holds it", stopwatch.seconds
        if not killed and stopwatch.is_over(began, seconds):
            fate, words = Fate.TIMED_OUT, f"has not returned after {seconds:g} seconds"
        elif not killed and memory is not None and (held := bytes_held(process)) > memory:
            words = f"holds {held / 2**20:,.0f} MiB, but should hold at most {memory / 2**20:,.0f}"
        if words:
            killed = killed or now
            kill_group(process)
        time.sleep(PAUSE)
