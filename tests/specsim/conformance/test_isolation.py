"""Jobs in processes that may die: what becomes of each, and what is left over."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import triton

from specsim.conformance.isolation import heartbeat, supervisor, trials
from specsim.conformance.isolation.jobs import CannotStart, DiedAtStart, Done, Fate, Job, Limits, Skipped
from specsim.conformance.isolation.process_limits import is_there, seconds_waited
from specsim.conformance.isolation.supervisor import OUT_OF_TIME, Supervisor

READY = Job("ready", "os:getpid")
WITHOUT_STANDARD_FILES = """
import os, sys
from specsim.cli.results import results_on_stdout
from specsim.conformance.isolation.jobs import Done, Job
from specsim.conformance.isolation.supervisor import Supervisor

with results_on_stdout(), Supervisor(1, Job("ready", "os:getpid")) as workers:
    workers.submit(Job(1, "os:getpid"))
    (event,) = workers.events()
os._exit(7 if isinstance(event, Done) else 1)
"""


def die_the_first_time(marker):
    """Prepare a worker, which another process kills meanwhile if it is the first."""
    if not Path(marker).exists():
        Path(marker).touch()
        signal.raise_signal(signal.SIGKILL)


@pytest.fixture
def workers():
    """Return a supervisor of two workers."""
    with Supervisor(2, READY) as supervised:
        yield supervised


def test_what_is_raised_leaves_the_process_and_keeps_its_traceback(workers):
    for job in (Job(1, "os:getpid"), Job(2, "os:_exit", ("three",)), Job(3, "os:getpid")):
        workers.submit(job)
    by_key = {event.job.key: event for event in workers.events()}
    raised = by_key[2]
    assert (raised.fate, raised.words) == (Fate.RAISED, "'str' object cannot be interpreted as an integer")
    assert raised.printed.startswith("Traceback") and "TypeError" in raised.printed
    assert isinstance(by_key[1], Done) and isinstance(by_key[3], Done)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(1, "os:_exit", (3,)), "left with exit code 3"),
        (Job(1, "os:abort"), "killed by SIGABRT"),
        (Job(1, "signal:raise_signal", (signal.SIGKILL,)), "killed by SIGKILL"),
    ],
    ids=["exit", "abort", "killed"],
)
def test_a_process_that_dies_is_another_loss_and_the_next_job_gets_a_fresh_one(workers, job, words):
    workers.submit(job)
    workers.submit(Job(2, "os:getpid"))
    by_key = {event.job.key: event for event in workers.events()}
    assert (by_key[1].fate, by_key[1].words) == (Fate.CRASHED, words)
    assert by_key[2].answer != workers.prepared or len(by_key) == 2


def test_what_still_runs_when_the_time_is_over_is_cut_and_the_rest_is_asked_for(workers):
    for number in range(3):
        workers.submit(Job(number, "time:sleep", (100_000,)))
    workers.start()
    until = workers.seconds
    words = {
        event.job.key: event.words
        for event in workers.events(lambda job: job if job.key < 2 else "too late", until=until)
    }
    assert words == {0: OUT_OF_TIME, 1: OUT_OF_TIME, 2: "too late"}


def test_a_turn_ends_no_call(workers):
    workers.submit(Job(1, "time:sleep", (0.5,), Limits(turn=0.01)))
    (event,) = workers.events()
    assert isinstance(event, Done)
    assert Limits(call=20.0, job=60.0, turn=1.0).longest_call == 20.0
    assert Limits(call=20.0, job=60.0, turn=1.0).longest_turn == 1.0


def compile_slowly(num_kernels, seconds):
    """Compile kernels, as far as the hooks of Triton say, and return how many a hook set before ours heard of."""
    runtime, heard = triton.knobs.runtime, []
    following, runtime.jit_post_compile_hook = runtime.jit_post_compile_hook, lambda **compiled: heard.append(compiled)
    heartbeat.begin_call("compiles")
    for number in range(num_kernels):
        time.sleep(seconds)
        runtime.jit_post_compile_hook(key=number)
    heartbeat.end_call()
    runtime.jit_post_compile_hook = following
    return len(heard)


def test_a_call_has_its_time_for_each_kernel_that_it_compiles(workers):
    workers.submit(Job(1, f"{__name__}:compile_slowly", (4, 0.4), Limits(call=1.0)))
    assert [event.answer for event in workers.events()] == [4]
    workers.submit(Job(2, f"{__name__}:compile_slowly", (1, 3.0), Limits(call=1.0)))
    assert [event.fate for event in workers.events()] == [Fate.TIMED_OUT]


def test_the_system_tells_who_waits():
    assert seconds_waited(os.getpid()) >= 0.0
    assert seconds_waited(-1) == 0.0


def test_a_process_that_a_driver_holds_is_named_with_what_it_did(monkeypatch):
    """No driver can be had here: the process is not killed, and stays."""
    job = Job(("strided.build_tree", 0), "time:sleep", (100_000,))
    with Supervisor(1, READY) as supervised:
        supervised.submit(job)
        supervised.start()
        with monkeypatch.context() as patch:
            patch.setattr(supervisor, "kill_group", lambda process: None)
            list(supervised.events(until=supervised.seconds))
        ((process, doing),) = supervised.held.items()
        assert doing == job
        assert is_there(process)
        os.killpg(process, signal.SIGKILL)


def test_a_trial_that_a_driver_holds_is_given_up(monkeypatch):
    held = []
    monkeypatch.setattr(trials, "kill_group", held.append)
    death, spent = trials.try_apart(lambda: time.sleep(100_000), seconds=0.05)
    assert 0.05 < spent < 3.0
    assert death.fate is Fate.TIMED_OUT
    assert death.words == f"has not returned after 0.05 seconds; process {held[0]} does not end: a driver holds it"
    os.kill(held[0], signal.SIGKILL)
    os.waitpid(held[0], 0)


def test_workers_are_let_go_where_no_one_can_start_another(monkeypatch):
    with Supervisor(1, READY) as supervised:
        supervised.submit(Job(1, "time:sleep", (100_000,)))
        supervised.start()
        supervised._fork_server._fork_server.kill()
        with pytest.raises(CannotStart, match="the process that workers are forked from is gone"):
            list(supervised.events())
        seen = iter([True])
        monkeypatch.setattr(supervisor, "is_there", lambda process: next(seen, False))
    assert not supervised.held


def test_what_a_trial_started_ends_with_it():
    started = os.pipe()

    def start_and_die():
        child = subprocess.Popen(["sleep", "100000"])
        os.write(started[1], f"{child.pid}".encode())
        os.abort()

    assert trials.try_apart(start_and_die, seconds=60.0)[0].words == "killed by SIGABRT"
    process = int(os.read(started[0], 100))
    until = time.monotonic() + 5.0
    while is_there(process) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_there(process)


def test_who_cannot_be_made_ready_is_distinguished_from_who_dies():
    with Supervisor(1, Job("ready", "os:_exit", ("three",))) as raises, pytest.raises(CannotStart) as raised:
        raises.start()
    with Supervisor(1, Job("ready", "os:_exit", (3,))) as dies, pytest.raises(DiedAtStart, match="exit code 3"):
        dies.start()
    assert not isinstance(raised.value, DiedAtStart)


def test_a_worker_that_is_killed_while_it_starts_ends_no_run(tmp_path):
    prepare = Job("ready", f"{__name__}:die_the_first_time", (str(tmp_path / "killed"),))
    with Supervisor(1, prepare) as workers:
        workers.submit(Job(1, "os:getpid"))
        (event,) = workers.events()
        assert (tmp_path / "killed").exists()
    assert isinstance(event, Done)


def test_workers_get_an_environment_of_any_length(monkeypatch):
    with Supervisor(1, READY) as workers:
        for number in range(4):
            monkeypatch.setenv(f"SPECSIM_LONG_{number}", "x" * 100_000)
        workers.submit(Job(1, "os:getenv", ("SPECSIM_LONG_3",)))
        (event,) = workers.events()
    assert event.answer == "x" * 100_000


def test_workers_start_where_every_standard_file_is_closed():
    shell = f"\"{sys.executable}\" -c '{WITHOUT_STANDARD_FILES}' <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", shell], timeout=60, check=False).returncode == 7


def test_a_job_may_be_refused_before_it_begins(workers):
    workers.submit(READY)
    assert list(workers.events(lambda job: "no")) == [Skipped(READY, "no")]
