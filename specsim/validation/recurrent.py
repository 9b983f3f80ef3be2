"""Structural rules of recurrent operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import PATHS, repeated_slot
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.INCONSISTENT_LENGTHS, "both say where the path of a request ends")
def _counts_are_those_of_paths(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`num_accepted_tokens[b]` is the number of nodes in row b of `accept_index`."""
    del axes
    counts, nodes = arguments["num_accepted_tokens"], (arguments["accept_index"] >= 0).sum(axis=1)
    for request in np.flatnonzero(counts != nodes)[:1]:
        return Fault(f"num_accepted_tokens[{request}]", int(counts[request]), str(nodes[request]))
    return None


@rule(Reason.DUPLICATE_SLOT, "a state has one owner")
def _states_are_written_once(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No slot but the dump is written twice: as one of `state_slots` or `snapshot_slots` whose step is none of -1."""
    del axes
    pairs = (("state_slots", "commit_step"), ("snapshot_slots", "snapshot_step"))
    written = [arguments[slots][(arguments[slots] >= 0) & (arguments[step] >= 0)] for slots, step in pairs]
    return repeated_slot("state_slots and snapshot_slots", np.concatenate(written))


RULES = {
    "get_recurrent_steps": (*PATHS, _counts_are_those_of_paths),
    "commit_recurrent_states": (_states_are_written_once,),
}
