"""What a worker does: take a job, say what came of it, until no one sends any more."""

import faulthandler
import os
import resource
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from specsim.conformance.isolation.heartbeat import Cut, Heart, Poisoned, listen
from specsim.conformance.isolation.jobs import run_function
from specsim.conformance.isolation.messages import (
    CutShort,
    DeviceRefuses,
    Message,
    answered,
    raised,
    receive_job,
    send_message,
)
from specsim.conformance.isolation.process_limits import die_with_parent, go_first

MOST_MESSAGE_BYTES = 1 << 20
"""The longest message between the supervising side and the process that workers are forked from."""

BORN, ENDED = 0, 1
NEWS = struct.Struct("<Bqq")
"""What the process that workers are forked from says of one: that it is born or has ended, its number, its status."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker shares with the process that supervises it, and does not inherit."""

    environment: dict[str, str]
    path: list[str]
    folder: str


SECONDS_OF_A_THREAD = 1e-5
"""How long a thread that a module has left keeps the interpreter, for whose lock a call asks again and again."""


def live(surroundings: Surroundings, parent: int, connection: int, heart: int, output: int) -> NoReturn:
    """Be a worker until the other end of the connection is closed; never return into the process that was forked."""
    try:
        _settle(surroundings, parent, output)
        _serve(socket.socket(fileno=connection), Heart(heart, surroundings.folder))
    except OSError:
        os._exit(71)  # NOTE: what is tried has closed the descriptors of this process.
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
    sys.setswitchinterval(SECONDS_OF_A_THREAD)
    os.chdir(surroundings.folder)


def _serve(connection: socket.socket, heart: Heart) -> NoReturn:
    listen(heart)
    while (job := receive_job(connection)) is not None:
        function, arguments, seconds = job
        heart.start(seconds)
        message: Message
        try:
            message = answered(run_function(function, arguments))
        except Cut:
            message = CutShort()
        except Poisoned as poisoned:
            message = DeviceRefuses(str(poisoned))
        except BaseException as error:  # NOTE: an implementation may raise anything at all, when it is imported too.
            message = raised(error)
        with suppress(Exception):  # NOTE: what is tried may have put anything in the place of stdout.
            sys.stdout.flush()
        send_message(connection, message)
        if isinstance(message, DeviceRefuses):
            os._exit(0)
    os._exit(0)
