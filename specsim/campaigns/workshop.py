"""The workshop of a node: workers that may die, as ``specsim check`` has them, kept from one unit to the next."""

import atexit
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.isolation.supervisor import Supervisor

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
