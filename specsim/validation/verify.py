"""Structural rules of verify and compact operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import Arguments, check_accept_index, check_links, reject


def target_verify_metadata(arguments: Arguments, axes: Arguments) -> None:
    """Without requests there are no tokens."""
    del arguments
    if axes["request"] == 0 and axes["num_tokens"] != 0:
        raise reject(Reason.NOT_DIVISIBLE, "num_tokens", axes["num_tokens"], "0", "the batch is empty")


def verify_tree_greedy(arguments: Arguments, axes: Arguments) -> None:
    """The links are those of a tree."""
    check_links(arguments, axes)


def gather_accept_tokens(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def fill_accept_out_cache_loc(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def compact_accepted_to_front(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def move_kv_cache(arguments: Arguments, axes: Arguments) -> None:
    """Sources and targets pair up; no slot but the dump is written twice."""
    del axes
    targets = arguments["target_slots"]
    slots, counts = np.unique(targets[targets != 0], return_counts=True)
    for slot in slots[counts > 1][:1]:
        raise reject(
            Reason.DUPLICATE_SLOT,
            "target_slots",
            int(slot),
            "each slot at most once",
            "two sources cannot share a slot",
        )
