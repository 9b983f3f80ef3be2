"""What a worker does: take a job, say what came of it, until nobody sends any more."""

import faulthandler
import os
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from specsim.conformance.isolation.beats import Cut, Heart, Poisoned, listen
from specsim.conformance.isolation.jobs import Job
from specsim.conformance.isolation.nature import die_with_parent, go_first

MOST_MESSAGE_BYTES = 1 << 20
"""The longest message between the supervising side and the process that workers are forked from."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker shares with the process that supervises it, and does not inherit."""

    environment: dict[str, str]
    path: list[str]
    folder: str


def live(surroundings: Surroundings, parent: int, connection: int, heart: int, output: int) -> NoReturn:
    """Be a worker until the other end of the connection is closed; never return into the process that was forked."""
    try:
        _settle(surroundings, parent, output)
        _serve(Connection(connection), Heart(heart))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _settle(surroundings: Surroundings, parent: int, output: int) -> None:
    os.setsid()
    die_with_parent(parent)
    go_first()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    # NOTE: whatever an implementation prints goes where its words go, line by line, because it may die.
    sys.stdout = sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(surroundings.environment)
    sys.path[:] = surroundings.path
    os.chdir(surroundings.folder)


def _serve(connection: Connection, heart: Heart) -> NoReturn:
    listen(heart)
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            os._exit(0)
        heart.start(job.limits.longest_turn)
        answer: tuple[str, Any]
        try:
            answer = "done", job.run()
        except Cut:
            answer = "cut", None
        except Poisoned as poisoned:
            answer = "poisoned", str(poisoned)
        except BaseException as error:  # NOTE: an implementation may raise anything at all, when it is imported too.
            answer = "raised", (f"{error}" or type(error).__name__, traceback.format_exc())
        sys.stdout.flush()
        connection.send(answer)
        if answer[0] == "poisoned":
            os._exit(0)
