"""Structural rules of the forwards."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import extremes, first_place, offsets_ascend
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.INCONSISTENT_LENGTHS, "a tree mask has one square of the same size a request")
def _masked_requests_have_one_width(arguments: Arguments, axes: Arguments) -> Fault | None:
    """With a `tree_mask` every request has the same number of queries."""
    if arguments["tree_mask"] is None or not axes["request"]:
        return None
    widths = np.diff(arguments["cu_seqlens_q"])
    is_even = (widths == axes["token"] // axes["request"]).all()
    return None if is_even else Fault("cu_seqlens_q", widths.tolist(), "one width for all requests")


@rule(Reason.INCONSISTENT_LENGTHS, "the queries are the last keys")
def _queries_are_keys(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No request has more queries than `cache_seqlens`."""
    del axes
    lengths, offsets = arguments["cache_seqlens"], arguments["cu_seqlens_q"]
    counts = offsets[1:] - offsets[:-1]
    place = first_place(lengths < counts)
    if place is None:
        return None
    return Fault(f"cache_seqlens{list(place)}", int(lengths[place]), f"at least {counts[place]}")


@rule(Reason.SLOT_OUT_OF_RANGE, "every key has a slot in the pool")
def _keys_lie_in_the_pool(arguments: Arguments, axes: Arguments) -> Fault | None:
    """The pages of `page_table` that hold keys lie in the pool."""
    table, page_size = arguments["page_table"].astype(np.int64), axes["page_size"]
    least, largest = extremes(table) if table.size else (0, -1)
    # NOTE: nearly always all pages lie in the pool, those of no key as well.
    if least >= 0 and (largest + 1) * page_size <= axes["slot"]:
        return None
    last_keys = arguments["cache_seqlens"].astype(np.int64)[:, None] - 1 - np.arange(table.shape[1]) * page_size
    last_slots = table * page_size + np.minimum(last_keys, page_size - 1)
    place = first_place((last_keys >= 0) & ((table < 0) | (last_slots >= axes["slot"])))
    if place is None:
        return None
    return Fault(f"page_table{list(place)}", int(table[place]), f"a page below slot {axes['slot']}")


_QUERIES = (offsets_ascend("cu_seqlens_q", "token"), _queries_are_keys, _keys_lie_in_the_pool)

RULES = {
    "target_forward": (*_QUERIES, _masked_requests_have_one_width),
    # NOTE: a draft's window may begin before its text; what lies there sees no key.
    "draft_extend_forward": (offsets_ascend("cu_seqlens_q", "token"), _keys_lie_in_the_pool),
    "draft_decode_forward": (offsets_ascend("kv_indptr", None),),
}
