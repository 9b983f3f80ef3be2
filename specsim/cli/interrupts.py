"""SIGINT and SIGTERM: both interrupt a command, in whichever phase it is, so that it can print what it has found."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CODE = 130
PATIENCE = 2.0
"""Seconds after an interrupt in which others say nothing new: a group of processes may get several at once."""

SECONDS_TO_RETURN = 0.01
"""After which an interrupt that was lost is sent again; it may be lost and sent any number of times."""


class _Interrupts:
    """What has arrived so far, in this process."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_finishing = False


_so_far = _Interrupts()


def listen() -> None:
    """Let signals that end a process by default raise KeyboardInterrupt from now on; one that is ignored stays so."""
    _so_far.since, _so_far.is_finishing = None, False
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)
    sys.unraisablehook = _raise_again


@contextmanager
def listening() -> Iterator[None]:
    """Handle signals while a block runs, in the main thread, and restore the former handlers after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    hook = sys.unraisablehook
    listen()
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def finish_undisturbed() -> None:
    """Let the command end by itself: its results are about to be printed."""
    _so_far.is_finishing = True
    _so_far.since = time.monotonic() if _so_far.since is None else _so_far.since


def _interrupt(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if _so_far.since is None:
        _so_far.since = now
        raise KeyboardInterrupt
    if now - _so_far.since > PATIENCE:
        # NOTE: processes that were started from this one end with it.
        os._exit(CODE)


def _raise_again(unraisable: Any) -> None:
    """Interrupt once more where an interrupt came in a place that can raise nothing, such as a finalizer.

    This hook can raise nothing either, so that a thread sends the signal, once the hook has returned.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt) and not _so_far.is_finishing:
        _so_far.since = None
        threading.Timer(SECONDS_TO_RETURN, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(unraisable)
