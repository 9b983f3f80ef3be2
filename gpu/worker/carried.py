"""What waits between iterations to start drafts: by request row, or as a batch that requests leave and join.

The host knows which rows a batch has, so that it never waits for the device to learn them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker import arrays
from specsim.gpu.worker.fused import gather_rows, scatter_rows
from specsim.gpu.worker.transfer import pinned, upload
from specsim.phases import DraftInput, filter_batch, merge_batch
from specsim.simulation.sides import SideFacts, Waiting
from specsim.simulation.worker import Iteration

CARRIED = ("seq_lens", "bonus_tokens", "topk_p", "topk_index", "hidden_states")
"""What a draft input waits with, by request row, between iterations."""


class DeviceWaiting(Waiting, Protocol):
    """What waits on the device or the host.

    ``take`` returns a dataclass of tensors [request, ...], of which ``req_pool_indices`` is one; what else is in it
    stays on the host. The tensors are copied to where the stages of a batch read them.
    """

    def read(self, batch: Any) -> Any:
        """Return what starts the drafts of the batch that was taken; in a graph, from memory that stays in place."""
        return batch

    def keep(self, start: Any, joins: bool = False, rows: Sequence[int] = ()) -> None:
        """Keep what starts the next drafts; ``rows`` are its request rows, which no graph knows."""

    def hear(self, rows: Sequence[int], iteration: Iteration) -> None:
        """Take note of what the requests of these rows output, as soon as the host knows it."""
        return None


@dataclass(frozen=True)
class BatchRows:
    """The rows of a batch, int64 [request], on the host."""

    req_pool_indices: Tensor


class WaitingRows(DeviceWaiting):
    """What starts drafts by request row, as V2 relays it; the row that pads batches is never written: its length is 1.

    Parameters
    ----------
    carried : mapping
        A tensor [row, ...] a field.
    make : callable
        Makes of the fields of a batch what starts its drafts.
    """

    def __init__(self, carried: Mapping[str, Tensor], make: Callable[..., Any]) -> None:
        self.carried, self._make = carried, make
        carried["seq_lens"][:1].fill_(1)

    def take(self, rows: Sequence[int]) -> BatchRows:
        """Return the rows, which every entry of a graph's batch is read by."""
        return BatchRows(pinned(np.array(rows, dtype=np.int64)))

    def read(self, batch: BatchRows) -> Any:
        """Gather what starts the drafts of a batch."""
        rows, fields = batch.req_pool_indices, self.carried
        entries = {name: values.new_empty((len(rows), *values.shape[1:])) for name, values in fields.items()}
        gather_rows(rows, [*fields.values()], [*entries.values()])
        return self._make(rows, **entries)

    def keep(self, start: Any, joins: bool = False, rows: Sequence[int] = ()) -> None:
        """Keep what starts the next draft of each request."""
        fields = self.carried
        scatter_rows(start.req_pool_indices, [*fields.values()], [getattr(start, name) for name in fields])

    def state(self) -> dict[str, Any]:
        """Return the rows by name, as NumPy arrays."""
        return {name: to_numpy(values) for name, values in self.carried.items()}


@dataclass(frozen=True)
class Carried:
    """A draft input on the device, and on the host the request rows that it is of."""

    rows: tuple[int, ...]
    phase: DraftInput

    def keep(self, rows: Sequence[int], has_been_filtered: bool = False) -> "Carried":
        """Let all requests leave but those in these rows, in their order (semantics D.8).

        With ``has_been_filtered`` verify has dropped the others: only the number is compared. Nothing is copied if
        everybody stays.
        """
        places = [self.rows.index(row) for row in rows]
        if has_been_filtered:
            return Carried(self.rows, filter_batch(self.phase, places, True, take=lambda values, _: values))
        if tuple(rows) == self.rows:
            return self
        return Carried(tuple(rows), filter_batch(self.phase, places, take=take_entries))


class WaitingBatch(DeviceWaiting):
    """The draft input of the batch of V1, which requests leave by ``filter_batch`` and join by ``merge_batch``."""

    def __init__(self, facts: SideFacts, sizes: PoolSizes) -> None:
        self._sizes, self._idle = sizes, Carried((), facts.idle_input(arrays.zeros))
        self.carried = self.joining = self._idle

    def take(self, rows: Sequence[int]) -> DraftInput:
        """Let those requests leave that ended or were retracted, and those join that were prefilled.

        Verify has dropped the ended ones already. A row that was prefilled since is that of the request that joins.
        """
        joining = [row for row in rows if row in self.joining.rows]
        staying = [row for row in rows if row in self.carried.rows and row not in joining]
        carried = self.carried.keep(staying, len(staying) == len(self.carried.rows))
        joined = self.joining.keep(joining)
        self.carried = Carried(carried.rows + joined.rows, merge_batch(carried.phase, joined.phase))
        self.joining = self._idle
        require(self.carried.rows == tuple(rows), "rows of the batch", self.carried.rows, tuple(rows))
        return self.carried.phase

    def keep(self, start: DraftInput, joins: bool = False, rows: Sequence[int] = ()) -> None:
        """Keep the batch, or put what was prefilled after what waits to join; its rows have lost their owners."""
        kept = Carried(tuple(rows), start)
        if joins:
            others = self.joining.keep([row for row in self.joining.rows if row not in rows])
            self.joining = Carried(others.rows + kept.rows, merge_batch(others.phase, start))
        else:
            self.carried = kept

    def state(self) -> dict[str, Any]:
        """Return the carried fields of requests, each by request row, as NumPy arrays."""
        by_row = {}
        for name in CARRIED:
            values = [getattr(one.phase, name) for one in (self.carried, self.joining)]
            if values[0] is None:
                continue
            first = to_numpy(values[0])
            by_row[name] = np.zeros((self._sizes.num_rows, *first.shape[1:]), dtype=first.dtype)
            for one, given in zip((self.carried, self.joining), values, strict=True):
                by_row[name][list(one.rows)] = to_numpy(given)
        return by_row


def waiting_inputs(facts: SideFacts, sizes: PoolSizes, operations: Any, is_v1: bool) -> DeviceWaiting:
    """Return where draft inputs wait: as an empty batch for V1; as rows for V2, with the states that a draft takes."""
    del operations
    if is_v1:
        return WaitingBatch(facts, sizes)
    description, rows, topk = facts.description, sizes.num_rows, facts.num_candidates
    carried = {
        "seq_lens": arrays.full((rows,), 1, "int64"),
        "bonus_tokens": arrays.zeros((rows,), "int32"),
        "topk_p": arrays.zeros((rows, topk), "float32"),
        "topk_index": arrays.zeros((rows, topk), "int64"),
    }
    if description.has_draft_hidden:
        carried["hidden_states"] = arrays.zeros((rows, description.draft_hidden_width), description.hidden_dtype)
    return WaitingRows(carried, _draft_input)


def _draft_input(rows: Tensor, hidden_states: Tensor | None = None, **values: Tensor) -> DraftInput:
    return DraftInput(req_pool_indices=rows, hidden_states=hidden_states, **values)


def take_entries(values: Tensor, places: Sequence[int]) -> Tensor:
    """Return some entries of a tensor, by places that go up without waiting."""
    (index,) = upload([places], DEVICE)
    return values.index_select(0, index)
