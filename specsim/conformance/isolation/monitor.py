"""Monitor one worker from outside: its job, how long it has been silent, its output, and its last call."""

import os
from collections.abc import Callable
from typing import Any

from specsim.conformance.isolation.fork_client import ForkedWorker
from specsim.conformance.isolation.jobs import Fate, Job
from specsim.conformance.isolation.messages import CHUNK, Message
from specsim.conformance.isolation.process_limits import bytes_held, describe_status
from specsim.conformance.isolation.stopwatch import Stopwatch

MOST_SHOWN = 1 << 16
"""Bytes of a job that are passed on; the rest of what it prints is counted and dropped."""

MOST_CHUNKS = 256
"""Of what a worker prints, taken in at once: it may print faster than this process reads."""

TAIL = 4096
GRACE = 2.0
"""Seconds that a job is given to end by itself once its time is up."""


class Monitor:
    """Watches one worker on the clock of the supervisor, which stands still while the supervisor does.

    ``stopwatch`` counts its seconds: time in which the worker could run, and others did, counts for no limit.
    """

    def __init__(self, forked: ForkedWorker, on_output: Callable[[bytes], None] | None, now: float) -> None:
        self.forked = forked
        self.process = forked.process
        self.job: Job | None = None
        self.following: Job | None = None
        self.is_starting = False
        self.counts = (0, 0)
        self.last_call: tuple[str, dict[str, Any] | None] | None = None
        self._on_output = on_output
        self.stopwatch = Stopwatch(self.process, now)
        self._since = self._silent_since = self.stopwatch.lap()
        self._num_printed = 0
        self._tail = b""

    @property
    def printed(self) -> str:
        """The end of what the job at hand has printed."""
        return self._tail.decode(errors="replace")

    def give(self, job: Job) -> None:
        """Send a job."""
        self.job = job
        self._since = self._silent_since = self.stopwatch.lap()
        self._num_printed, self._tail = 0, b""
        self.forked.channel.send_job(job.function, job.arguments, job.limits.longest_turn)

    def receive(self) -> Message | None:
        """Return what the worker says, if it does.

        Raises
        ------
        NoMessage
            It is no message.
        """
        message = self.forked.channel.receive()
        if message is not None:
            self.drain()
        return message

    def drain(self) -> bool:
        """Take in what the worker prints; return False where no one can print any more."""
        for _ in range(MOST_CHUNKS):
            try:
                printed = os.read(self.forked.output, CHUNK)
            except BlockingIOError:
                return True
            if not printed:
                return False
            shown = printed[: max(0, MOST_SHOWN - self._num_printed)]
            self._num_printed += len(printed)
            self._tail = (self._tail + printed)[-TAIL:]
            if self._on_output is not None and shown:
                self._on_output(shown)
        return True

    def loss(self) -> tuple[Fate, str] | None:
        """Say why the worker has to be killed, if it has to."""
        counts = self.forked.heart.counts()
        if counts != self.counts:
            self.counts, self._silent_since = counts, self.stopwatch.lap()
        if self.job is None:
            return None
        limits = self.job.limits
        held = 0 if limits.memory is None else bytes_held(self.process)
        if limits.memory is not None and held > limits.memory:
            return Fate.CRASHED, f"holds {held / 2**20:,.0f} MiB, but should hold at most {limits.memory / 2**20:,.0f}"
        longest = limits.longest_call
        if self.is_starting or (longest is not None and not self.forked.heart.is_calling()):
            longest = limits.start
        if longest is not None and self.stopwatch.is_over(self._silent_since, longest):
            return Fate.TIMED_OUT, f"has not returned after {longest:g} seconds"
        is_over = limits.job is not None and self.stopwatch.is_over(self._since, limits.job + GRACE)
        if is_over and not self.is_starting:
            return Fate.CUT, f"its {limits.job:g} seconds are over"
        return None

    def describe_end(self, status: int | None) -> str:
        """Say how the process ended by itself."""
        return "gone" if status is None else describe_status(status)

    def remember(self) -> None:
        """Read what the worker did last, before its heart is gone."""
        self.drain()
        self.counts = self.forked.heart.counts()
        self.last_call = self.forked.heart.last_call()
