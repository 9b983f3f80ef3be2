"""Runs a command as a stranger would and judges how it ends: no raw error, no hang, no process left, no lie."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "SPECSIM_ATTEMPT"
"""The environment variable that tells the processes of an attempt."""

MOST_SECONDS = 60.0
MOST_PRINTED = 1 << 20
SECONDS_TO_GO = 2.0
"""After the command has ended, for the processes that it started."""

RAW = re.compile(r"^(?:Traceback \(most recent call last\)|Exception ignored in)", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``left`` are the processes that it left, with their command lines."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float
    left: tuple[str, ...] = ()


@dataclass
class Attempt:
    """A command, the exit codes that are right, and words that have to stand in what it prints."""

    name: str
    arguments: Sequence[str]
    codes: tuple[int, ...]
    folder: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    words: str = ""
    python: Sequence[str] = ()
    most_seconds: float = MOST_SECONDS


def run(attempt: Attempt, wrapped: Sequence[str] = ()) -> Ran:
    """Run a command to its end, or kill it after its time, and look for processes that it leaves."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark, "NO_COLOR": "1"}
    for name, value in attempt.environment.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    command = [*wrapped, sys.executable, *attempt.python, "-m", "specsim", *attempt.arguments]
    began = time.monotonic()
    with (attempt.folder / "out").open("wb") as out, (attempt.folder / "err").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=attempt.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(attempt.most_seconds)
        except subprocess.TimeoutExpired:
            code = None
    seconds = time.monotonic() - began
    left = processes_left(mark) if code is not None else ()
    end_all(mark)
    process.wait()
    texts = [
        (attempt.folder / name).read_bytes()[: 4 * MOST_PRINTED].decode(errors="replace") for name in ("out", "err")
    ]
    return Ran(code, *texts, seconds, left)


def processes_of(mark: str) -> dict[int, str]:
    """Return the processes that were started with a mark, or by such ones, with their command lines."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(folder.name)] = line.strip()
    return found


def processes_left(mark: str) -> tuple[str, ...]:
    """Return what is still there some time after its command has ended."""
    until = time.monotonic() + SECONDS_TO_GO
    while (left := processes_of(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return tuple(left.values())


def end_all(mark: str) -> None:
    """Kill whatever an attempt left."""
    for process in processes_of(mark):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def complaints(attempt: Attempt, ran: Ran) -> list[str]:
    """Return everything that is wrong about how a command ended."""
    wrong = []
    if ran.code is None:
        return [f"hang: no end after {attempt.most_seconds:g} seconds"]
    if ran.code not in attempt.codes:
        wrong.append(f"exit code {ran.code}, but should be {' or '.join(map(str, attempt.codes))}")
    if ran.left:
        wrong.append(f"left: {'; '.join(ran.left)[:200]}")
    for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
        if (raw := RAW.search(text)) and is_ours(text[raw.start() :]):
            wrong.append(f"raw error on {name}: {text.strip().splitlines()[-1][:200]}")
        if control := CONTROL.search(text):
            wrong.append(f"control character {control.group()!r} on {name}")
        if len(text) > MOST_PRINTED:
            wrong.append(f"{len(text):,} characters on {name}")
    if attempt.words not in ran.stdout + ran.stderr:
        wrong.append(f"without the words {attempt.words!r}")
    if (attempt.folder / "owned").exists():
        wrong.append("the supervising process ran what was sent to it")
    return wrong


def is_ours(text: str) -> bool:
    """Return whether a raw error is one of the process that supervises, or of one that workers are forked from."""
    return any(one in text for one in ("specsim/cli/", "specsim/__main__", "isolation/worker", "isolation/fork_server"))


def tally(what: str, judged: Iterable[tuple[str, Sequence[str]]]) -> int:
    """Print every attempt that was mishandled, and how many there were of each; return the exit code.

    Parameters
    ----------
    judged : iterable of (str, sequence of str)
        The name of each attempt, and what is wrong with it.
    """
    tried = mishandled = 0
    for name, wrong in judged:
        tried += 1
        mishandled += bool(wrong)
        if wrong:
            print(f"{name}: {'; '.join(wrong)}", flush=True)
    print(f"{what}: {tried} tried, {mishandled} mishandled")
    return int(mishandled > 0)
