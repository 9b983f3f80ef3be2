"""Faults in workers and schedulers that show when iterations draft nothing for a while."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.record import Mutant, in_loops, unchanged
from specsim.properties.runs.steps.faults_numbered import Iterate, Run, around, with_old_proposals
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.numbers import Steps
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Iteration


def _stale(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
    """Keep what was last proposed while nothing is proposed."""
    if num_steps != 0:
        return run(num_steps)
    return with_old_proposals(worker, rows, [0] * len(rows), lambda _: run(num_steps))


def _sleeping(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
    """Write nothing into the draft's cache while nothing is proposed."""
    entries = [buffer.copy() for buffer in worker.state()["draft_kv"]]
    iteration = run(num_steps)
    if num_steps == 0:
        with worker._pools.kv[Side.DRAFT].writing():
            for buffer, before in zip(worker.state()["draft_kv"], entries, strict=True):
                buffer[:] = before
    return iteration


def _late(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
    """Take the steps of the iteration before."""
    late, worker.steps_before = vars(worker).get("steps_before"), num_steps
    return run(late)


def _tireless(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
    """Take no steps for no number of steps."""
    return run(num_steps or None)


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


_EAGLE = (EAGLE_V1, EAGLE_V2)
_FAULTS: tuple[tuple[str, str, Iterate, tuple[str, ...]], ...] = (
    ("OWN-1500", "After a rest the draft goes on with what it proposed before.", _stale, _EAGLE),
    ("OWN-1501", "The draft's cache is not filled while nothing is proposed.", _sleeping, _EAGLE),
    ("OWN-1502", "A change of steps takes effect one iteration late.", _late, (EAGLE_V2,)),
    ("OWN-1503", "Zero steps are taken for those of the configuration.", _tireless, _EAGLE),
)

MUTANTS = (
    *(
        Mutant(number, "verify_tree_greedy", fault, unchanged, **in_loops(around(iterate), *names))
        for number, fault, iterate, names in _FAULTS
    ),
    Mutant(
        "OWN-1504",
        "assign_req_to_token_pool",
        "After an iteration without drafts no room is kept for those with drafts.",
        unchanged,
        scheduler=ThriftyScheduler,
    ),
)
