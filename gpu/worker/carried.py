"""What the V1 worker carries between iterations: the draft input of its batch, and on the host whose rows it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.transfer import upload
from specsim.phases import DraftInput, filter_batch, merge_batch
from specsim.simulation.sides import SideFacts


@dataclass(frozen=True)
class Carried:
    """A draft input on the device; ``rows`` are its request rows, so that nobody waits for the device to learn them."""

    rows: tuple[int, ...]
    phase: DraftInput

    @classmethod
    def idle(cls, facts: SideFacts) -> "Carried":
        """Return what an empty batch carries."""
        told = facts.description
        width = told.draft_hidden_width if told.has_draft_hidden else None
        empty = facts.draft_input.create_idle_input(facts.num_candidates, width, told.hidden_dtype, device_zeros)
        return cls((), empty)

    def keep(self, rows: Sequence[int], has_been_filtered: bool = False) -> "Carried":
        """Let all requests leave but those in these rows, in their order (semantics D.8).

        With ``has_been_filtered`` verify has dropped the others: only the number is compared. Nothing is copied if
        everybody stays.
        """
        places = [self.rows.index(row) for row in rows]
        if has_been_filtered:
            return Carried(self.rows, filter_batch(self.phase, places, True, take=_take_all))
        if tuple(rows) == self.rows:
            return self
        (index,) = upload([places], DEVICE)

        def take(values: Tensor, _: Sequence[int]) -> Tensor:
            return values.index_select(0, index)

        return Carried(tuple(rows), filter_batch(self.phase, places, take=take))

    def joined_by(self, other: "Carried") -> "Carried":
        """Put the requests of another batch behind these."""
        return Carried(self.rows + other.rows, merge_batch(self.phase, other.phase))


def device_zeros(shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return zeros on the device."""
    return torch.zeros(shape, dtype=getattr(torch, dtype), device=DEVICE)


def _take_all(values: Tensor, _: Sequence[int]) -> Tensor:
    return values
