"""Structural rules of page operations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.counts import count_tokens
from specsim.rejection import Reason
from specsim.validation.common import fault_in, lengths_add_up
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.MALFORMED_PATH, "a verify always accepts the root")
def _every_request_keeps_an_entry(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Of each request at least one entry of `evict_mask` is False."""
    mask = arguments["evict_mask"].reshape(-1, axes["node"])
    for request in np.flatnonzero(mask.all(axis=1))[:1]:
        first = request * axes["node"]
        return Fault(f"evict_mask[{first}:{first + axes['node']}]", "all True", "an entry that is False")
    return None


def _num_tokens(arguments: Arguments) -> NDArray[Any]:
    return np.asarray(count_tokens(arguments["num_accepted_drafts"].astype(np.int64)))


def _owners(arguments: Arguments) -> NDArray[Any]:
    """Return the request of each accepted node."""
    return np.repeat(np.arange(len(arguments["num_accepted_drafts"])), _num_tokens(arguments))


@rule(Reason.NODE_OUT_OF_RANGE, "a path stays in its own request")
def _segments_stay_in_their_request(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Segment b of `accept_indices` names nodes `b*node` to `b*node+node-1`."""
    nodes, first = arguments["accept_indices"], _owners(arguments) * axes["node"]
    for place in np.flatnonzero((nodes < first) | (nodes >= first + axes["node"]))[:1]:
        expected = f"{first[place]} to {first[place] + axes['node'] - 1}"
        return Fault(f"accept_indices[{place}]", int(nodes[place]), expected)
    return None


@rule(Reason.MALFORMED_PATH, "a path starts at the root and passes a node once")
def _segments_are_paths(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Segment b of `accept_indices` starts with `b*node` and names no node twice."""
    nodes, owners = arguments["accept_indices"], _owners(arguments)
    is_first = np.diff(owners, prepend=-1) > 0
    for place in np.flatnonzero(is_first & (nodes != owners * axes["node"]))[:1]:
        return Fault(f"accept_indices[{place}]", int(nodes[place]), str(owners[place] * axes["node"]))
    is_repeated = np.ones(len(nodes), dtype=np.bool_)
    is_repeated[np.unique(nodes, return_index=True)[1]] = False
    return fault_in(nodes, is_repeated, "accept_indices", "a node that the path has not passed")


@rule(Reason.COUNT_OUT_OF_RANGE, "a slot that is given back is none that a node moves to")
def _windows_hold_both(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Accepted tokens and `to_free_num_slots` of a request together do not exceed a tree."""
    freed, most = arguments["to_free_num_slots"], axes["node"] - _num_tokens(arguments)
    for request in np.flatnonzero(freed > most)[:1]:
        return Fault(f"to_free_num_slots[{request}]", int(freed[request]), f"at most {most[request]}")
    return None


@rule(Reason.COUNT_OUT_OF_RANGE, "a request keeps what it has accepted, or the front of it")
def _no_more_is_kept_than_accepted(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No entry of `num_unfinished_tokens` exceeds the accepted tokens of its request."""
    del axes
    kept, most = arguments["num_unfinished_tokens"], _num_tokens(arguments)
    for request in np.flatnonzero(kept > most)[:1]:
        return Fault(f"num_unfinished_tokens[{request}]", int(kept[request]), f"at most {most[request]}")
    return None


RULES = {
    "align_evict_mask_to_page_size": (_every_request_keeps_an_entry,),
    "get_src_tgt_cache_loc": (
        lengths_add_up(
            "The accepted tokens of all requests are the length of `accept_indices`.",
            _num_tokens,
            "token",
            "accept_indices.shape[0]",
        ),
        _segments_stay_in_their_request,
        _segments_are_paths,
    ),
    "get_target_cache_loc": (
        lengths_add_up(
            "The accepted tokens of all requests add up to `num_target_slots`.",
            _num_tokens,
            "token",
            "num_target_slots",
        ),
        lengths_add_up(
            "`to_free_num_slots` add up to `num_to_free_slots`.",
            lambda arguments: arguments["to_free_num_slots"],
            "location",
            "num_to_free_slots",
        ),
        _windows_hold_both,
    ),
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
