"""On a busy machine, what computes is measured by its CPU seconds, and what sleeps by those of the wall."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from specsim.conformance.isolation import heartbeat, stopwatch, trials
from specsim.conformance.isolation.heartbeat import Cut, Heart
from specsim.conformance.isolation.jobs import Done, Fate, Job, Limits
from specsim.conformance.isolation.process_limits import cores
from specsim.conformance.isolation.stopwatch import MOST_STRETCHED, Stopwatch, look_at
from specsim.conformance.isolation.supervisor import Supervisor

SPIN = "while True: pass"
READY = Job("ready", "os:getpid")


@contextmanager
def busy_loops(number):
    """Let so many processes compute meanwhile."""
    loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(number)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.fixture
def system(monkeypatch):
    """Let a test say what the system tells of a process: CPU seconds, whether it can run, and what it waited."""
    reported = SimpleNamespace(cpu=0.0, is_runnable=False, waited=0.0)
    monkeypatch.setattr(stopwatch, "look_at", lambda process: (reported.cpu, reported.is_runnable))
    monkeypatch.setattr(stopwatch, "seconds_waited", lambda process: reported.waited)
    return reported


@pytest.mark.parametrize(
    ("cpu", "is_runnable", "waited", "seconds"),
    [
        (0.0, False, 0.0, 8.0),
        (2.0, True, 6.0, 2.0),
        (2.0, True, 0.0, 2.0),
        (40.0, True, 0.0, 8.0),
        (0.0, True, 0.0, 0.0),
        (1.0, False, 5.0, 3.0),
        (3.0, False, 8.0, 3.0),
    ],
    ids=["sleeps", "waits", "a child waits", "threads", "has no turn", "waits and sleeps", "ends a call"],
)
def test_what_counts_in_eight_seconds(system, cpu, is_runnable, waited, seconds):
    watch = Stopwatch(1, now=100.0)
    began = watch.lap()
    system.cpu, system.is_runnable, system.waited = cpu, is_runnable, waited
    watch.look(100.04)
    assert watch.since(began) == 0.0
    watch.look(108.0)
    assert watch.since(began) == pytest.approx(seconds)


def test_what_never_has_a_turn_ends_at_last(system):
    watch = Stopwatch(1)
    began, system.is_runnable = watch.lap(), True
    watch.look(MOST_STRETCHED * 5.0)
    assert not watch.is_over(began, 5.0)
    watch.look(MOST_STRETCHED * 5.0 + 1.0)
    assert watch.is_over(began, 5.0)


COMPUTE = "import time\nuntil = time.process_time() + 0.4\nwhile time.process_time() < until: pass"
IN_A_CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}], check=True)"


def code(key, source, **limits):
    """Return a job that runs some code."""
    return Job(key, "builtins:exec", (source,), Limits(**limits))


def test_beside_busy_loops_what_is_slow_is_waited_for_and_what_hangs_is_ended():
    """Three loops a core: what computes takes four times as long on the clock of the wall."""
    limits = {"call": 0.8, "start": 0.8}
    hung = (Fate.TIMED_OUT, "has not returned after 0.8 seconds")
    with Supervisor(1, READY) as supervised:
        supervised.start()
        for key, source in (("computes", COMPUTE), ("in a child", IN_A_CHILD.format(COMPUTE))):
            supervised.submit(code(key, source, **limits))
        for key, source in (("sleeps", "import time\ntime.sleep(100_000)"), ("spins", SPIN)):
            supervised.submit(code(key, source, **limits))
        supervised.submit(code("spins in a child", IN_A_CHILD.format(SPIN), **limits))
        with busy_loops(3 * cores()):
            before, began = time.monotonic(), supervised.seconds
            ended = {event.job.key: event for event in supervised.events()}
            passed, counted = time.monotonic() - before, supervised.seconds - began
    assert {key for key, event in ended.items() if isinstance(event, Done)} == {"computes", "in a child"}
    losses = {key: (event.fate, event.words) for key, event in ended.items() if not isinstance(event, Done)}
    assert losses == {"sleeps": hung, "spins": hung, "spins in a child": hung}
    # NOTE: twice 0.4 and three times 0.8 seconds, starts of processes, and looks that are 0.25 seconds apart at most.
    assert counted < 6.0
    assert passed > counted


def test_a_process_tells_its_own_seconds(monkeypatch):
    """A job is cut after its seconds, in which others may have the machine."""
    clock = SimpleNamespace(wall=100.0, cpu=5.0, waited=1.0)
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: clock.wall)
    monkeypatch.setattr(heartbeat.time, "process_time", lambda: clock.cpu)
    monkeypatch.setattr(heartbeat, "seconds_waited", lambda process: clock.waited)
    heart = Heart.new()
    heart.start(10.0)
    clock.wall, clock.cpu, clock.waited = 130.0, 8.0, 27.0
    heart.example()
    clock.wall, clock.cpu = 136.0, 14.0
    heart.example()
    clock.wall, clock.cpu = 138.0, 16.0
    with pytest.raises(Cut):
        heart.example()
    heart.close()


def test_a_trial_that_computes_is_given_its_time():
    with busy_loops(cores()):
        death, spent = trials.try_apart(lambda: exec(COMPUTE), seconds=0.8)
        assert death is None
        assert 0.3 < spent < 0.8
        death, spent = trials.try_apart(lambda: exec(IN_A_CHILD.format(SPIN)), seconds=0.2)
    assert (death.fate, death.words) == (Fate.TIMED_OUT, "has not returned after 0.2 seconds")
    assert 0.0 < spent < 0.8


def test_the_system_tells_of_threads_and_children():
    assert look_at(-1) == (0.0, False)
    cpu, _ = look_at(os.getpid())
    with busy_loops(1) as (loop,):
        until = time.monotonic() + 30.0
        while (look := look_at(loop.pid))[0] < 0.1 and time.monotonic() < until:
            time.sleep(0.01)
        with_child, is_runnable = look_at(os.getpid())
    assert look[0] >= 0.1
    assert is_runnable and with_child >= cpu + 0.1
