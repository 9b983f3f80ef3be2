"""Faults in workers and schedulers that show when iterations draft nothing for a while."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Mutant
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import Maps, ReferenceWorker
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.numbers import Steps
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Iteration, Worker

PROPOSALS = ("topk_p", "topk_index", "hidden_states")
"""What a draft starts from, beside its root and its place."""


class StaleWorker(ReferenceWorker):
    """Keeps what it last proposed while it proposes nothing."""

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step proposals stay as they are."""
        waiting: Any = self._waiting
        before = {name: waiting.carried[name].copy() for name in PROPOSALS if name in waiting.carried}
        iteration = super().decode_from(read, rows, num_steps)
        if num_steps == 0:
            waiting.carried.update(before)
        return iteration


class StaleWorkerV1(ReferenceWorkerV1):
    """Does the same in V1."""

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step proposals stay as they are."""
        before = self.state()
        iteration = super().decode(rows, num_steps)
        if num_steps == 0:
            waiting: Any = self._waiting
            rows = waiting.carried.req_pool_indices
            stale = {name: before[name][rows] for name in PROPOSALS if name in before}
            waiting.carried = replace(waiting.carried, **stale)
        return iteration


class SleepingWorker(ReferenceWorker):
    """Writes nothing into the draft's cache while nothing is proposed."""

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step the draft's entries stay as they are."""
        before = _draft_entries(self)
        iteration = super().decode_from(read, rows, num_steps)
        if num_steps == 0:
            _put_back(self, before)
        return iteration


class SleepingWorkerV1(ReferenceWorkerV1):
    """Does the same in V1."""

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step the draft's entries stay as they are."""
        before = _draft_entries(self)
        iteration = super().decode(rows, num_steps)
        if num_steps == 0:
            _put_back(self, before)
        return iteration


class LateWorker(ReferenceWorker):
    """Changes the number of its steps one iteration late."""

    _steps_before: Steps = None

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration with the steps of the one before."""
        late, self._steps_before = self._steps_before, num_steps
        return super().decode_from(read, rows, late)

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration on the map as it is."""
        return self.decode_from(self.read_map(), rows, num_steps)


class TirelessWorker(ReferenceWorker):
    """Takes no steps for no number of steps."""

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step it drafts all of them."""
        return super().decode_from(read, rows, num_steps or None)


class TirelessWorkerV1(ReferenceWorkerV1):
    """Does the same in V1."""

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration; without a step it drafts all of them."""
        return super().decode(rows, num_steps or None)


class ThriftyScheduler(Scheduler):
    """Reserves for a root alone after an iteration that output one token a request."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._committed: dict[int, int] = {}

    def prepare_for_decode(self) -> list[SlotRange]:
        """Allocate for the next two iterations, as long ones as the last."""
        lengths = {request.request_id: request.num_committed for request in self.running}
        is_at_rest = all(length == self._committed.get(number, -1) + 1 for number, length in lengths.items())
        self._committed, sizes = lengths, self._sizes
        if is_at_rest:
            self._sizes = replace(sizes, num_steps=0, num_draft_tokens=1)
        ranges = super().prepare_for_decode()
        self._sizes = sizes
        return ranges


def _draft_entries(worker: Worker) -> list[Any]:
    return [buffer.copy() for buffer in worker.state()["draft_kv"]]


def _put_back(worker: Any, entries: Sequence[Any]) -> None:
    with worker._pools.kv[Side.DRAFT].writing():
        for buffer, before in zip(worker.state()["draft_kv"], entries, strict=True):
            buffer[:] = before


def _same(correct: Any) -> Any:
    return correct


_WORKERS: tuple[tuple[str, str, Callable[..., Worker], Callable[..., Worker] | None], ...] = (
    ("OWN-1500", "After a rest the draft goes on with what it proposed before.", StaleWorker, StaleWorkerV1),
    ("OWN-1501", "The draft's cache is not filled while nothing is proposed.", SleepingWorker, SleepingWorkerV1),
    ("OWN-1502", "A change of steps takes effect one iteration late.", LateWorker, None),
    ("OWN-1503", "Zero steps are taken for those of the configuration.", TirelessWorker, TirelessWorkerV1),
)

MUTANTS = (
    *(
        Mutant(number, "verify_tree_greedy", fault, _same, worker=worker, worker_v1=worker_v1)
        for number, fault, worker, worker_v1 in _WORKERS
    ),
    Mutant(
        "OWN-1504",
        "assign_req_to_token_pool",
        "After an iteration without drafts no room is kept for those with drafts.",
        _same,
        scheduler=ThriftyScheduler,
    ),
)
