"""Structural rules of the draft's attention metadata."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.INCONSISTENT_LENGTHS, "offsets and contents must use the same committed length")
def _positions_are_the_lengths(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`positions` are `seq_lens`, one copy a beam, before any step advanced them."""
    expected = np.repeat(arguments["seq_lens"], axes["topk"])
    for place in np.flatnonzero(arguments["positions"] != expected)[:1]:
        return Fault(f"positions[{place}]", arguments["positions"][place], str(expected[place]))
    return None


RULES = {"generate_draft_decode_kv_indices": (_positions_are_the_lengths,)}
