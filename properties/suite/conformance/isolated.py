"""The suite in processes that may die: who crashes or hangs an operation is named, and the run goes on."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from specsim.conformance.isolation.jobs import CannotStart, Job
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.properties.suite.conformance.budget import Budget
from specsim.properties.suite.conformance.report import Report
from specsim.properties.suite.conformance.run import Prepare, Reported, Run
from specsim.properties.suite.conformance.wanted import Prepared, Wanted
from specsim.properties.unit_of_work import stopped_by

ELSEWHERE = ("/dev/shm", ".")
"""Where a run keeps things if there is no folder for temporary ones."""


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for what a run keeps meanwhile, wherever that can be done, and take it away after it."""
    with ExitStack() as kept:
        for place in (None, *ELSEWHERE):
            with suppress(OSError):
                folder = tempfile.TemporaryDirectory(prefix="specsim-run-", dir=place, ignore_cleanup_errors=True)
                break
        else:
            folder = tempfile.TemporaryDirectory(prefix="specsim-run-", ignore_cleanup_errors=True)
        yield Path(kept.enter_context(folder))


def check_isolated(
    supervisor: Supervisor,
    wanted: Wanted,
    prepared: Prepared,
    prepare: Prepare,
    on_failure: Reported,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Run the suite in the workers of a supervisor.

    Parameters
    ----------
    prepared, prepare : Prepared, callable
        What the supervisor's workers came to when they were made ready, and how.
    on_failure : callable
        Called with each failure when it is found.
    on_progress : callable or None
        Called with the name of a property, how many units are done, and how many there are.

    Returns
    -------
    report : Report
        Also of a run that is interrupted: what it came to so far.
    """
    with run_folder() as folder:
        run = Run(wanted, prepared, prepare, folder, on_failure)
        try:
            jobs = list(run.jobs())
            budget = Budget(wanted.budget, wanted.spent, wanted.jobs, len(jobs), lambda: supervisor.seconds)
            for job in jobs:
                supervisor.submit(job)

            def dispatch(job: Job) -> Job | str:
                chosen = budget.dispatch(job)
                return chosen if isinstance(chosen, str) else run.dispatch(chosen)

            for done, event in enumerate(supervisor.events(dispatch, budget.until), 1):
                more = run.take(event)
                if more is not None:
                    supervisor.submit(more, first=more.is_apart)
                if on_progress is not None:
                    on_progress(_name_of(event.job, supervisor.running()), min(done, len(jobs)), len(jobs))
        except KeyboardInterrupt:
            return run.report("interrupted", is_interrupted=True)
        except CannotStart as error:
            return run.report(stopped_by(error))
        return run.report()


def _name_of(ended: Job, running: list[Job]) -> str:
    name: Any = (running or [ended])[0].key[0]
    return str(name)
