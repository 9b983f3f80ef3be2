"""Hands jobs to workers and watches them: who dies, hangs or holds too much is named, and the others go on."""

import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from specsim.conformance.isolation.fork_client import warm_fork_server
from specsim.conformance.isolation.jobs import CannotStart, DiedAtStart, Done, Fate, Job, Lost, Skipped
from specsim.conformance.isolation.messages import (
    Answered,
    CutShort,
    DeviceRefuses,
    Message,
    NoMessage,
    decode_answer,
)
from specsim.conformance.isolation.monitor import Monitor
from specsim.conformance.isolation.process_limits import UNTIL_DEAD, is_there, kill_group, kill_leftovers
from specsim.conformance.isolation.worker import Surroundings
from specsim.conformance.plain_text import words_of

TICK = 0.1
"""Seconds between two looks at the workers."""

LONGEST_TICK = 0.25
"""Seconds that count at most between two looks: where this process did not get its turn, no one else hung either."""

OUT_OF_TIME = "the time of the run is over"
MOST_LOST_STARTS = 3
"""Processes in a row that are lost while they become ready, after which a run ends."""

FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""What another process ends one with."""

Event = Done | Lost | Skipped
Dispatch = Callable[[Job], Job | str]


def as_it_is(job: Job) -> Job:
    """Let every job run with the limits that it brings."""
    return job


class Supervisor:
    """Runs jobs in workers, at most ``num_workers`` of them at once; each worker runs ``prepare`` first.

    Parameters
    ----------
    num_workers : int
        Processes.
    prepare : Job
        What makes a process ready; ``prepared`` is what it returned first.
    preload : sequence of str
        Modules that workers find imported.
    on_output : callable or None
        Called with what workers print, in bytes, as far as it is kept.

    Attributes
    ----------
    held : dict of int to Job or None
        Processes that were killed and did not end, because a driver holds them, with what they did.
    seconds : float
        The clock of the run: seconds that counted for the workers that had something to do, on average.
    """

    def __init__(
        self,
        num_workers: int,
        prepare: Job,
        preload: Sequence[str] = (),
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        self.held: dict[int, Job | None] = {}
        self.prepared: object = None
        self._num_workers = num_workers
        self._prepare = prepare
        self._on_output = on_output
        self._fork_server = warm_fork_server(preload)
        self._queue: deque[Job] = deque()
        self._monitors: list[Monitor] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._fork_server.control, selectors.EVENT_READ)
        self._watched = self.seconds = 0.0
        self._lost_starts, self._was_ready = 0, False

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, job: Job, first: bool = False) -> None:
        """Queue a job, in front of the others or after them."""
        if first:
            self._queue.appendleft(job)
        else:
            self._queue.append(job)

    def start(self) -> object:
        """Make one worker ready, and return what its preparation returned.

        Raises
        ------
        CannotStart
            The preparation raises, dies or hangs.
        """
        self._fork(self._prepare, is_apart=False)
        while self._monitors[0].is_starting:
            for _ in self._turn():
                pass
            if not self._monitors:
                self._fork(self._prepare, is_apart=False)
        return self.prepared

    def events(self, dispatch: Dispatch = as_it_is, until: float | None = None) -> Iterator[Event]:
        """Run what is queued, also what is queued meanwhile, and yield what becomes of each job.

        Parameters
        ----------
        dispatch : callable
            Is asked just before a job begins: returns it, with other limits perhaps, or says why it is skipped.
        until : float or None
            When what still runs is cut, on the clock ``seconds``.

        Raises
        ------
        CannotStart
            A process cannot be made ready.
        """
        while self._queue or any(one.job is not None for one in self._monitors):
            yield from self._assign(dispatch)
            yield from self._turn()
            if until is not None and self.seconds > until:
                for monitor in [one for one in self._monitors if one.job is not None]:
                    yield from self._end(monitor)

    def abandon(self) -> None:
        """Take every job back; workers that run one are killed, and nothing is said of what becomes of it."""
        self._queue.clear()
        for monitor in [one for one in self._monitors if one.job is not None]:
            self._retire(monitor, kill=True)

    def close(self) -> None:
        """Kill every worker; those that do not end within a second are ``held``."""
        for monitor in self._monitors:
            kill_group(monitor.process)
        until = time.monotonic() + UNTIL_DEAD
        for monitor in list(self._monitors):
            self._retire(monitor, until=until)
        self._queue.clear()
        self._selector.close()

    def running(self) -> list[Job]:
        """Return the jobs that have begun."""
        return [one.job for one in self._monitors if one.job is not None and not one.is_starting]

    def _assign(self, dispatch: Dispatch) -> Iterator[Event]:
        while self._queue:
            idle = next((one for one in self._monitors if one.job is None), None)
            busy = sum(one.job is not None for one in self._monitors)
            if busy >= self._num_workers:
                return
            chosen = dispatch(job := self._queue.popleft())
            if isinstance(chosen, str):
                yield Skipped(job, chosen)
            elif chosen.is_apart:
                if idle is not None and len(self._monitors) >= self._num_workers:
                    self._retire(idle, kill=True)
                self._fork(chosen, is_apart=True)
            elif idle is not None:
                idle.give(chosen)
            else:
                self._fork(self._prepare, is_apart=False).following = chosen

    def _fork(self, job: Job, is_apart: bool) -> Monitor:
        surroundings = Surroundings(dict(os.environ), list(sys.path), os.getcwd())
        monitor = Monitor(self._fork_server.fork(surroundings), self._on_output, self._watched)
        self._monitors.append(monitor)
        self._selector.register(monitor.forked.channel, selectors.EVENT_READ, monitor)
        self._selector.register(monitor.forked.output, selectors.EVENT_READ, monitor)
        monitor.is_starting = not is_apart
        monitor.give(job)
        return monitor

    def _turn(self) -> Iterator[Event]:
        before = time.monotonic()
        ready = self._selector.select(TICK)
        for key, _ in ready:
            if key.data is not None and key.fileobj == key.data.forked.output and not key.data.drain():
                self._selector.unregister(key.data.forked.output)
        self._fork_server.look()
        self._look(min(time.monotonic() - before, LONGEST_TICK))
        for monitor in list(self._monitors):
            yield from self._look_at(monitor)

    def _look(self, passed: float) -> None:
        """Let the clocks go on by the seconds that have passed."""
        self._watched += passed
        busy = [one.stopwatch for one in self._monitors if one.job is not None]
        counted = -sum(one.seconds for one in busy)
        for monitor in self._monitors:
            monitor.stopwatch.look(self._watched)
        counted += sum(one.seconds for one in busy)
        self.seconds += counted / len(busy) if busy else passed

    def _look_at(self, monitor: Monitor) -> Iterator[Event]:
        try:
            message = monitor.receive()
        except NoMessage as odd:
            kill_group(monitor.process)
            yield from self._lose(monitor, Fate.CRASHED, str(odd))
            return
        status = self._fork_server.ends.get(monitor.process)
        if message is not None:
            yield from self._take(monitor, message)
        elif status is not None:
            yield from self._lose(monitor, Fate.CRASHED, monitor.describe_end(status), status)
        else:
            loss = monitor.loss()
            if loss is not None:
                kill_group(monitor.process)
                yield from self._lose(monitor, *loss)

    def _take(self, monitor: Monitor, message: Message) -> Iterator[Event]:
        if isinstance(message, DeviceRefuses):
            yield from self._lose(monitor, Fate.CRASHED, message.words)
        elif isinstance(message, CutShort):
            yield from self._cut(monitor, Fate.CUT, "its time is over")
        elif isinstance(message, Answered):
            try:
                job = monitor.job
                answer = None if job is None else job.read(decode_answer(message.answer))
            except (NoMessage, ValueError, TypeError, LookupError) as odd:
                kill_group(monitor.process)
                yield from self._lose(monitor, Fate.CRASHED, f"wrote what is no answer: {words_of(odd)}")
                return
            yield from self._finish(monitor, answer)
        else:
            if monitor.is_starting:
                raise CannotStart(message.words)
            yield from self._cut(monitor, Fate.RAISED, message.words, message.trace)

    def _cut(self, monitor: Monitor, fate: Fate, words: str, trace: str = "") -> Iterator[Event]:
        """Say what became of a job that came to no answer, and keep its worker."""
        job, monitor.job = monitor.job, None
        if job is not None:
            monitor.remember()
            yield Lost(job, fate, words, monitor.counts[1], monitor.last_call, trace or monitor.printed)
            if job.is_apart:
                self._retire(monitor, kill=True)

    def _finish(self, monitor: Monitor, answer: object) -> Iterator[Event]:
        job, monitor.job = monitor.job, None
        if monitor.is_starting:
            monitor.is_starting, self._lost_starts = False, 0
            self.prepared = self.prepared if self._was_ready else answer
            self._was_ready = True
            if monitor.following is not None:
                monitor.give(monitor.following)
                monitor.following = None
        elif job is not None:
            if job.is_apart:
                self._retire(monitor, kill=True)
            yield Done(job, answer)

    def _end(self, monitor: Monitor) -> Iterator[Event]:
        """Take a worker away from its job, or from the one it was to begin."""
        kill_group(monitor.process)
        self._retire(monitor)
        job = monitor.following if monitor.is_starting else monitor.job
        if job is not None:
            yield Lost(job, Fate.CUT, OUT_OF_TIME, monitor.counts[1], monitor.last_call, monitor.printed)

    def _lose(self, monitor: Monitor, fate: Fate, words: str, status: int = 0) -> Iterator[Event]:
        """Bury a worker, and say what became of its job."""
        self._retire(monitor)
        job = monitor.job
        if job is None:
            return
        if monitor.is_starting:
            # NOTE: another process, such as one that looks after memory, may kill a single one. An import that ends
            # its process does so again.
            self._lost_starts += 1
            is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in FROM_OUTSIDE
            if self._lost_starts >= MOST_LOST_STARTS or not (is_killed or self._was_ready):
                raise DiedAtStart(words)
            if monitor.following is not None:
                self.submit(monitor.following, first=True)
            return
        _, example = monitor.counts
        yield Lost(job, fate, words, example, monitor.last_call, monitor.printed)

    def _retire(self, monitor: Monitor, kill: bool = False, until: float | None = None) -> None:
        if kill:
            kill_group(monitor.process)
        until = time.monotonic() + UNTIL_DEAD if until is None else until
        # NOTE: the process that workers are forked from says that one has ended once what it started has, too.
        while (
            monitor.process not in self._fork_server.ends
            and (self._fork_server.is_alive or is_there(monitor.process))
            and time.monotonic() < until
        ):
            monitor.drain()
            time.sleep(0.005)
            # NOTE: where no one can tell any more who has ended, it shows in who is there.
            with suppress(CannotStart):
                self._fork_server.look()
        if monitor.process not in self._fork_server.ends and is_there(monitor.process):
            self.held[monitor.process] = monitor.job
            kill_group(monitor.process)
        else:
            kill_leftovers(monitor.process)
        monitor.remember()
        for channel in (monitor.forked.channel, monitor.forked.output):
            with suppress(KeyError):
                self._selector.unregister(channel)
        self._monitors.remove(monitor)
        monitor.forked.close()
