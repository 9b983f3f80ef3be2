"""Hands jobs to workers and watches them: who dies, hangs or holds too much is named, and the others go on."""

import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from specsim.conformance.isolation.jobs import CannotStart, DiedAtStart, Done, Fate, Job, Lost, Skipped
from specsim.conformance.isolation.messages import (
    Answered,
    CutShort,
    DeviceRefuses,
    Message,
    NoMessage,
    decode_answer,
)
from specsim.conformance.isolation.minder import Minder
from specsim.conformance.isolation.nature import UNTIL_DEAD, is_there, kill_group, kill_leftovers
from specsim.conformance.isolation.nursery import warm_nursery
from specsim.conformance.isolation.worker import Surroundings
from specsim.conformance.plain_text import words_of

TICK = 0.1
"""Seconds between two looks at the workers."""

LONGEST_TICK = 0.25
"""Seconds that count at most between two looks: where this process did not get its turn, nobody else hung either."""

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
        Is told what workers print, in bytes, as far as it is kept.

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
        self._nursery = warm_nursery(preload)
        self._queue: deque[Job] = deque()
        self._minders: list[Minder] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._nursery.control, selectors.EVENT_READ)
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
        self._hatch(self._prepare, is_apart=False)
        while self._minders[0].is_starting:
            for _ in self._turn():
                pass
            if not self._minders:
                self._hatch(self._prepare, is_apart=False)
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
        while self._queue or any(one.job is not None for one in self._minders):
            yield from self._assign(dispatch)
            yield from self._turn()
            if until is not None and self.seconds > until:
                for minder in [one for one in self._minders if one.job is not None]:
                    yield from self._end(minder)

    def abandon(self) -> None:
        """Take every job back; workers that run one are killed, and nothing is said of what becomes of it."""
        self._queue.clear()
        for minder in [one for one in self._minders if one.job is not None]:
            self._retire(minder, kill=True)

    def close(self) -> None:
        """Kill every worker; those that do not end within a second are ``held``."""
        for minder in self._minders:
            kill_group(minder.process)
        until = time.monotonic() + UNTIL_DEAD
        for minder in list(self._minders):
            self._retire(minder, until=until)
        self._queue.clear()
        self._selector.close()

    def running(self) -> list[Job]:
        """Return the jobs that have begun."""
        return [one.job for one in self._minders if one.job is not None and not one.is_starting]

    def _assign(self, dispatch: Dispatch) -> Iterator[Event]:
        while self._queue:
            idle = next((one for one in self._minders if one.job is None), None)
            busy = sum(one.job is not None for one in self._minders)
            if busy >= self._num_workers:
                return
            chosen = dispatch(job := self._queue.popleft())
            if isinstance(chosen, str):
                yield Skipped(job, chosen)
            elif chosen.is_apart:
                if idle is not None and len(self._minders) >= self._num_workers:
                    self._retire(idle, kill=True)
                self._hatch(chosen, is_apart=True)
            elif idle is not None:
                idle.give(chosen)
            else:
                self._hatch(self._prepare, is_apart=False).following = chosen

    def _hatch(self, job: Job, is_apart: bool) -> Minder:
        surroundings = Surroundings(dict(os.environ), list(sys.path), os.getcwd())
        minder = Minder(self._nursery.hatch(surroundings), self._on_output, self._watched)
        self._minders.append(minder)
        self._selector.register(minder.hatched.channel, selectors.EVENT_READ, minder)
        self._selector.register(minder.hatched.output, selectors.EVENT_READ, minder)
        minder.is_starting = not is_apart
        minder.give(job)
        return minder

    def _turn(self) -> Iterator[Event]:
        before = time.monotonic()
        ready = self._selector.select(TICK)
        for key, _ in ready:
            if key.data is not None and key.fileobj == key.data.hatched.output and not key.data.drain():
                self._selector.unregister(key.data.hatched.output)
        self._nursery.look()
        self._look(min(time.monotonic() - before, LONGEST_TICK))
        for minder in list(self._minders):
            yield from self._look_at(minder)

    def _look(self, passed: float) -> None:
        """Let the clocks go on by the seconds that have passed."""
        self._watched += passed
        busy = [one.stopwatch for one in self._minders if one.job is not None]
        counted = -sum(one.seconds for one in busy)
        for minder in self._minders:
            minder.stopwatch.look(self._watched)
        counted += sum(one.seconds for one in busy)
        self.seconds += counted / len(busy) if busy else passed

    def _look_at(self, minder: Minder) -> Iterator[Event]:
        try:
            message = minder.receive()
        except NoMessage as odd:
            kill_group(minder.process)
            yield from self._lose(minder, Fate.CRASHED, str(odd))
            return
        status = self._nursery.ends.get(minder.process)
        if message is not None:
            yield from self._take(minder, message)
        elif status is not None:
            yield from self._lose(minder, Fate.CRASHED, minder.describe_end(status), status)
        else:
            loss = minder.loss()
            if loss is not None:
                kill_group(minder.process)
                yield from self._lose(minder, *loss)

    def _take(self, minder: Minder, message: Message) -> Iterator[Event]:
        if isinstance(message, DeviceRefuses):
            yield from self._lose(minder, Fate.CRASHED, message.words)
        elif isinstance(message, CutShort):
            yield from self._cut(minder, Fate.CUT, "its time is over")
        elif isinstance(message, Answered):
            try:
                job = minder.job
                answer = None if job is None else job.read(decode_answer(message.answer))
            except (NoMessage, ValueError, TypeError, LookupError) as odd:
                kill_group(minder.process)
                yield from self._lose(minder, Fate.CRASHED, f"wrote what is no answer: {words_of(odd)}")
                return
            yield from self._finish(minder, answer)
        else:
            if minder.is_starting:
                raise CannotStart(message.words)
            yield from self._cut(minder, Fate.RAISED, message.words, message.trace)

    def _cut(self, minder: Minder, fate: Fate, words: str, trace: str = "") -> Iterator[Event]:
        """Say what became of a job that came to no answer, and keep its worker."""
        job, minder.job = minder.job, None
        if job is not None:
            minder.remember()
            yield Lost(job, fate, words, minder.counts[1], minder.last_call, trace or minder.printed)
            if job.is_apart:
                self._retire(minder, kill=True)

    def _finish(self, minder: Minder, answer: object) -> Iterator[Event]:
        job, minder.job = minder.job, None
        if minder.is_starting:
            minder.is_starting, self._lost_starts = False, 0
            self.prepared = self.prepared if self._was_ready else answer
            self._was_ready = True
            if minder.following is not None:
                minder.give(minder.following)
                minder.following = None
        elif job is not None:
            if job.is_apart:
                self._retire(minder, kill=True)
            yield Done(job, answer)

    def _end(self, minder: Minder) -> Iterator[Event]:
        """Take a worker away from its job, or from the one it was to begin."""
        kill_group(minder.process)
        self._retire(minder)
        job = minder.following if minder.is_starting else minder.job
        if job is not None:
            yield Lost(job, Fate.CUT, OUT_OF_TIME, minder.counts[1], minder.last_call, minder.printed)

    def _lose(self, minder: Minder, fate: Fate, words: str, status: int = 0) -> Iterator[Event]:
        """Bury a worker, and say what became of its job."""
        self._retire(minder)
        job = minder.job
        if job is None:
            return
        if minder.is_starting:
            # NOTE: another process, such as one that looks after memory, may kill a single one. An import that ends
            # its process does so again.
            self._lost_starts += 1
            is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in FROM_OUTSIDE
            if self._lost_starts >= MOST_LOST_STARTS or not (is_killed or self._was_ready):
                raise DiedAtStart(words)
            if minder.following is not None:
                self.submit(minder.following, first=True)
            return
        _, example = minder.counts
        yield Lost(job, fate, words, example, minder.last_call, minder.printed)

    def _retire(self, minder: Minder, kill: bool = False, until: float | None = None) -> None:
        if kill:
            kill_group(minder.process)
        until = time.monotonic() + UNTIL_DEAD if until is None else until
        # NOTE: the process that workers are forked from says that one has ended once what it left behind has, too.
        while (
            minder.process not in self._nursery.ends
            and (self._nursery.is_alive or is_there(minder.process))
            and time.monotonic() < until
        ):
            minder.drain()
            time.sleep(0.005)
            # NOTE: where nobody can tell any more who has ended, it shows in who is there.
            with suppress(CannotStart):
                self._nursery.look()
        if minder.process not in self._nursery.ends and is_there(minder.process):
            self.held[minder.process] = minder.job
            kill_group(minder.process)
        else:
            kill_leftovers(minder.process)
        minder.remember()
        for channel in (minder.hatched.channel, minder.hatched.output):
            with suppress(KeyError):
                self._selector.unregister(channel)
        self._minders.remove(minder)
        minder.hatched.close()
