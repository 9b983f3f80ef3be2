"""What V1 makes of the verify slots, by the operations that its worker calls."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.calls import CallsByName
from specsim.counts import page_size_of_beams
from specsim.properties.suite.small_scopes.device import Slots, TagDevice, Verified
from specsim.properties.suite.small_scopes.scopes import Scope

Free = Callable[[Slots], None]


def reclaim(
    device: TagDevice,
    verified: Verified,
    rows: Sequence[int],
    accept_index: NDArray[np.int32],
    num_accepted_drafts: NDArray[np.int32],
    scope: Scope,
    free: Free,
    operations: CallsByName,
) -> Slots:
    """Free the slots that no accepted position keeps, and return those of the accepted ones, request after request."""
    nodes, windows = accept_index[accept_index >= 0], verified.windows
    num_nodes = len(windows) // len(rows)
    if page_size_of_beams(scope.config.topk, scope.page_size) > 1:
        source_slots, num_freed = operations.get_src_tgt_cache_loc(
            verified.seq_lens, windows, nodes, num_accepted_drafts, num_nodes, scope.page_size
        )
        target_slots, freed = operations.get_target_cache_loc(
            num_accepted_drafts, num_freed, windows, num_nodes, len(source_slots), int(num_freed.sum())
        )
        operations.move_kv_cache([device.target], target_slots, source_slots)
        free(freed)
        moved: Slots = target_slots
        return moved
    evict_mask = operations.remap_accepted_slots(
        np.array(rows, dtype=np.int64), device.req_to_token, verified.seq_lens, windows, accept_index
    )
    if scope.page_size > 1:
        operations.align_evict_mask_to_page_size(verified.seq_lens, evict_mask, num_nodes, scope.page_size)
    free(windows[evict_mask])
    mapped: Slots = windows[nodes]
    return mapped
