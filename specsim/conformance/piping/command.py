"""An implementation that is a command: it is started, asked what it defines, and called over stdin and stdout.

``docs/any-language.md`` has the protocol. ``command:`` before a command line is the name of such an implementation
wherever a module has one. Every process that calls it has a command of its own, which ends with that process.
"""

import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import numpy as np

from specsim.assertion import require_present
from specsim.conformance.carrying import as_list, labelled
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.isolation.heartbeat import Poisoned, is_watched
from specsim.conformance.isolation.messages import SECONDS_HALFWAY
from specsim.conformance.limits import SWITCHES
from specsim.conformance.piping.frames import BadFrame, framed, opened, quoted
from specsim.conformance.piping.process import Ended, Process
from specsim.conformance.plain_text import bounded, said, shown
from specsim.conformance.stored import LONGEST_NAME
from specsim.conformance.stored_arrays import form_of, is_storable
from specsim.contracts.contract import Contract
from specsim.operations.derived.signature import nearest
from specsim.operations.record import Operation
from specsim.rejection import Reason, SpecRejection
from specsim.validation.checking import check_call

PREFIX = "command:"
PROTOCOL = "specsim.pipe/1"
DECLARED = ("REJECTS", "MAX_SAMPLES", "LIMITS", "TIES", "ACCEPTANCE", *SWITCHES)
"""The attributes of a module that a command may declare: those that say something of single operations."""

VALUES_ALONE = "a pipe carries values alone: strides of arguments, and writes outside of outputs, are not tried"


class NoCommand(RuntimeError):
    """A command cannot be started, or ends before it has said what it defines."""


class BadCommand(ValueError):
    """A command is no command line, or says what makes no sense when it is started."""


class _Hello(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    hello: str
    operations: list[str]
    name: str = ""
    version: str = ""
    declares: dict[str, Any] = {}


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    rejection: str | None = None
    error: str | None = None
    message: str = ""


_Kind = TypeVar("_Kind", _Hello, _Answer)


def command_of(implementation: str) -> str | None:
    """Return the command line of an implementation that is one, else None."""
    return implementation.removeprefix(PREFIX) if implementation.startswith(PREFIX) else None


def import_command(implementation: str) -> ModuleType:
    """Return a namespace like that of a module whose functions call a command; a second import is the first again.

    Raises
    ------
    NoCommand
        It cannot be started.
    BadCommand
        What it answers makes no sense.
    """
    if implementation not in sys.modules:
        pipe = Pipe(implementation.removeprefix(PREFIX))
        module = ModuleType(implementation)
        vars(module).update(pipe.start())
        sys.modules[implementation] = module
    return sys.modules[implementation]


class Pipe:
    """A command that is called: its process, which is started when it is needed, and how many calls it was sent.

    Parameters
    ----------
    command : str
        Its command line, cut into words as a shell does; no shell runs it.
    seconds_halfway : float
        After which half a frame counts as such.
    """

    def __init__(self, command: str, seconds_halfway: float = SECONDS_HALFWAY) -> None:
        self._command, self._halfway = command, seconds_halfway
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise BadCommand(f"--command {said(command)} is no command line: {error}") from error
        if not self._words:
            raise BadCommand("--command is empty, but should name a program")
        self._process: Process | None = None
        self._calls = 0

    def start(self) -> dict[str, Any]:
        """Start the command, and return what a module would define.

        Raises
        ------
        NoCommand, BadCommand
            As ``import_command`` says.
        """
        try:
            hello = self._begin()
            functions = {name: partial(self.call, _record_of(name)) for name in hello.operations}
            for name, value in hello.declares.items():
                _require_declared(name, value)
        except BadFrame as error:
            self.close()
            raise BadCommand(f"{self._command} wrote {error}") from error
        except Ended as end:
            self.close()
            if end.is_halfway:
                raise BadCommand(f"{self._command} {end}") from end
            raise NoCommand(f"{self._command} cannot be started: {end}") from end
        called = " ".join(one for one in (hello.name, hello.version) if one)
        remarks = (*[shown(f"the command calls itself {called}")] * bool(called), VALUES_ALONE)
        return {**functions, **hello.declares, "VERSION": hello.version or None, "REMARKS": remarks}

    def call(self, operation: Operation, /, **arguments: Any) -> Any:
        """Call an operation: what it writes is written into the arguments, and its outputs are returned.

        Raises
        ------
        SpecRejection
            The command refuses the call.
        RuntimeError
            It answers with an error, or with what is no answer; the next call starts it again.
        AssertionError
            It answers other arrays than the operation has.
        Poisoned
            It has ended, and somebody watches who starts another process.
        """
        contract = operation.contract
        scalars = {spec.name: arguments[spec.name] for spec in contract.scalars if arguments[spec.name] is not None}
        given = dict(each for spec in contract.arrays for each in labelled(spec.name, arguments[spec.name]))
        if not _is_carried(contract, arguments, scalars, given):
            # NOTE: no frame has room for it, so that the command cannot refuse it.
            check_call(operation.name, arguments)
        try:
            if self._process is None or not self._process.is_ours:
                self._begin()
            answer, arrays = self._ask({"operation": operation.name, "scalars": scalars}, given, _Answer)
        except BadFrame as error:
            self.close()
            raise RuntimeError(f"the command wrote {error}") from error
        except (Ended, NoCommand) as end:
            self.close()
            if is_watched():
                raise Poisoned(f"the command: {end}") from end
            raise RuntimeError(f"the command: {end}") from end
        if answer.rejection is not None:
            raise _rejection(operation, answer)
        if answer.error is not None:
            raise RuntimeError(shown(answer.error))
        returned = tuple(_taken(arrays, spec.name, spec.each is not None) for spec in contract.outputs)
        _write_back(contract, arguments, arrays)
        if arrays:
            names = ", ".join([*(spec.name for spec in contract.outputs), *contract.writes])
            raise AssertionError(f"{operation.name} returned {shown(min(arrays))}, but should return {names}")
        return returned[0] if len(returned) == 1 else returned

    def close(self) -> None:
        """End the command, where this process has started it."""
        if self._process is not None:
            self._process.close()
        self._process = None

    def _begin(self) -> _Hello:
        """Start the command and return what it says of itself."""
        self.close()
        try:
            self._process = Process(self._words, self._halfway)
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else error
            raise NoCommand(f"{self._command} cannot be started: {words}") from error
        self._calls = 0
        hello, _ = self._ask({"hello": PROTOCOL}, {}, _Hello)
        # NOTE: the answer to a second one shows whether something followed the first.
        self._ask({"hello": PROTOCOL}, {}, _Hello)
        if hello.hello != PROTOCOL:
            raise BadFrame(f"hello {said(hello.hello)}, but should write {PROTOCOL}")
        return hello

    def _ask(
        self, header: Mapping[str, Any], arrays: Mapping[str, Any], kind: type[_Kind]
    ) -> tuple[_Kind, dict[str, Any]]:
        """Send a frame and return the answer to it, and its arrays by name."""
        process, number = require_present("the command", self._process), self._calls
        self._calls += 1
        words, got = opened(process.exchange(framed({"id": number, **header}, arrays)))
        try:
            answer = msgspec.json.decode(words, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadFrame(f"{quoted(words)}, which is no answer: {error}") from error
        if answer.id != number:
            raise BadFrame(f"the answer to frame {answer.id}, but should answer frame {number}")
        return answer, got


def _record_of(name: str) -> Operation:
    entry = CATALOGUE.get(name)
    if entry is None or entry.record is None:
        names = [one.name for one in CATALOGUE.values() if one.record is not None]
        raise BadFrame(f"operations with {said(name)}, but should write names of the table{_meant(name, names)}")
    return entry.record


def _meant(name: str, names: Iterable[str]) -> str:
    return "".join(f"; did you mean {guess}?" for guess in nearest(bounded(name, LONGEST_NAME), names)[:1])


def _require_declared(name: str, value: Any) -> None:
    """Refuse what no module declares of single operations; ``limits_of`` reads the rest."""
    if name not in DECLARED:
        expected = f"one of {', '.join(DECLARED)}"
        raise BadFrame(f"declares with {said(name)}, but should write {expected}")
    kind = {"REJECTS": bool, "MAX_SAMPLES": int}.get(name)
    if kind is not None and type(value) is not kind:
        expected = "true or false" if kind is bool else "a number"
        raise BadFrame(f"declares.{name} {said(value)}, but should write {expected}")


def _is_carried(
    contract: Contract, arguments: Mapping[str, Any], scalars: Mapping[str, Any], arrays: Mapping[str, Any]
) -> bool:
    """Return whether a frame says what a call is: a list that is absent would look like one without arrays."""
    has_lists = all(arguments[spec.name] is not None for spec in contract.arrays if spec.each is not None)
    are_plain = all(type(one) in (int, bool) for one in scalars.values()) and all(map(is_storable, arrays.values()))
    return has_lists and are_plain


def _taken(arrays: dict[str, Any], name: str, is_list: bool) -> Any:
    """Take an array, or a list of them, out of those of a frame; None where it is absent."""
    if not is_list:
        return arrays.pop(name, None)
    count = 0
    while f"{name}.{count}" in arrays:
        count += 1
    return [arrays.pop(f"{name}.{place}") for place in range(count)]


def _write_back(contract: Contract, arguments: Mapping[str, Any], arrays: dict[str, Any]) -> None:
    """Write what came back of the arguments that an operation writes into them; scratch memory may be left alone."""
    for name in contract.writes:
        given = arguments[name]
        found = _taken(arrays, name, isinstance(given, list))
        is_left_alone = name in contract.scratch and not any(one is not None for one in as_list(found))
        if given is None or is_left_alone:
            continue
        if _forms(found) != _forms(given):
            raise AssertionError(f"{name} = {_forms(found)}, but should be {_forms(given)}: the operation writes it")
        for target, source in zip(as_list(given), as_list(found), strict=True):
            np.copyto(target, source)


def _forms(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(form_of, value))}]"
    return "nothing" if value is None else form_of(value)


def _rejection(operation: Operation, answer: _Answer) -> SpecRejection:
    """Return the rejection that a command answers."""
    name = str(answer.rejection)
    if name not in Reason.__members__:
        close = _meant(name, Reason.__members__)
        raise RuntimeError(f"the command refuses the call for {said(name)}, but should give a reason of ours{close}")
    because = shown(answer.message) or "the command says so"
    return SpecRejection(Reason[name], f"call of {operation.name}", "refused", "within the domain", because)
