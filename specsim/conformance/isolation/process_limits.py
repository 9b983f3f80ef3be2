"""Limits and signals of processes on this system: dying with the parent, orphans, memory and time."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MOST_PROCESSES = 256
"""Of those that a process has started, how many are looked at."""

UNTIL_DEAD = 1.0
"""Seconds until a process that was killed is gone, unless a driver holds it."""


def die_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends, where the system can do that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Let processes become children of this one whose parents, descendants of this one, have ended."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_orphans(children: Collection[int]) -> None:
    """Kill every child of this process but some, and theirs."""
    until = time.monotonic() + UNTIL_DEAD
    while (orphans := _children_of(os.getpid()) - set(children)) and time.monotonic() < until:
        for process in orphans:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.001)


def _children_of(parent: int) -> set[int]:
    """Return the processes of a parent, none where the system does not tell."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.add(int(folder.name))
    return found


def go_first() -> None:
    """Be the process that ends when the whole machine runs out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def bytes_held(process: int) -> int:
    """Return the most memory that a process or one that it has started holds, 0 where the system does not tell.

    Only what main threads have started is looked at, because this is asked every few milliseconds.
    """
    most, found = 0, [process]
    for one in found:
        with suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
            most = max(most, pages * os.sysconf("SC_PAGE_SIZE"))
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
            found += map(int, children[: max(MOST_PROCESSES - len(found), 0)])
    return most


def seconds_waited(process: int) -> float:
    """Return how long a process that could run waited for its turn, 0.0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def is_there(process: int) -> bool:
    """Return whether a process is alive; one that has ended and waits to be collected is not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def kill_group(process: int) -> None:
    """Kill a process that leads a group, and everything in the group."""
    kill_leftovers(process)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def kill_leftovers(process: int) -> None:
    """Kill everything in the group that a process led; its own number may be another's by now."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def describe_status(status: int) -> str:
    """Say how a process ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(ValueError):
            return f"killed by {signal.Signals(number).name}"
        return f"killed by signal {number}"
    return f"left with exit code {os.waitstatus_to_exitcode(status)}"


def cores() -> int:
    """Return how many processes can run at once."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
