"""The options that bound what an implementation may take, and the workers that it runs in."""

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from specsim.assertion import require_kind
from specsim.cli.device import OVER_A_PIPE, choose_device_for, import_implementation, load_implementation
from specsim.cli.output import Exit, Failed, aside, in_one_line, notice, remark
from specsim.conformance.isolation.fork_client import warm_fork_server
from specsim.conformance.isolation.jobs import CannotStart, DiedAtStart, Job, Limits
from specsim.conformance.isolation.process_limits import cores
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.known import version_of
from specsim.conformance.piping.command import PREFIX
from specsim.conformance.plain_text import printable, shown

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.wanted import Prepared

MIB = 2**20
SHARE_OF_MEMORY = 0.75
PRELOAD = ("specsim.cli.isolation", "specsim.properties.suite.conformance.preload", "torch")
PREPARE = "specsim.cli.isolation:prepare"
PRELOAD_ENGINES = ("specsim.cli.isolation", "specsim.properties.matrix.units")
"""Without torch, which half of an implementation's workers need not: how memory grows shows beside what is there."""

PREPARE_ENGINE = "specsim.cli.isolation:prepare_engine"
SECONDS = click.FloatRange(0, min_open=True)


@dataclass(frozen=True)
class Profile:
    """What a check takes where nothing else is said: examples, seconds of a property and of the run, processes.

    Without a number of processes there is one a core.
    """

    examples: int
    slow_examples: int | None = None
    timeout: float | None = None
    budget: float | None = None
    jobs: int | None = 1


PROFILES = {
    "smoke": Profile(examples=10, slow_examples=1, timeout=20.0, budget=150.0, jobs=None),
    "ci": Profile(examples=40, timeout=60.0),
    "full": Profile(examples=300),
}
DEFAULT = Profile(examples=40)

SIZES = {"nodes": "nodes", "vocab": "words", "requests": "requests"}
"""What is counted, by the name of the option that bounds it."""

LEAST = {"nodes": 2}

CALL_TIMEOUT = click.option(
    "--call-timeout", default=20.0, show_default=True, type=SECONDS, help="Time limit of a call, in seconds."
)
TIMEOUT = click.option("--timeout", type=SECONDS, help="Time limit of a property or a case, in seconds.")
MAX_MEMORY = click.option(
    "--max-memory",
    type=click.IntRange(64),
    metavar="MIB",
    help="Memory limit of a worker process, in MiB.  [default: 3/4 of all]",
)
START_TIMEOUT = click.option(
    "--start-timeout",
    default=120.0,
    show_default=True,
    type=SECONDS,
    help="Time limit of the import of IMPL, in seconds.",
)


def with_command(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--command`` to a command, which gets what is named in its place as ``implementation``, None for nothing."""

    @functools.wraps(command)
    def called(*, implementation: str | None, command_line: str | None, **others: Any) -> None:
        if implementation is not None and command_line is not None:
            raise Failed(f"--command is {command_line}, and {implementation} is another implementation", Exit.USAGE)
        command(implementation=implementation if command_line is None else f"{PREFIX}{command_line}", **others)

    over_a_pipe = "Call this program over a pipe, in the place of a module; no shell runs it."
    return click.option("--command", "command_line", metavar="LINE", help=over_a_pipe)(called)


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``limits``."""
    return CALL_TIMEOUT(TIMEOUT(MAX_MEMORY(START_TIMEOUT(_taking_limits(command)))))


def with_limits_of_calls(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command that cuts nothing, which gets them as ``limits``."""
    return CALL_TIMEOUT(MAX_MEMORY(START_TIMEOUT(_taking_limits(command))))


def _taking_limits(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def called(
        *,
        call_timeout: float,
        max_memory: int | None,
        start_timeout: float,
        timeout: float | None = None,
        **others: Any,
    ) -> None:
        memory = default_memory() if max_memory is None else max_memory * MIB
        command(limits=Limits(call_timeout, timeout, memory, start_timeout), **others)

    return called


def with_sizes(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the largest sizes to a command, which gets them as ``most``, by what they count."""

    @functools.wraps(command)
    def called(**others: Any) -> None:
        given = {counted: others.pop(f"max_{name}") for name, counted in SIZES.items()}
        command(most={counted: size for counted, size in given.items() if size is not None}, **others)

    for name, counted in reversed(SIZES.items()):
        least = click.IntRange(LEAST.get(name, 1))
        called = click.option(f"--max-{name}", type=least, help=f"Limit on the {counted} of a case.")(called)
    return called


def default_memory() -> int:
    """Return the bytes that a worker may hold where no one says so: most of what this machine has."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE_OF_MEMORY)


def options_of(limits: Limits) -> dict[str, object]:
    """Return what a user types where a line is to run something again, None where that goes without saying."""
    unless = Limits(memory=default_memory())
    return {
        "call-timeout": None if limits.call == unless.call else limits.call,
        "timeout": limits.job,
        "max-memory": None if limits.memory == unless.memory else (limits.memory or 0) // MIB,
    }


def words_of(limits: Limits) -> str:
    """Return these options as they are typed after others."""
    return "".join(f" --{name} {value}" for name, value in options_of(limits).items() if value is not None)


def bounded_jobs(jobs: int) -> int:
    """Return how many processes are started: no more than can run at once."""
    most = cores()
    if jobs > most:
        remark(f"--jobs is {jobs}, and {most} processes can run at once: {most} are started")
    return min(jobs, most)


def prepare(implementation: str) -> dict[str, Any]:
    """Load an implementation in a worker, and return what it is, or why it cannot be tried, as plain values."""
    from specsim.properties.reach.sizes import is_interpreted
    from specsim.properties.suite.conformance.selection import Described
    from specsim.properties.suite.conformance.wanted import Prepared, Unprepared

    warn_in_one_line()
    try:
        backend = load_implementation(implementation)
    except Failed as failed:
        return Unprepared(str(failed), failed.code).as_plain()
    device = choose_device_for(implementation)
    uses_gpu = device not in ("absent", OVER_A_PIPE) and not device.startswith("CPU")
    version = version_of(sys.modules[implementation])
    remarks = tuple(shown(str(remark)) for remark in vars(sys.modules[implementation]).get("REMARKS", ()))
    prepared = Prepared(
        Described.of(backend),
        device,
        is_interpreted(backend),
        uses_gpu,
        backend.limits,
        "" if version is None else str(version),
        remarks,
    )
    return prepared.as_plain()


def prepare_engine(implementation: str) -> dict[str, Any] | None:
    """Load an implementation in a worker, where the supervising side has chosen a device; return why it cannot be."""
    from specsim.properties.suite.conformance.wanted import Unprepared

    warn_in_one_line()
    try:
        import_implementation(implementation)
    except Failed as failed:
        return Unprepared(str(failed), failed.code).as_plain()
    return None


def begin_to_import() -> None:
    """Let the process that workers are forked from import the suite while this one does."""
    warm_fork_server(PRELOAD)


@contextmanager
def workers(implementation: str, jobs: int, limits: Limits) -> Iterator[tuple[Supervisor, "Prepared"]]:
    """Start workers that have loaded an implementation; whatever becomes of the block, none of them is left.

    Raises
    ------
    Failed
        UNAVAILABLE: it does not import, or the process that imports it dies or hangs; USAGE: what it declares makes no
        sense.
    """
    from specsim.properties.suite.conformance.wanted import Prepared

    job = Job(("its import", 0), PREPARE, (implementation,), replace(limits, job=None))
    with _started(implementation, job, jobs, PRELOAD) as supervisor:
        yield supervisor, require_kind("what a worker says of an implementation", supervisor.prepared, Prepared)


@contextmanager
def engine_workers(implementation: str, jobs: int, limits: Limits) -> Iterator[Supervisor]:
    """Start workers that build engines around an implementation, as above."""
    job = Job(("its import", 0), PREPARE_ENGINE, (implementation,), limits)
    with _started(implementation, job, jobs, PRELOAD_ENGINES) as supervisor:
        yield supervisor


@contextmanager
def _started(implementation: str, job: Job, jobs: int, preload: Sequence[str]) -> Iterator[Supervisor]:
    from specsim.properties.suite.conformance.wanted import Unprepared, prepared_from

    notice(f"importing {implementation} …")
    job = replace(job, read=prepared_from)
    with Supervisor(jobs, job, preload, on_output=pass_on) as supervisor:
        try:
            prepared = supervisor.start()
            if isinstance(prepared, Unprepared):
                raise Failed(prepared.words, Exit(prepared.code))
            yield supervisor
        except DiedAtStart as error:
            raise Failed(f"{implementation} does not import: {error}", Exit.UNAVAILABLE) from error
        except CannotStart as error:
            raise Failed(str(error), Exit.UNAVAILABLE) from error
        finally:
            supervisor.close()
            for line in held_in_words(supervisor):
                remark(line)


@contextmanager
def replay_workers() -> Iterator[Supervisor]:
    """Start a worker that loads whatever it is asked to."""
    job = Job(("its import", 0), "specsim.cli.isolation:nothing")
    with Supervisor(1, job, PRELOAD, on_output=pass_on) as supervisor:
        try:
            yield supervisor
        finally:
            supervisor.close()
            for line in held_in_words(supervisor):
                remark(line)


def held_in_words(supervisor: Supervisor) -> Iterator[str]:
    """Yield a line for every process that was killed and is still there, with the property or the case that it ran."""
    for process, job in supervisor.held.items():
        doing = "" if job is None else f", which ran {job.key[0]},"
        yield f"process {process}{doing} does not end: a driver holds it"


def nothing() -> None:
    """Be ready as it is."""


def pass_on(printed: bytes) -> None:
    """Show on stderr what an implementation prints: stdout is for the report alone."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError), aside():  # NOTE: its reader may have gone.
            sys.stderr.write(printable(printed.decode(errors="replace")))


def warn_in_one_line() -> None:
    """Let a worker print what a warning says, and not where."""
    warnings.showwarning = lambda message, *place, **how: print(in_one_line(message), file=sys.stderr)
