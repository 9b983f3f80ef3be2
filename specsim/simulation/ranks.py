"""Ranks that share forwards: what they ask of each other, how they agree on one, and how an idle one takes part.

All ranks run one forward at a time. A rank that wants another one than the others, or none, runs it on rows of padding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.arrays import Array
from specsim.phases import SyncPlan, plan_mlp_sync_batch
from specsim.rejection import check_length
from specsim.simulation.engine import Engine
from specsim.simulation.models.agreement import Agreement, ForwardKind

NOT_SAID = 0
"""Rows of a request of a forward in which a request has as many as it likes, and of a rank that waits."""


@dataclass(frozen=True)
class LostRank:
    """A rank that is gone or silent, and what it was waited for in."""

    rank: int
    during: str

    def __str__(self) -> str:
        return f"rank {self.rank} = silent in {self.during}, but should answer; the others go on without it"


class Group(Protocol):
    """Ranks that can be asked for numbers; one that does not answer in time is lost, and the others go on.

    ``lost`` has every rank that was given up, in the order in which that happened; all others know the same.
    """

    rank: int
    lost: list[LostRank]

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that are left, ascending."""

    def exchange(self, what: str, values: Sequence[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the numbers of all ranks that are left.

        Raises
        ------
        SpecRejection
            WRONG_PHASE: another rank is in another collective, which the message names; or this rank was given up.
        """

    def sum(self, what: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all ranks that are left; every rank has as many values."""


class Meeting:
    """How a rank enters the forwards of its group: the ``agree`` of a ``PaddedModel``.

    Parameters
    ----------
    group : Group
        The ranks.
    run_padding : callable
        Runs a forward of a kind on so many rows of padding, so many a request; last comes the layer.
    attn_tp_size, attn_cp_size : int
        Ranks that share the rows of an attention group.
    """

    def __init__(self, group: Group, run_padding: Any, attn_tp_size: int = 1, attn_cp_size: int = 1) -> None:
        self.group = group
        self.num_collectives = 0
        self._run_padding = run_padding
        self._sizes = attn_tp_size, attn_cp_size

    def __call__(
        self,
        kind: ForwardKind,
        num_requests: int,
        num_tokens: int,
        num_tokens_per_req: int | None,
        layer: int = 0,
    ) -> Agreement:
        """Run forwards of others until it is the turn of this one; return what all ranks agree on."""
        own = (int(kind), layer, num_requests, num_tokens, num_tokens_per_req or NOT_SAID)
        while True:
            answers = self._ask(own)
            wanted = _first_of(answers)
            if wanted == own[:2]:
                plan, width = self._plan(wanted, answers)
                return Agreement(self._rows(plan), width)
            self._take_part(wanted, answers)

    def attend(self) -> bool:
        """Take part in a forward that another rank runs; return False if no one has anything to run."""
        answers = self._ask((int(ForwardKind.NONE), 0, 0, 0, NOT_SAID))
        wanted = _first_of(answers)
        if wanted[0] == ForwardKind.NONE:
            return False
        self._take_part(wanted, answers)
        return True

    def gather(self, input_ids: Array) -> Array:
        """Return the rows of all ranks, side by side in one buffer, as every rank of the group has them.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: two ranks have different buffers.
        """
        plan = self._planned
        buffer = np.zeros(plan.buffer_len, dtype=np.int64)
        start = plan.offset_of(self._place)
        buffer[start : start + len(input_ids)] = input_ids
        gathered = self.group.sum("rows", buffer)
        self.num_collectives += 1
        shape = (plan.buffer_len, int(gathered.sum()))
        for rank, other in self.group.exchange("buffer", shape).items():
            what = f"rows and sum of the buffer of rank {rank}"
            check_length(what, other, shape, "all ranks gather the same rows")
        return gathered

    def _ask(self, own: tuple[int, ...]) -> Mapping[int, tuple[int, ...]]:
        return self.group.exchange("forward", own)

    def _take_part(self, wanted: tuple[int, int], answers: Mapping[int, tuple[int, ...]]) -> None:
        plan, width = self._plan(wanted, answers)
        self._run_padding(ForwardKind(wanted[0]), self._rows(plan), width, wanted[1])

    def _plan(self, wanted: tuple[int, int], answers: Mapping[int, tuple[int, ...]]) -> tuple[SyncPlan, int | None]:
        """Return the rows of every rank that is left, in a forward of some of them."""
        kind = ForwardKind(wanted[0])
        widths = {rank: answer[4] for rank, answer in answers.items() if answer[:2] == wanted and answer[4]}
        width = max(widths.values(), default=NOT_SAID)
        for rank, own in widths.items():
            what = f"rows of a request of rank {rank} in {kind.name}"
            check_length(what, own, width, "ranks that share a forward have the same sizes")
        counts = []
        for answer in answers.values():
            rows = answer[3] if kind.is_prefill else answer[2] * width
            counts.append(rows if answer[:2] == wanted else 0)
        plan = plan_mlp_sync_batch(
            counts,
            None if kind.is_prefill else max(width, 1),
            *self._sizes,
            is_extend_in_batch=kind.is_prefill,
        )
        self._planned, self._place = plan, list(answers).index(self.group.rank)
        return plan, None if kind.is_prefill else width

    def _rows(self, plan: SyncPlan) -> int:
        return plan.num_tokens[self._place]


def _first_of(answers: Mapping[int, tuple[int, ...]]) -> tuple[int, int]:
    """Return kind and layer of the forward that comes first of those that ranks want."""
    return min((answer[0], answer[1]) for answer in answers.values())


def run_rank(engine: Engine, meeting: Meeting) -> None:
    """Run an engine to the end, and take part in the forwards of others until no rank has any left."""
    while True:
        if engine.has_work:
            engine.step()
        elif not meeting.attend():
            return
