"""What all requests of a worker share: the request-to-token map and the KV pools of target and draft."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.simulation.models.language_models import LanguageModel
from specsim.simulation.scheduler import SlotRange

TAG_WORDS = 4


@dataclass(frozen=True)
class Pools:
    """One map and two lists of KV buffers, written in place; the map is int32 [row, position]."""

    req_to_token: Array
    target_kv: list[Array]
    draft_kv: list[Array]

    @classmethod
    def of(cls, model: LanguageModel, sizes: PoolSizes) -> "Pools":
        """Return empty pools, one K and one V buffer a layer."""
        return cls(
            req_to_token=np.zeros((sizes.num_rows, sizes.row_width), dtype=np.int32),
            target_kv=[empty_buffer(sizes) for _ in range(2 * model.num_target_layers)],
            draft_kv=[empty_buffer(sizes) for _ in range(2 * model.num_draft_layers)],
        )

    def assign_slots(self, ranges: Sequence[SlotRange], call: Callable[..., Any]) -> None:
        """Write allocated slots into the map; ``call`` runs an operation by name."""
        call(
            "assign_req_to_token_pool",
            req_pool_indices=np.array([given.row for given in ranges], dtype=np.int64),
            req_to_token=self.req_to_token,
            start_offsets=np.array([given.start for given in ranges], dtype=np.int64),
            end_offsets=np.array([given.end for given in ranges], dtype=np.int64),
            out_cache_loc=np.array([slot for given in ranges for slot in given.slots], dtype=np.int64),
        )

    def read_slots(self, row: Array, seq_lens: Array, count: int, call: Callable[..., Any]) -> Array:
        """Return int64 [request*count], the slots of the ``count`` positions from each request's length."""
        slots: Array = call(
            "assign_extend_cache_locs",
            req_pool_indices=row,
            req_to_token=self.req_to_token,
            start_offsets=seq_lens,
            end_offsets=seq_lens + count,
            num_locations=len(row) * count,
        )
        return slots


def empty_buffer(sizes: PoolSizes) -> Array:
    """Return one KV buffer in which every unwritten entry is recognisably wrong."""
    return np.full((sizes.num_slots, TAG_WORDS), -1, dtype=np.int64)
