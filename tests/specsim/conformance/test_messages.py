"""What a process that is tried sends is data: nothing of it is run, and nothing waits for it without end."""

import os
import pickle
import signal
import socket
import struct
import time

import numpy as np
import pytest

from specsim.conformance.isolation import messages
from specsim.conformance.isolation.heartbeat import HEADER, Heart
from specsim.conformance.isolation.jobs import DiedAtStart, Done, Fate, Job, Limits
from specsim.conformance.isolation.messages import (
    FRAME,
    MAGIC,
    Answered,
    Channel,
    NoMessage,
    Raised,
    answered,
    decode_answer,
    pack_call,
    raised,
    send_message,
    unpack_call,
)
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.limits import NO_LIMITS, limits_from, limits_of
from specsim.properties.suite.conformance.units import outcome_from
from specsim.properties.suite.conformance.wanted import prepared_from

READY = Job("ready", "os:getpid")


class Crafted:
    """Leaves a sign where its pickle is read."""

    def __reduce__(self):
        return os.putenv, ("SPECSIM_OWNED", "1")


@pytest.fixture
def ends():
    """Return the supervising end of a socket as a channel, and the other one."""
    mine, theirs = socket.socketpair()
    channel = Channel(mine)
    yield channel, theirs
    channel.close()
    theirs.close()


@pytest.mark.parametrize(
    "written",
    [
        b"\x7f" * 4096,
        bytes(4096),
        struct.pack("!i", 9) + b"too short",
        pickle.dumps(("done", Crafted())),
        FRAME.pack(MAGIC, 1 << 31) + b"a length of 2 GiB",
        FRAME.pack(MAGIC, 3) + b"\xc1\xc1\xc1",
        messages.framed(b"\x81\xa4type\xa7unknown"),
    ],
    ids=["garbage", "zeros", "other length", "pickle", "huge length", "no msgpack", "another type"],
)
def test_what_is_no_message_is_refused_at_once(ends, written):
    channel, theirs = ends
    theirs.sendall(written)
    with pytest.raises(NoMessage, match="wrote what is no message"):
        channel.receive()
    assert "SPECSIM_OWNED" not in os.environ


@pytest.mark.parametrize("taken", [1, FRAME.size - 1, FRAME.size, FRAME.size + 9])
def test_a_job_of_which_another_process_took_a_part_is_none(taken):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        job = messages.framed(pickle.dumps(("package:function", (1, "x" * 40), 2.0)))
        ours.sendall(job)
        assert messages.receive_job(theirs) == ("package:function", (1, "x" * 40), 2.0)
        ours.sendall(job * 2)
        ours.close()
        theirs.recv(taken)
        with pytest.raises(ConnectionError, match="no job"):
            messages.receive_job(theirs)


def test_a_message_arrives_in_pieces_but_not_for_ever(ends, monkeypatch):
    channel, theirs = ends
    whole = messages.framed(messages.msgspec.msgpack.encode(answered({"count": np.int64(3), "text": "half \ud800"})))
    for place in range(len(whole)):
        assert channel.receive() is None
        theirs.sendall(whole[place : place + 1])
    message = channel.receive()
    assert isinstance(message, Answered)
    assert decode_answer(message.answer) == {"count": 3, "text": "half \\ud800"}
    monkeypatch.setattr(messages, "SECONDS_HALFWAY", 0.01)
    theirs.sendall(whole[:-1])
    assert channel.receive() is None
    time.sleep(0.02)
    with pytest.raises(NoMessage, match="wrote half a message"):
        channel.receive()


def test_a_huge_message_of_an_exception_is_cut(ends):
    channel, theirs = ends
    send_message(theirs, raised(ValueError("x" * 50_000_000)))
    message = channel.receive()
    assert isinstance(message, Raised)
    assert len(message.words) < 20_000 and len(message.trace) < 70_000


def test_an_answer_that_is_too_long_is_reported(monkeypatch):
    monkeypatch.setattr(messages, "MOST_BYTES", messages.CHUNK + 100)
    assert answered("x" * 1000) == Raised("an answer of 1,003 bytes, but should be at most 100", "")


@pytest.mark.parametrize(
    ("length", "content"),
    [
        (1 << 62, b""),
        (1 << 20, b""),
        (None, pickle.dumps(("fill_bonus_tokens", Crafted()))),
        (None, b"\xc1"),
        (None, b""),
    ],
    ids=["huge", "sparse", "pickle", "no msgpack", "nothing"],
)
def test_a_heart_that_was_overwritten_tells_no_call(length, content):
    heart = Heart.new()
    os.pwrite(heart.fileno(), HEADER.pack(1, 1, 1, len(content) if length is None else length) + content, 0)
    if length == 1 << 20:
        os.ftruncate(heart.fileno(), 1 << 30)
    assert heart.last_call() is None
    os.ftruncate(heart.fileno(), 0)
    assert (heart.counts(), heart.last_call()) == ((0, 0), None)
    heart.close()
    assert "SPECSIM_OWNED" not in os.environ


def changed(**fields):
    call = messages.SentCall(
        "f", {"x": messages.SentArray(**{"dtype": "int32", "shape": (2,), "data": bytes(8), **fields})}
    )
    return messages.msgspec.msgpack.encode(call)


def test_arrays_of_a_call_are_checked():
    assert unpack_call(changed())[1]["x"].tolist() == [0, 0]
    for wrong in (
        {"dtype": "object"},
        {"dtype": "complex64"},
        {"shape": (1 << 40,)},
        {"shape": (-1, -2)},
        {"shape": (2, *[1] * 40)},
        {"data": b""},
        {"dtype": "bool", "data": b"\x07\x07"},
        {"layout": messages.StoredLayout((1 << 50,), 0, 1 << 60)},
    ):
        assert unpack_call(changed(**wrong)) == ("f", None), wrong


def test_a_call_with_what_cannot_be_sent_is_named():
    for value in (object(), np.zeros(2, complex), np.ma.masked_array([1]), 1 << 80, "text"):
        assert unpack_call(pack_call("f", {"x": value})) == ("f", None)
    assert unpack_call(pack_call("f" * 1000, None)) == ("f" * 300 + " …", None)


def test_a_worker_that_writes_garbage_has_crashed_and_the_run_goes_on():
    with Supervisor(1, READY) as workers:
        workers.start()
        code = "import os\nfor one in range(3, 64):\n    try: os.write(one, bytes(64))\n    except OSError: pass"
        workers.submit(Job(1, "builtins:exec", (code,)))
        workers.submit(Job(2, "os:getpid"))
        (first, second) = workers.events()
    assert (first.fate, first.words) == (Fate.CRASHED, "wrote what is no message")
    assert isinstance(second, Done)


def refuse(reported):
    raise ValueError(f"{reported} is no answer")


def test_an_answer_of_another_type_is_a_crash():
    with Supervisor(1, READY) as workers:
        workers.submit(Job(1, "os:getcwd", read=refuse))
        (event,) = workers.events()
    assert event.fate is Fate.CRASHED
    assert event.words == f"wrote what is no answer: {os.getcwd()} is no answer"


def test_one_process_that_is_killed_while_it_starts_ends_no_run(tmp_path):
    sign = tmp_path / "killed"
    once = f"import os, signal\nsign = {str(sign)!r}\nif not os.path.exists(sign):\n    open(sign, 'w').close()\n"
    code = f"{once}    os.kill(os.getpid(), signal.SIGKILL)"
    with Supervisor(1, Job("ready", "builtins:exec", (code,))) as workers:
        workers.start()
        workers.submit(Job(1, "os:getpid"))
        (event,) = workers.events()
    assert isinstance(event, Done) and sign.exists()
    always = Job("ready", "signal:raise_signal", (signal.SIGKILL,), Limits(start=60.0))
    with Supervisor(1, always) as dying, pytest.raises(DiedAtStart, match="killed by SIGKILL"):
        dying.start()


def test_what_a_worker_started_in_a_session_of_its_own_ends_with_it(tmp_path):
    code = f"import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True, cwd={str(tmp_path)!r})"
    with Supervisor(1, READY) as workers:
        workers.submit(Job(1, "builtins:exec", (code,)))
        list(workers.events())
    left = [one for one in os.listdir("/proc") if one.isdigit() and _folder_of(one) == str(tmp_path)]
    assert left == []


def _folder_of(process):
    try:
        return os.readlink(f"/proc/{process}/cwd")
    except OSError:
        return ""


def test_limits_of_another_process_are_read_again():
    declared = limits_of({"LIMITS": {"build_tree": {"node": (4, 64), "topk": [1, 4]}}, "EMPTY": False}, "m")
    assert limits_from(messages.msgspec.to_builtins(declared.as_plain())) == declared
    assert limits_from(NO_LIMITS.as_plain()) == NO_LIMITS
    for wrong in (
        {},
        {**NO_LIMITS.as_plain(), "takes_empty": 7},
        {**NO_LIMITS.as_plain(), "values": {"no_operation": {}}},
    ):
        with pytest.raises(ValueError):
            limits_from(wrong)


@pytest.mark.parametrize("reported", [7, {}, {"code": 7}, {"described": {}}, {"examples": "7"}])
def test_outcomes_of_another_type_are_refused(reported):
    for read in (prepared_from, outcome_from):
        with pytest.raises((ValueError, TypeError)):
            read(reported)
