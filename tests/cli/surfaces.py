"""A command that runs once on this terminal, and is then shown on other terminals and in files.

``python -m tests.cli.surfaces FILE SURFACES ARGUMENT…`` runs ``specsim ARGUMENT…``. What took its time, the tries of a
module, is kept; forks run the command again, take what was kept, and write to terminals and files of their own.
"""

import copy
import fcntl
import functools
import json
import os
import pty
import struct
import sys
import tempfile
import termios
from contextlib import contextmanager

import specsim.properties.soak.run
import specsim.properties.suite.conformance.isolated
from specsim.cli import check, soak
from specsim.cli.checking import excluded
from specsim.cli.interrupts import listen
from specsim.cli.main import main


def once(function):
    """Return a function that is called once, whatever it is given later."""
    kept = []

    @functools.wraps(function)
    def called(*arguments, **named):
        if not kept:
            kept.append(function(*arguments, **named))
        return copy.deepcopy(kept[0])

    return called


def once_entered(manager):
    """Return a context manager likewise."""
    kept = []

    @contextmanager
    def entered(*arguments, **named):
        if kept:
            yield kept[0]
            return
        with manager(*arguments, **named) as made:
            kept.append(made)
            yield made

    return entered


def once_checked(check_isolated):
    """Return the function that runs a check likewise; it names the same failures again."""
    found = []
    report = once(check_isolated)

    @functools.wraps(check_isolated)
    def called(supervisor, wanted, prepared, prepare, on_failure, on_progress):
        def keep(failure):
            found.append(failure)
            on_failure(failure)

        before = list(found)
        ended = report(supervisor, wanted, prepared, prepare, keep, on_progress)
        for failure in before:
            on_failure(failure)
        return ended

    return called


def compute_once():
    """Keep what takes time of what commands do."""
    isolated, machines = specsim.properties.suite.conformance.isolated, specsim.properties.soak.run.Soak
    isolated.check_isolated = once_checked(isolated.check_isolated)
    machines.run, machines.shortest = once(machines.run), once(machines.shortest)
    check.workers, soak.engine_workers = once_entered(check.workers), once_entered(soak.engine_workers)
    check.begin_to_import = once(check.begin_to_import)
    excluded.beyond = once(excluded.beyond)


def shown_on(surface):
    """Return the exit code of the command, and all that it writes, on a terminal or to a file."""
    if not surface["is_terminal"]:
        with tempfile.TemporaryFile() as file:
            code = os.waitstatus_to_exitcode(os.waitpid(started_on(file.fileno(), surface), 0)[1])
            file.seek(0)
            return code, file.read().decode()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, surface["columns"], 0, 0))
    child = started_on(theirs, surface)
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # NOTE: the last one who writes has left.
        pass
    os.close(ours)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), written.decode()


def started_on(stream, surface):
    """Return a fork that runs the command, and writes to a stream."""
    child = os.fork()
    if not child:
        for number in (1, 2):
            os.dup2(stream, number)
        os.environ.update(surface["environment"])
        os._exit(ended())
    return child


def ended():
    """Run the command with streams of its own, and return its exit code."""
    sys.stdout, sys.stderr = map(_stream, (1, 2))
    listen()
    try:
        main(prog_name="specsim")
    except SystemExit as left:
        return left.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _stream(number):
    return os.fdopen(number, "w", encoding="utf-8", closefd=False)


if __name__ == "__main__":
    file, surfaces, *arguments = sys.argv[1:]
    sys.argv = ["specsim", *arguments]
    compute_once()
    code = ended()
    with open(file, "w", encoding="utf-8") as results:
        json.dump([shown_on(surface) for surface in json.loads(surfaces)], results)
    sys.exit(code)
