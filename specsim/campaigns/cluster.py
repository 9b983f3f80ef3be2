"""A Ray cluster as the executor of a campaign: a unit is a task, a CPU each, and GPUs where it needs some."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import specsim
from specsim.campaigns.address import NoCluster, check_address
from specsim.campaigns.node import NodeSays, describe_on_node, run_on_node
from specsim.campaigns.plan import Described
from specsim.campaigns.units import Ended, LostNode, Unit
from specsim.campaigns.workshop import Terms, Unstartable
from specsim.installation import explain_missing, find_missing

if find_missing("cluster"):
    raise ImportError(explain_missing("cluster", __name__))

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

OBJECT_STORE_BYTES = 100 * 2**20
"""Memory of this machine's cluster for what tasks return, which is a few kilobytes each."""

SECONDS_OF_NODES = 2.0
"""How long what the cluster has is taken to stay the same."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}


@contextmanager
def connected(address: str | None, num_cpus: int, runtime_env: Mapping[str, Any]) -> Iterator[None]:
    """Join a cluster, or without an address start one on this machine, which ends with the block.

    Raises
    ------
    NoCluster
        There is none at the address, or it refuses this machine.
    """
    os.environ.update(QUIET)
    if address is not None:
        check_address(address)
        where: dict[str, Any] = {"address": address}
    else:
        where = {"num_cpus": num_cpus, "object_store_memory": OBJECT_STORE_BYTES, "address": "local"}
        where |= {"include_dashboard": False}
    # NOTE: Ray has a handler of its own, which ends the process where ours prints what was found.
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**where, runtime_env=dict(runtime_env), log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError, ray.exceptions.RayError) as error:
        with suppress(Exception):
            ray.shutdown()
        who = "this machine" if address is None else f"--address {address}"
        # NOTE: a runtime environment that is none is a ValueError.
        is_absent = not isinstance(error, ValueError)
        words = " ".join(str(error).split())
        raise NoCluster(f"{who} cannot be used as a Ray cluster: {words}", is_absent) from error
    finally:
        if before is not None:
            with suppress(ValueError):  # NOTE: only the main thread has handlers.
                signal.signal(signal.SIGTERM, before)
    try:
        yield
    finally:
        ray.shutdown()


def has_gpus() -> bool:
    """Return whether a node of the cluster that this process has joined has a GPU."""
    return bool(ray.cluster_resources().get("GPU", 0))


class RayCluster:
    """The cluster that this process has joined.

    Parameters
    ----------
    terms : Terms
        Sent to each node once.
    num_gpus : float
        GPUs of a unit.
    most : int or None
        Units at once at most; None for as many as there are CPUs, and GPUs where units need them.
    """

    def __init__(self, terms: Terms, num_gpus: float, most: int | None) -> None:
        self._num_gpus, self._most = num_gpus, most
        # NOTE: a unit whose node is lost is begun again by the driver, which counts that; ``max_calls`` lets the
        # process of a unit on a GPU, with what it has loaded, run the next one.
        how = {"num_cpus": 1, "num_gpus": num_gpus, "max_retries": 0, "max_calls": 0}
        self._run, self._describe = ray.remote(**how)(_run_here), ray.remote(**how)(_describe_here)
        self._terms = ray.put(terms)
        self._out: dict[Any, Unit] = {}
        self._nodes: tuple[float, int] = (-SECONDS_OF_NODES, 0)

    def describe(self, wants_cells: bool) -> Described:
        """Ask every node what it has; return what the implementation is, on the first of them.

        Raises
        ------
        NoCluster
            No node has room for a unit, or one has another release of specsim or Python.
        Unstartable
            The implementation cannot be tried on one of them.
        """
        nodes = [node["NodeID"] for node in self._alive() if self._places_on(node)]
        if not nodes:
            what = f"{self._num_gpus:g} GPUs and a CPU" if self._num_gpus else "a CPU"
            raise NoCluster(f"no node of the cluster has {what}, which each unit needs", is_absent=False)
        asked = []
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            asked.append(self._describe.options(scheduling_strategy=there).remote(self._terms, False))
        # NOTE: a node that has gone is in the list for some seconds more, and needs no answer where others have one.
        answers = [answer for reference in asked if not isinstance(answer := self._answer(reference), LostNode)]
        if not answers:
            raise NoCluster(f"no node of the cluster answers, of {len(nodes)} that it lists")
        ours = NodeSays("", specsim.__version__, answers[0][0].python)
        for says, _ in answers:
            if (says.specsim, says.python) != (ours.specsim, ours.python):
                got = f"specsim {says.specsim} and Python {says.python}"
                expected = f"specsim {ours.specsim} and Python {ours.python}"
                because = "units of one campaign count together"
                raise NoCluster(f"node {says.node} has {got}, but should have {expected}, because {because}", False)
        if not wants_cells:
            return answers[0][1]
        answer = self._answer(self._describe.remote(self._terms, True))
        if isinstance(answer, LostNode):
            raise NoCluster(f"a node of the cluster was lost while it chose cells: {answer.why}")
        return answer[1]

    def num_places(self) -> int:
        """Return how many units can run at once on the nodes that are there."""
        looked, places = self._nodes
        if time.monotonic() - looked >= SECONDS_OF_NODES:
            places = sum(self._places_on(node) for node in self._alive())
            self._nodes = time.monotonic(), places
        return places if self._most is None else min(places, self._most)

    def submit(self, unit: Unit, known: frozenset[str]) -> None:
        """Begin a unit on any node that has room."""
        self._out[self._run.remote(self._terms, unit, known)] = unit

    def ended(self, seconds: float) -> list[tuple[Unit, Ended | LostNode]]:
        """Wait at most so long for a unit to end, and return what became of all that did."""
        if not self._out:
            time.sleep(seconds)
            return []
        first, others = ray.wait([*self._out], num_returns=1, timeout=seconds)
        also = ray.wait(others, num_returns=len(others), timeout=0)[0] if first and others else []
        return [(self._out.pop(reference), self._outcome(reference)) for reference in (*first, *also)]

    def _outcome(self, reference: Any) -> Ended | LostNode:
        try:
            ended: Ended = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return LostNode(f"{type(error.cause).__name__}: {_first_line(error.cause)}")
        except ray.exceptions.RayError as error:
            return LostNode(_first_line(error))
        return ended

    def _answer(self, reference: Any) -> tuple[NodeSays, Described] | LostNode:
        try:
            answer: tuple[NodeSays, Described] = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Unstartable):
                raise error.cause from None
            words = f"{type(error.cause).__name__}: {_first_line(error.cause)}"
            raise NoCluster(f"a node of the cluster cannot run a unit: {words}") from error
        except ray.exceptions.RayError as error:
            return LostNode(_first_line(error))
        return answer

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in ray.nodes() if node["Alive"]]

    def _places_on(self, node: Mapping[str, Any]) -> int:
        has = node["Resources"]
        by_gpu = [has.get("GPU", 0) / self._num_gpus] if self._num_gpus else []
        return int(min([has.get("CPU", 0), *by_gpu]))


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _run_here(terms: Terms, unit: Unit, known: frozenset[str]) -> Ended:
    return run_on_node(terms, unit, known, _node_name())


def _describe_here(terms: Terms, wants_cells: bool) -> tuple[NodeSays, Described]:
    return describe_on_node(terms, _node_name(), wants_cells)


def _node_name() -> str:
    """Return a name of this node that users know, and that is its alone."""
    return f"{socket.gethostname()}/{ray.get_runtime_context().get_node_id()[:8]}"
