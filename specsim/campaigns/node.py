"""What runs on a node: workers that may die, as ``specsim check`` has them, kept from one unit to the next."""

import atexit
import os
import platform
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

import specsim
from specsim.campaigns.units import Ended, Unit
from specsim.conformance.isolation.jobs import CannotStart, Limits
from specsim.conformance.isolation.supervisor import Supervisor

if TYPE_CHECKING:
    from specsim.campaigns.plan import Described

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""What Ray sets to the GPUs of a unit: a process that has begun to use others is not asked."""

Start = Callable[[str, Limits], AbstractContextManager[tuple[Supervisor, Any]]]
"""Starts a worker that has loaded an implementation, and yields who supervises it, with what it is (``Prepared``)."""


class Unstartable(Exception):
    """An implementation cannot be tried on a node: why in words, and the exit code that says so."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words, code)
        self.words, self.code = words, code


@dataclass(frozen=True)
class Terms:
    """What every unit of a campaign is run by; it is sent to each node.

    Parameters
    ----------
    implementation : str
        The module.
    limits : Limits
        What a call, a unit and a process may take.
    examples : int
        Of each property, as ``specsim check`` has it.
    replays : int
        Histories that are tried to shorten one that fails.
    most_seeded : callable
        Returns how many ways of a request a worker runs by seeds at most, of a law, by implementation and device.
    versions : dict of str to str
        What cases say is installed.
    directory : str
        Where units run, if a node has such a folder: where the campaign was begun, unless that is sent there.
    start, prepare : callable
        What starts workers, and what makes a process ready to look for a smaller crash.
    """

    implementation: str
    limits: Limits
    examples: int
    replays: int
    most_seeded: Callable[[str, str], int | None]
    versions: dict[str, str]
    directory: str
    start: Start
    prepare: Callable[[str], object]


class NodeSays(msgspec.Struct, frozen=True):
    """What a node has: versions that units depend on."""

    node: str
    specsim: str
    python: str


class Workshop:
    """A supervisor on this node, and what its workers have loaded."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.visible = os.environ.get(VISIBLE)
        self._left = ExitStack()
        self.supervisor, self.prepared = self._left.enter_context(terms.start(terms.implementation, terms.limits))
        atexit.register(self.close)

    def close(self) -> None:
        """End the workers."""
        atexit.unregister(self.close)
        self._left.close()

    def is_for(self, terms: Terms) -> bool:
        """Return whether units of these terms may run in it, on the GPUs that this process has been given."""
        return self.terms == terms and self.visible == os.environ.get(VISIBLE)


_KEPT: Workshop | None = None


def workshop_for(terms: Terms) -> Workshop:
    """Return the workshop of this process, which is made when it is first asked for.

    Raises
    ------
    Unstartable
        The implementation cannot be tried.
    """
    global _KEPT
    if _KEPT is not None and not _KEPT.is_for(terms):
        close_workshop()
    if _KEPT is None:
        if os.path.isdir(terms.directory):
            os.chdir(terms.directory)
        _KEPT = Workshop(terms)
    return _KEPT


def close_workshop() -> None:
    """End the workers of this process, if it has any."""
    global _KEPT
    kept, _KEPT = _KEPT, None
    if kept is not None:
        kept.close()


def run_on_node(terms: Terms, unit: Unit, known: frozenset[str] = frozenset(), node: str = "") -> Ended:
    """Run a unit in a process that may die, and return what it came to.

    Parameters
    ----------
    known : frozenset of str
        Sorts of failures of whole runs whose shortest history has been looked for.
    node : str
        The name of this node.

    Raises
    ------
    Unstartable
        The implementation cannot be tried here.
    CannotStart
        No process could be started for the unit.
    """
    from specsim.campaigns.kinds import try_unit

    workshop, started = workshop_for(terms), time.monotonic()
    try:
        outcome, files = try_unit(workshop, unit, known)
    except CannotStart:
        # NOTE: the unit is lost, as with its node, and the next one here gets a fork server of its own.
        close_workshop()
        raise
    seconds = time.monotonic() - started
    return Ended(node or socket.gethostname(), msgspec.structs.replace(outcome, seconds=seconds), files)


def describe_on_node(terms: Terms, node: str, wants_cells: bool) -> tuple[NodeSays, "Described"]:
    """Return what a node has, and what the implementation is there.

    Raises
    ------
    Unstartable
        The implementation cannot be tried here.
    """
    from specsim.campaigns.plan import describe

    says = NodeSays(node, specsim.__version__, platform.python_version())
    return says, describe(workshop_for(terms), wants_cells)
