"""A recording: the functions of a running engine are watched, and a sample of their calls is kept.

What watches a function costs it a decision, and for a call that is kept a copy of each array, queued where the caller
queues its work. Nothing is waited for and nothing is written before ``flush`` or the end. Whatever goes wrong in here
ends the recording with one warning, and never the call.
"""

import atexit
import functools
import multiprocessing.util
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from logging import getLogger
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Self, TypeVar

from specsim.conformance.backend import BackendUnavailable, load
from specsim.conformance.plain_text import first_line
from specsim.conformance.recording.files import Folder
from specsim.conformance.recording.held import Held
from specsim.conformance.recording.kept import Kept, NotUnderstood, Tally, copied, copies, num_bytes_of, outputs_by_name
from specsim.conformance.recording.taps import Tap, taps_of
from specsim.operations import RECORDS
from specsim.rejection import Reason, SpecRejection

Function = Callable[..., Any]


@dataclass(frozen=True)
class Found:
    """A function of a tap, and the class that holds it, if one does; ``kind`` is what it is wrapped in there."""

    tap: Tap
    function: Function
    owner: type | None = None
    kind: type | None = None


def find(tap: Tap) -> Found | None:
    """Find the function of a tap in the first of its modules that has it, or return None."""
    for name in tap.modules:
        try:
            holder: Any = import_module(name)
        except Exception:  # NOTE: what is imported of an engine asks for parts of it, and may raise anything without.
            continue
        owner, _, attribute = tap.name.rpartition(".")
        holder = vars(holder).get(owner) if owner else holder
        found = None if holder is None else vars(holder).get(attribute)
        if isinstance(found, staticmethod | classmethod):
            return Found(tap, found.__func__, holder, type(found))
        if callable(found):
            return Found(tap, found, holder if owner else None)
    return None


class Replaced:
    """Attributes that hold something else for a while."""

    def __init__(self) -> None:
        self._places: list[tuple[Any, str, Any, Any]] = []

    def put(self, found: Sequence[tuple[Found, Function]]) -> int:
        """Replace functions in their classes, and in every module that is imported and holds the same object.

        Returns
        -------
        num_places : int
        """
        watching = {id(one.function): (one.function, other) for one, other in found if one.owner is None}
        for one, other in found:
            if one.owner is not None:
                kind = one.kind or _as_it_is
                self._put(one.owner, one.tap.name.rpartition(".")[2], kind(other))
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType):
                continue
            for name, value in list(vars(module).items()):
                if id(value) in watching and value is watching[id(value)][0]:
                    self._put(module, name, watching[id(value)][1])
        return len(self._places)

    def restore(self) -> None:
        """Put everything back that no one else has replaced in the meantime."""
        while self._places:
            holder, name, original, other = self._places.pop()
            if vars(holder).get(name) is other:
                setattr(holder, name, original)

    def _put(self, holder: Any, name: str, other: Any) -> None:
        self._places.append((holder, name, vars(holder)[name], other))
        setattr(holder, name, other)


def _as_it_is(function: Function) -> Function:
    return function


MEBIBYTE = 1024 * 1024
LOGGER = getLogger("specsim.record")
FOREIGN = (AttributeError, IndexError, KeyError, SpecRejection, TypeError, ValueError)
"""What reading a call raises that is none of the table's."""

T = TypeVar("T")


def record(
    directory: str | os.PathLike[str],
    implementation: str | ModuleType,
    *,
    limit: int = 100,
    seed: int = 0,
    max_bytes: int = 256 * MEBIBYTE,
    max_held_bytes: int = 256 * MEBIBYTE,
    max_call_bytes: int = 32 * MEBIBYTE,
) -> "Recording":
    """Record calls of a running engine: ``with specsim.record("calls", "mypackage.my_kernels"): …``.

    Parameters
    ----------
    directory : path
        Where case files of the kind ``observed`` are written, for ``specsim replay DIRECTORY --observed``.
    implementation : str or module
        A module, or its name as in an import: its functions that are named like operations are recorded, or those of an
        engine that it lists as ``CALLS``.
    limit : int
        Calls of each operation that are kept: its first ones take half of the places, a sample of all later ones the
        other half.
    seed : int
        Decides which of the later calls are kept.
    max_bytes : int
        Bytes of all files that a process writes.
    max_held_bytes : int
        Bytes of all copies that are held at a time, wherever the arrays are.
    max_call_bytes : int
        Bytes of the arrays of a call that is kept.

    Returns
    -------
    recording : Recording
        A context manager; ``start`` and ``close`` do what entering and leaving does.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: a limit is below 1.
    BackendUnavailable
        The module does not import, or has nothing to record.
    """
    bounds = {
        "limit": limit,
        "max_bytes": max_bytes,
        "max_held_bytes": max_held_bytes,
        "max_call_bytes": max_call_bytes,
    }
    for name, value in bounds.items():
        if value < 1:
            why = "nothing would be recorded"
            raise SpecRejection(Reason.SCALAR_OUT_OF_RANGE, name, value, "at least 1", why)
    name = implementation if isinstance(implementation, str) else implementation.__name__
    backend = load(name)
    folder = Folder(Path(directory), name, seed, max_bytes, backend.limits.ties_are_free)
    held = Held(limit, seed, max_held_bytes, max_call_bytes)
    return Recording(folder, held, taps_of(name), backend.arrays)


@dataclass(frozen=True)
class _Begun:
    """A call that is being made: what it is called with, the copies of that, and the place that they will take."""

    tap: Tap
    live: dict[str, Any]
    kept: Kept
    place: int


class Recording:
    """Functions of an engine that are watched until the recording is closed; ``record`` makes one."""

    def __init__(self, folder: Folder, held: Held, taps: tuple[Tap, ...], arrays: ModuleType) -> None:
        self._folder = folder
        self._held = held
        self._taps = taps
        self._arrays = arrays
        self._replaced = Replaced()
        self._is_on = False
        self._is_open = False
        self._has_warned = False
        self._writing = Lock()
        self._of_parents: list[Held] = []

    @property
    def tallies(self) -> dict[str, Tally]:
        """What there was of each operation that was called, by its name."""
        return self._held.tallies

    def in_words(self) -> list[str]:
        """Return which calls were kept and how many were not, and why, a line each."""
        return self._held.in_words()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Make the folder and begin to watch.

        Raises
        ------
        OSError
            The folder cannot be made.
        BackendUnavailable
            None of the functions is there.
        """
        self._folder.open()
        found = [one for one in map(find, self._taps) if one is not None]
        if not found:
            raise BackendUnavailable(f"nothing to record: {self._taps[0].modules[0]} and others are not there")
        self._is_on = self._is_open = True
        _OPEN.add(self)
        atexit.register(self.close)
        multiprocessing.util.register_after_fork(self, _close_with_the_process)
        self._replaced.put([(one, self._watching(one.tap, one.function)) for one in found])

    def close(self) -> None:
        """Put the functions back, and write what is held."""
        self._replaced.restore()
        self._is_on = False
        if self._is_open:
            self._is_open = False
            _OPEN.discard(self)
            atexit.unregister(self.close)
            self.flush()

    def flush(self) -> None:
        """Write what is held. This waits for the device: it is for quiet places, and does nothing inside a capture."""
        with self._writing:
            self._guarded(self._flush, None)

    def begin_anew(self) -> None:
        """Be the recording of another process: a fork of the one that began to record."""
        # NOTE: what the parent holds stays its own, and is neither written nor freed here.
        self._of_parents.append(self._held)
        self._held = self._held.afresh()
        self._writing = Lock()
        self._folder.name_anew()

    def _flush(self) -> None:
        if self._arrays.is_capturing():
            return
        for outdated in self._held.outdated():
            self._folder.remove(outdated)
        for kept in self._held.waiting():
            try:
                self._folder.write(kept, self._arrays.fetch)
            except NotUnderstood:
                self._held.forget(kept)
            else:
                if not self._held.let_go(kept):
                    self._folder.remove(kept)
        self._folder.tell(self.in_words())

    def _watching(self, tap: Tap, function: Function) -> Function:
        @functools.wraps(function)
        def watched(*positional: Any, **named: Any) -> Any:
            begun = self._guarded(lambda: self._begin(tap, positional, named), None) if self._is_on else None
            if begun is None:
                return function(*positional, **named)
            try:
                returned = function(*positional, **named)
            except Exception as error:
                raised = error
                self._guarded(lambda: self._keep_raised(begun, raised), None)
                raise
            self._guarded(lambda: self._keep_returned(begun, returned, positional, named), None)
            return returned

        return watched

    def _begin(self, tap: Tap, positional: tuple[Any, ...], named: dict[str, Any]) -> _Begun | None:
        """Decide whether a call is kept, and copy its arguments."""
        place = self._held.offer(tap.operation, self._arrays.is_capturing())
        if place is None:
            return None
        num_bytes = 0
        try:
            read = tap.arguments(*positional, **named)
            if read is None:
                raise NotUnderstood(f"no call of {tap.operation}")
            live = dict(read)
            if not self._held.has_room(tap.operation, place, num_bytes_of(live)):
                return None
            num_bytes = num_bytes_of(live)
            arguments = copies(RECORDS[tap.operation], live, self._arrays.keep)
        except FOREIGN:
            self._held.misunderstand(tap.operation, place, num_bytes)
            return None
        return _Begun(tap, live, Kept(tap.operation, arguments, num_bytes), place)

    def _keep_raised(self, begun: _Begun, error: Exception) -> None:
        if not self._is_on:
            return
        if isinstance(error, SpecRejection):
            begun.kept.rejection = error.reason.name
        else:
            begun.kept.error = f"{type(error).__name__}: {first_line(error)}"
        self._held.put(begun.place, begun.kept)

    def _keep_returned(self, begun: _Begun, returned: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Copy what a call returned and what it wrote into its arguments."""
        kept, contract = begun.kept, RECORDS[begun.tap.operation].contract
        if not self._is_on:
            return
        try:
            live = outputs_by_name(RECORDS[kept.operation], begun.tap.outputs(returned, *positional, **named))
            live.update({name: begun.live[name] for name in contract.writes})
            num_bytes = num_bytes_of(live)
            if not self._held.has_room(kept.operation, begun.place, num_bytes, kept.num_bytes):
                return
            kept.num_bytes += num_bytes
            for name, value in live.items():
                spec = contract.by_name[name]
                kept.outputs[name] = copied(spec, value, self._arrays.keep)
        except FOREIGN:
            self._held.misunderstand(kept.operation, begun.place, kept.num_bytes)
            return
        self._held.put(begun.place, kept)

    def _guarded(self, step: Callable[[], T], otherwise: T) -> T:
        """Do something for the recording; what goes wrong ends it, with one warning, and reaches no one else."""
        try:
            return step()
        except Exception as error:
            if not self._has_warned:
                LOGGER.warning(
                    "recording into %s ends: %s: %s", self._folder.path, type(error).__name__, first_line(error)
                )
            self._has_warned = True
            self._is_on = False
            self._held.clear()
            return otherwise


_OPEN: "weakref.WeakSet[Recording]" = weakref.WeakSet()


def _begin_anew_in_a_fork() -> None:
    for recording in list(_OPEN):
        recording.begin_anew()


def _close_with_the_process(recording: Recording) -> None:
    """Let a process that ``multiprocessing`` forked write what it recorded when it ends: it leaves no block for it."""
    multiprocessing.util.Finalize(recording, recording.close, exitpriority=0)


os.register_at_fork(after_in_child=_begin_anew_in_a_fork)
