"""SIGINT and SIGTERM: both interrupt a command, in whichever phase it is, so that it can print what it has found."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CODE = 130
PATIENCE = 2.0
"""Seconds after an interrupt in which others say nothing new: a group of processes may get several at once."""

SECONDS_TO_RETURN = 0.01
"""After which an interrupt that was put off or lost is sent again; it may be sent any number of times."""

MOST_SECONDS_OF_IMPORTS = 0.5
"""How long an interrupt waits for the end of an import."""

IMPORTS = "<frozen importlib"


class _Interrupts:
    """What has arrived so far, in this process."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_finishing = False
        self.is_pending = False
        self.number: int = signal.SIGTERM


_so_far = _Interrupts()


def listen() -> None:
    """Let signals that end a process by default raise KeyboardInterrupt from now on; one that is ignored stays so."""
    if not any(map(_is_heard, SIGNALS)):
        _so_far.since, _so_far.is_finishing, _so_far.is_pending = None, False, False
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
    if _so_far.since is None or _so_far.is_pending:
        _so_far.since = now if _so_far.since is None else _so_far.since
        _so_far.number = number
        if _can_raise(frame):
            _so_far.since, _so_far.is_pending = now, False
            raise KeyboardInterrupt
        if now - _so_far.since > MOST_SECONDS_OF_IMPORTS:
            end_now()
        _send_again()
    elif now - _so_far.since > PATIENCE:
        # NOTE: processes that were started from this one end with it.
        os._exit(CODE)


def end_now() -> NoReturn:
    """End the process without unwinding it."""
    # NOTE: a closed stderr is None, or raises when it is written to.
    with suppress(OSError, AttributeError, ValueError, RuntimeError):
        sys.stderr.write("specsim: interrupted\n")
        sys.stderr.flush()
    os._exit(CODE)


def _can_raise(frame: FrameType | None) -> bool:
    """Return whether an exception reaches the command from where the process is.

    It does not out of the hook below. Modules in C++, such as torch's, call Python while they are imported, and abort
    the process where that raises.
    """
    while frame is not None:
        code = frame.f_code
        if code is _raise_again.__code__ or code.co_filename.startswith(IMPORTS):
            return False
        frame = frame.f_back
    return True


def _is_heard(number: int) -> bool:
    return signal.getsignal(number) is _interrupt


def _send_again() -> None:
    """Interrupt once more, in a moment: a thread sends the signal until it can be raised."""
    if not _so_far.is_pending:
        _so_far.is_pending = True
        threading.Thread(target=_keep_sending, daemon=True).start()


def _keep_sending() -> None:
    while _so_far.is_pending and not _so_far.is_finishing and _is_heard(_so_far.number):
        os.kill(os.getpid(), _so_far.number)
        time.sleep(SECONDS_TO_RETURN)


def _raise_again(unraisable: Any) -> None:
    """Interrupt once more where an interrupt came in a place that can raise nothing, such as a finalizer.

    This hook can raise nothing either, so that a thread sends the signal until the hook has returned.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt) and not _so_far.is_finishing:
        _send_again()
    else:
        sys.__unraisablehook__(unraisable)
