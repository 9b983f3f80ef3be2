"""The supervising side of the process that workers are forked from."""

import atexit
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from specsim.conformance.isolation.heartbeat import Heart
from specsim.conformance.isolation.jobs import CannotStart
from specsim.conformance.isolation.messages import Channel
from specsim.conformance.isolation.process_limits import kill_group
from specsim.conformance.isolation.worker import BORN, MOST_MESSAGE_BYTES, NEWS, Surroundings

ROOT = Path(__file__).parents[3]


class ForkedWorker:
    """A worker as its supervisor holds it: its process, the way to talk to it, its heart, and what it prints."""

    def __init__(self, process: int, channel: Channel, heart: Heart, output: int) -> None:
        self.process = process
        self.channel = channel
        self.heart = heart
        self.output = output

    def close(self) -> None:
        """Let go of everything but the process."""
        with suppress(OSError):
            self.channel.close()
        self.heart.close()
        os.close(self.output)


class ForkServer:
    """Forks workers off a process that has imported some modules; ``ends`` has the statuses of those that ended."""

    def __init__(self, preload: Sequence[str]) -> None:
        self.ends: dict[int, int] = {}
        self._born: list[int] = []
        self._owner = os.getpid()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self._fork_server = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "specsim.conformance.isolation.fork_server",
                str(theirs.fileno()),
                str(os.getpid()),
            ],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        atexit.register(self.close)
        theirs.close()
        self._send((sys.path, tuple(preload)))

    @property
    def is_alive(self) -> bool:
        """Whether it can fork another."""
        return self._fork_server.poll() is None

    def fork(self, surroundings: Surroundings) -> ForkedWorker:
        """Fork a worker.

        Raises
        ------
        CannotStart
            The process that workers are forked from is gone, or the system has no room for another.
        """
        with ExitStack() as unless_born, ExitStack() as theirs:
            try:
                heart = Heart.new()
                unless_born.callback(heart.close)
                mine, connection = socket.socketpair()
                unless_born.enter_context(mine)
                theirs.enter_context(connection)
                reading, writing = os.pipe()
                unless_born.callback(os.close, reading)
                theirs.callback(os.close, writing)
                os.set_blocking(reading, False)
                self.control.setblocking(True)
                theirs.callback(self.control.setblocking, False)
                self._send(surroundings, connection.fileno(), heart.fileno(), writing)
                while not self._born:
                    self._receive()
            except OSError as error:
                raise CannotStart(f"no process can be started: {error.strerror}") from error
            unless_born.pop_all()
        return ForkedWorker(self._born.pop(), Channel(mine), heart, reading)

    def look(self) -> None:
        """Take in which workers have ended.

        Raises
        ------
        CannotStart
            The process that workers are forked from is gone.
        """
        with suppress(BlockingIOError):
            while True:
                self._receive()

    def close(self) -> None:
        """End the process, and with it every worker."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        self.control.close()
        kill_group(self._fork_server.pid)
        with suppress(subprocess.TimeoutExpired):
            self._fork_server.wait(1.0)

    def _send(self, value: object, *descriptors: int) -> None:
        """Send a value of any length, an environment for example, which no packet may hold: in a file in memory."""
        with open(os.memfd_create("specsim-message"), "wb") as file:
            pickle.dump(value, file)
            file.flush()
            socket.send_fds(self.control, [b"\0"], [file.fileno(), *descriptors])

    def _receive(self) -> None:
        message = b""
        with suppress(ConnectionError):
            message = self.control.recv(MOST_MESSAGE_BYTES)
        if not message:
            raise CannotStart("the process that workers are forked from is gone")
        kind, process, status = NEWS.unpack(message)
        if kind == BORN:
            self._born.append(process)
        else:
            self.ends[process] = status


@cache
def _warm(preload: tuple[str, ...]) -> list[ForkServer]:
    return []


def warm_fork_server(preload: Sequence[str]) -> ForkServer:
    """Return the fork server of this process for some modules; it ends with this process."""
    kept = _warm(tuple(preload))
    if not kept or not kept[0].is_alive:
        kept[:] = [ForkServer(preload)]
    return kept[0]
