"""Structural rules of compact operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import PATHS
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.DUPLICATE_SLOT, "two sources cannot share a slot")
def _targets_are_distinct(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No slot but the dump occurs twice in `target_slots`."""
    del axes
    targets = arguments["target_slots"]
    slots, counts = np.unique(targets[targets != 0], return_counts=True)
    repeated = slots[counts > 1]
    return Fault("target_slots", int(repeated[0]), "each slot at most once") if len(repeated) else None


RULES = {
    "gather_accept_tokens": PATHS,
    "fill_accept_out_cache_loc": PATHS,
    "compact_accepted_to_front": PATHS,
    "move_kv_cache": (_targets_are_distinct,),
}
