"""Structural rules of the forwards."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import Arguments, check_offsets, reject


def target_forward(arguments: Arguments, axes: Arguments) -> None:
    """Queries are the last keys of their request."""
    check_queries(arguments, axes)
    if arguments["tree_mask"] is not None and axes["request"]:
        widths = np.diff(arguments["cu_seqlens_q"])
        if (widths != axes["token"] // axes["request"]).any():
            raise reject(
                Reason.INCONSISTENT_LENGTHS,
                "cu_seqlens_q",
                widths.tolist(),
                "one width for all requests",
                "a tree mask has one square of the same size a request",
            )


def draft_extend_forward(arguments: Arguments, axes: Arguments) -> None:
    """Queries are the last keys of their request."""
    check_queries(arguments, axes)


def draft_decode_forward(arguments: Arguments, axes: Arguments) -> None:
    """Offsets start at 0 and ascend."""
    check_offsets(arguments["kv_indptr"], int(arguments["kv_indptr"][-1]), "kv_indptr")
    del axes


def check_queries(arguments: Arguments, axes: Arguments) -> None:
    """Check that the queries of every request are its last keys, and that every key has a slot."""
    check_offsets(arguments["cu_seqlens_q"], axes["token"], "cu_seqlens_q")
    short = np.flatnonzero(arguments["cache_seqlens"] < np.diff(arguments["cu_seqlens_q"]))
    for request in short[:1]:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            f"cache_seqlens[{request}]",
            int(arguments["cache_seqlens"][request]),
            f"at least {int(np.diff(arguments['cu_seqlens_q'])[request])}",
            "the queries are the last keys",
        )
    table, page_size = arguments["page_table"].astype(np.int64), axes["page_size"]
    last_keys = arguments["cache_seqlens"].astype(np.int64)[:, None] - 1 - np.arange(table.shape[1]) * page_size
    last_slots = table * page_size + np.minimum(last_keys, page_size - 1)
    for request, page in np.argwhere((last_keys >= 0) & ((table < 0) | (last_slots >= axes["slot"])))[:1]:
        raise reject(
            Reason.SLOT_OUT_OF_RANGE,
            f"page_table[{request}, {page}]",
            int(table[request, page]),
            f"a page below slot {axes['slot']}",
            "every key has a slot in the pool",
        )
