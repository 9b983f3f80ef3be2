"""What waits between iterations to start drafts: by request row, or as a batch that requests leave and join."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.conformance.calls import CallsByName
from specsim.phases import DraftInput
from specsim.phases.form import numpy_zeros
from specsim.reference.worker.pools import CARRIED, carried_rows
from specsim.simulation.sides import SideFacts, Waiting


class WaitingRows:
    """Draft inputs by request row, as V2 relays them."""

    def __init__(self, facts: SideFacts, sizes: PoolSizes) -> None:
        self.carried = carried_rows(facts.description, facts.num_candidates, sizes)

    def take(self, rows: Sequence[int]) -> DraftInput:
        """Return what starts the drafts of these rows."""
        row, carried = np.array(rows, dtype=np.int64), self.carried
        values = {name: carried[name][row] if name in carried else None for name in CARRIED}
        return DraftInput(req_pool_indices=row, **values)

    def keep(self, start: DraftInput, joins: bool = False) -> None:
        """Keep what starts the next draft of each request."""
        for name, values in self.carried.items():
            values[start.req_pool_indices] = getattr(start, name)

    def state(self) -> dict[str, Any]:
        """Return the rows by name."""
        return self.carried


class WaitingBatch:
    """The draft input of the batch of V1, which requests leave by ``filter_batch`` and join by ``merge_batch``."""

    def __init__(self, facts: SideFacts, sizes: PoolSizes, operations: CallsByName) -> None:
        self._facts, self._sizes, self._operations = facts, sizes, operations
        self.carried = self.joining = facts.idle_input(numpy_zeros)

    def take(self, rows: Sequence[int]) -> DraftInput:
        """Let those requests leave that ended or were retracted, and those join that were prefilled.

        Verify has dropped the ended ones already. A row that was prefilled since is that of the request that joins.
        """
        merge_batch, filter_batch = self._operations.merge_batch, self._operations.filter_batch
        carried, joining = self.carried, self.joining
        who_joins = joining.req_pool_indices.tolist()
        staying = _places(carried, [row for row in rows if row not in who_joins])
        start: DraftInput = merge_batch(
            filter_batch(carried, staying, len(staying) == carried.num_requests),
            filter_batch(joining, _places(joining, rows), False),
        )
        got = start.req_pool_indices.tolist()
        require(got == list(rows), "rows of the batch", got, list(rows))
        self.joining = self._facts.idle_input(numpy_zeros)
        return start

    def keep(self, start: DraftInput, joins: bool = False) -> None:
        """Keep the batch, or put what was prefilled after what waits to join; its rows have lost their owners."""
        if not joins:
            self.carried = start
            return
        rows = start.req_pool_indices.tolist()
        known = self.joining.req_pool_indices.tolist()
        still_there = [place for place, row in enumerate(known) if row not in rows]
        self.joining = self._operations.merge_batch(
            self._operations.filter_batch(self.joining, still_there, False), start
        )

    def state(self) -> dict[str, Any]:
        """Return the carried fields of requests, each by request row."""
        by_row: dict[str, Any] = {}
        for name in CARRIED:
            values = getattr(self.carried, name)
            if values is None:
                continue
            by_row[name] = np.zeros((self._sizes.num_rows, *values.shape[1:]), dtype=values.dtype)
            for phase in (self.carried, self.joining):
                by_row[name][phase.req_pool_indices] = getattr(phase, name)
        return by_row


def waiting_inputs(facts: SideFacts, sizes: PoolSizes, operations: CallsByName, is_v1: bool) -> Waiting:
    """Return where draft inputs wait: as an empty batch for V1, as rows for V2."""
    return WaitingBatch(facts, sizes, operations) if is_v1 else WaitingRows(facts, sizes)


def _places(phase: DraftInput, rows: Sequence[int]) -> list[int]:
    """Return where the requests of these rows are, in the order of the rows."""
    known = phase.req_pool_indices.tolist()
    return [known.index(row) for row in rows if row in known]
