"""Hands jobs to workers and watches them: who dies, hangs or holds too much is named, and the others go on."""

import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from specsim.conformance.isolation.jobs import CannotStart, DiedAtStart, Done, Fate, Job, Lost, Skipped
from specsim.conformance.isolation.minder import Minder
from specsim.conformance.isolation.nature import UNTIL_DEAD, is_there, kill_group, kill_left_behind
from specsim.conformance.isolation.nursery import warm_nursery
from specsim.conformance.isolation.worker import Surroundings

TICK = 0.1
"""Seconds between two looks at the workers."""

LONGEST_TICK = 0.25
"""Seconds that count at most between two looks: where this process did not get its turn, nobody else hung either."""

OUT_OF_TIME = "the time of the run is over"

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
        self._watched = 0.0

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, job: Job, first: bool = False) -> None:
        """Queue a job, in front of the others or behind them."""
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
        return self.prepared

    def events(self, dispatch: Dispatch = as_it_is, until: float | None = None) -> Iterator[Event]:
        """Run what is queued, also what is queued meanwhile, and yield what becomes of each job.

        Parameters
        ----------
        dispatch : callable
            Is asked just before a job begins: returns it, with other limits perhaps, or says why it is skipped.
        until : float or None
            When what still runs is cut, on the clock ``time.monotonic``.

        Raises
        ------
        CannotStart
            A process cannot be made ready.
        """
        while self._queue or any(one.job is not None for one in self._minders):
            yield from self._assign(dispatch)
            yield from self._turn()
            if until is not None and time.monotonic() > until:
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
                idle.give(chosen, self._watched)
            else:
                self._hatch(self._prepare, is_apart=False).following = chosen

    def _hatch(self, job: Job, is_apart: bool) -> Minder:
        surroundings = Surroundings(dict(os.environ), list(sys.path), os.getcwd())
        minder = Minder(self._nursery.hatch(surroundings), self._on_output)
        self._minders.append(minder)
        self._selector.register(minder.hatched.connection, selectors.EVENT_READ, minder)
        self._selector.register(minder.hatched.output, selectors.EVENT_READ, minder)
        minder.is_starting = not is_apart
        minder.give(job, self._watched)
        return minder

    def _turn(self) -> Iterator[Event]:
        before = time.monotonic()
        ready = self._selector.select(TICK)
        for key, _ in ready:
            if key.data is not None and key.fileobj == key.data.hatched.output and not key.data.drain():
                self._selector.unregister(key.data.hatched.output)
        self._nursery.look()
        self._watched += min(time.monotonic() - before, LONGEST_TICK)
        for minder in list(self._minders):
            yield from self._look_at(minder)

    def _look_at(self, minder: Minder) -> Iterator[Event]:
        answer = minder.receive()
        status = self._nursery.ends.get(minder.process)
        if answer is None and status is None:
            loss = minder.loss(self._watched)
            if loss is not None:
                kill_group(minder.process)
                yield from self._lose(minder, *loss)
        elif answer is None or answer[0] == "poisoned":
            words = minder.describe_end(status) if answer is None else str(answer[1])
            yield from self._lose(minder, Fate.CRASHED, words)
        elif answer[0] == "cut":
            yield from self._cut(minder, Fate.CUT, "its time is over")
        elif answer[0] == "raised":
            if minder.is_starting:
                raise CannotStart(answer[1][0])
            yield from self._cut(minder, Fate.RAISED, *answer[1])
        else:
            yield from self._finish(minder, answer[1])

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
            minder.is_starting = False
            self.prepared = answer if self.prepared is None else self.prepared
            if minder.following is not None:
                minder.give(minder.following, self._watched)
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

    def _lose(self, minder: Minder, fate: Fate, words: str) -> Iterator[Event]:
        """Bury a worker, and say what became of its job."""
        self._retire(minder)
        job = minder.job
        if job is None:
            return
        if minder.is_starting:
            raise DiedAtStart(words)
        _, example = minder.counts
        yield Lost(job, fate, words, example, minder.last_call, minder.printed)

    def _retire(self, minder: Minder, kill: bool = False, until: float | None = None) -> None:
        if kill:
            kill_group(minder.process)
        until = time.monotonic() + UNTIL_DEAD if until is None else until
        while minder.process not in self._nursery.ends and is_there(minder.process) and time.monotonic() < until:
            minder.drain()
            time.sleep(0.005)
            # NOTE: where nobody can tell any more who has ended, it shows in who is there.
            with suppress(CannotStart):
                self._nursery.look()
        if minder.process not in self._nursery.ends and is_there(minder.process):
            self.held[minder.process] = minder.job
            kill_group(minder.process)
        else:
            kill_left_behind(minder.process)
        minder.remember()
        for channel in (minder.hatched.connection, minder.hatched.output):
            with suppress(KeyError):
                self._selector.unregister(channel)
        self._minders.remove(minder)
        minder.hatched.close()
