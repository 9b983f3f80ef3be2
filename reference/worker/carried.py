"""What a V1 worker carries between iterations, when requests leave its batch and others join."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import DraftInput
from specsim.reference.worker.pools import CARRIED


def gather_joining(waiting: DraftInput, joining: DraftInput, operations: CallsByName) -> DraftInput:
    """Put what was prefilled behind what waits to join; a row that was prefilled again has lost its owner before."""
    rows = joining.req_pool_indices.tolist()
    known = waiting.req_pool_indices.tolist()
    still_there = [place for place, row in enumerate(known) if row not in rows]
    merged: DraftInput = operations.merge_batch(operations.filter_batch(waiting, still_there, False), joining)
    return merged


def form_batch(carried: DraftInput, joining: DraftInput, rows: Sequence[int], operations: CallsByName) -> DraftInput:
    """Let those requests leave that ended or were retracted, and those join that were prefilled.

    Verify has dropped the ended ones already. A row that was prefilled since belongs to whoever joins with it.
    """
    who_joins = joining.req_pool_indices.tolist()
    staying = _places(carried, [row for row in rows if row not in who_joins])
    info: DraftInput = operations.merge_batch(
        operations.filter_batch(carried, staying, len(staying) == carried.num_requests),
        operations.filter_batch(joining, _places(joining, rows), False),
    )
    got = info.req_pool_indices.tolist()
    require(got == list(rows), "rows of the batch", got, list(rows))
    return info


def by_row(phases: Sequence[DraftInput], sizes: PoolSizes) -> dict[str, Array]:
    """Return the carried fields of requests, each by request row."""
    carried: dict[str, Any] = {}
    for name in CARRIED:
        values = getattr(phases[0], name)
        if values is None:
            continue
        carried[name] = np.zeros((sizes.num_rows, *values.shape[1:]), dtype=values.dtype)
        for phase in phases:
            carried[name][phase.req_pool_indices] = getattr(phase, name)
    return carried


def _places(phase: DraftInput, rows: Sequence[int]) -> list[int]:
    """Return where the requests of these rows are, in the order of the rows."""
    known = phase.req_pool_indices.tolist()
    return [known.index(row) for row in rows if row in known]
