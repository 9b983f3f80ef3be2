"""A process that has imported what workers need and runs nothing of it: every worker is a fork of it, ready at once.

``python -m specsim.conformance.isolation.fork_server DESCRIPTOR`` talks over a socket, which workers do not have.
It takes pickles in files from the process that supervises, and sends ``NEWS``.
"""

import importlib
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from specsim.conformance.isolation.process_limits import adopt_orphans, die_with_parent, kill_orphans
from specsim.conformance.isolation.worker import BORN, ENDED, MOST_MESSAGE_BYTES, NEWS, Surroundings, live

NUM_DESCRIPTORS = 4


def main(descriptor: int, parent: int) -> None:
    """Fork a worker for every message, and tell how each of them ends."""
    die_with_parent(parent)
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    path, preload = _value_of(socket.recv_fds(control, MOST_MESSAGE_BYTES, NUM_DESCRIPTORS)[1][0])
    sys.path[:] = path
    for name in preload:
        with suppress(ImportError):
            importlib.import_module(name)
    alive: set[int] = set()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([control.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _tell_ends(control, alive)
        if control.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(control, MOST_MESSAGE_BYTES, NUM_DESCRIPTORS)
            if not message:
                os._exit(0)
            alive.add(_fork(control, (wake, woken), _value_of(descriptors[0]), descriptors[1:]))


def _value_of(descriptor: int) -> Any:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return pickle.load(file)


def _fork(control: socket.socket, pipe: tuple[int, int], surroundings: Surroundings, descriptors: list[int]) -> int:
    parent = os.getpid()
    process = os.fork()
    if not process:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for end in pipe:
            os.close(end)
        live(surroundings, parent, *descriptors)
    for one in descriptors:
        os.close(one)
    control.send(NEWS.pack(BORN, process, 0))
    return process


def _tell_ends(control: socket.socket, alive: set[int]) -> None:
    for process in list(alive):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            alive.discard(process)
            # NOTE: what a worker started in a session of its own comes here when the worker ends.
            kill_orphans(alive)
            control.send(NEWS.pack(ENDED, process, status))


if __name__ == "__main__":
    with suppress(ConnectionError):  # NOTE: the supervisor has ended.
        main(*map(int, sys.argv[1:]))
