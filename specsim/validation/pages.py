"""Structural rules of page operations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.counts import count_tokens
from specsim.rejection import Reason
from specsim.validation.common import first_place, lengths_add_up
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.MALFORMED_PATH, "a chain accepts its first nodes, and its root always")
def _the_first_nodes_are_kept(arguments: Arguments, axes: Arguments) -> Fault | None:
    """False entries of `evict_mask` are the first ones of a request, and there is one."""
    mask = arguments["evict_mask"].reshape(-1, axes["node"])
    behind = np.concatenate([np.zeros_like(mask[:, :1]), mask[:, :-1]], axis=1)
    is_wrong = behind & ~mask
    is_wrong[:, 0] = mask[:, 0]
    place = first_place(is_wrong)
    if place is None:
        return None
    return Fault(f"evict_mask[{place[0] * axes['node'] + place[1]}]", bool(mask[place]), str(not mask[place]))


def _num_tokens(arguments: Arguments) -> NDArray[Any]:
    return np.asarray(count_tokens(arguments["num_accepted_drafts"].astype(np.int64)))


@rule(Reason.COUNT_OUT_OF_RANGE, "a request keeps what it has accepted, or the front of it")
def _no_more_is_kept_than_accepted(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No entry of `num_unfinished_tokens` exceeds the accepted tokens of its request."""
    del axes
    kept, most = arguments["num_unfinished_tokens"], _num_tokens(arguments)
    for request in np.flatnonzero(kept > most)[:1]:
        return Fault(f"num_unfinished_tokens[{request}]", int(kept[request]), f"at most {most[request]}")
    return None


RULES = {
    "align_evict_mask_to_page_size": (_the_first_nodes_are_kept,),
    "filter_finished_cache_loc": (
        lengths_add_up(
            "The accepted tokens of all requests are the length of `target_slots`.",
            _num_tokens,
            "token",
            "target_slots.shape[0]",
        ),
        _no_more_is_kept_than_accepted,
        lengths_add_up(
            "`num_unfinished_tokens` add up to `num_locations`.",
            lambda arguments: arguments["num_unfinished_tokens"],
            "location",
            "num_locations",
        ),
    ),
}
