"""What runs on a node: a unit, or what the node and the implementation are there."""

import platform
import socket
import time

import msgspec

import specsim
from specsim.campaigns.kinds import try_unit
from specsim.campaigns.plan import Described, describe
from specsim.campaigns.units import Ended, Unit
from specsim.campaigns.workshop import Terms, close_workshop, workshop_for
from specsim.conformance.isolation.jobs import CannotStart


class NodeSays(msgspec.Struct, frozen=True):
    """What a node has: versions that units depend on."""

    node: str
    specsim: str
    python: str


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
    workshop, started = workshop_for(terms), time.monotonic()
    try:
        outcome, files = try_unit(workshop, unit, known)
    except CannotStart:
        # NOTE: the unit is lost, as with its node, and the next one here gets a fork server of its own.
        close_workshop()
        raise
    seconds = time.monotonic() - started
    return Ended(node or socket.gethostname(), msgspec.structs.replace(outcome, seconds=seconds), files)


def describe_on_node(terms: Terms, node: str, wants_cells: bool) -> tuple[NodeSays, Described]:
    """Return what a node has, and what the implementation is there.

    Raises
    ------
    Unstartable
        The implementation cannot be tried here.
    """
    says = NodeSays(node, specsim.__version__, platform.python_version())
    return says, describe(workshop_for(terms), wants_cells)
