"""Structural rules of slot operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import Arguments, check_accept_index, check_total, range_lengths, reject


def assign_req_to_token_pool(arguments: Arguments, axes: Arguments) -> None:
    """Ranges ascend, use up the flat slots, and lie in distinct rows."""
    lengths = range_lengths(arguments)
    check_total(int(lengths.sum()), axes["location"], "out_cache_loc.shape[0]")
    rows, counts = np.unique(arguments["req_pool_indices"][lengths > 0], return_counts=True)
    for row in rows[counts > 1][:1]:
        raise reject(Reason.DUPLICATE_ROW, "req_pool_indices", int(row), "distinct rows", "a row has one owner")


def assign_extend_cache_locs(arguments: Arguments, axes: Arguments) -> None:
    """Ranges ascend and fill the flat slots."""
    check_total(int(range_lengths(arguments).sum()), axes["location"], "num_locations")


def remap_accepted_slots(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths, and fit into distinct rows."""
    check_accept_index(arguments["accept_index"], axes["node"])
    rows, counts = np.unique(arguments["req_pool_indices"], return_counts=True)
    for row in rows[counts > 1][:1]:
        raise reject(Reason.DUPLICATE_ROW, "req_pool_indices", int(row), "distinct rows", "a row has one owner")
    ends = arguments["seq_lens"] + (arguments["accept_index"] >= 0).sum(axis=1)
    for request in np.flatnonzero(ends > axes["position"])[:1]:
        raise reject(
            Reason.ROW_TOO_SHORT,
            f"seq_lens[{request}]",
            int(arguments["seq_lens"][request]),
            f"at most {axes['position'] - int(ends[request] - arguments['seq_lens'][request])}",
            "the accepted positions lie in the row",
        )
