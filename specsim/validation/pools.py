"""Structural rules of operations that move what pools hold."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import TARGETS, fault_in, repeated_slot
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.UNMAPPED_SLOT, "the dump of one pool is that of the other")
def _the_dump_stays_the_dump(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`full_to_swa[0]` is 0."""
    del axes
    dump = arguments["full_to_swa"][:1]
    return fault_in(dump, dump != 0, "full_to_swa", "0")


@rule(Reason.UNMAPPED_SLOT, "the window's part of a token moves with the rest of it")
def _pairs_have_both_sides(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Of each pair both slots have a counterpart in `full_to_swa`, or neither has."""
    del axes
    is_target, is_source = (arguments["full_to_swa"][arguments[name]] != 0 for name in ("target_slots", "source_slots"))
    for pair in np.flatnonzero(is_target != is_source)[:1]:
        name, other = ("target", "source") if is_source[pair] else ("source", "target")
        slot = int(arguments[f"{name}_slots"][pair])
        return Fault(f"full_to_swa[{name}_slots[{pair}]]", f"0, at slot {slot}", f"a slot, as that of {other}_slots")
    return None


@rule(Reason.DUPLICATE_SLOT, "two sources cannot share a slot")
def _counterparts_are_distinct(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No two of `target_slots` have one counterpart in `full_to_swa`."""
    del axes
    return repeated_slot("full_to_swa[target_slots]", arguments["full_to_swa"][arguments["target_slots"]])


RULES = {
    "move_indexer_cache": TARGETS,
    "translate_move_slots": (_the_dump_stays_the_dump, _pairs_have_both_sides, _counterparts_are_distinct),
}
