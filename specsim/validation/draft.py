"""Structural rules of draft operations."""

from specsim.rejection import Reason
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.MISSING_ARGUMENT, "a later step multiplies the path's score")
def _later_steps_have_scores(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Where `step_index` is above 0 there are `scores`."""
    is_absent = axes["step_index"] > 0 and arguments["scores"] is None
    return Fault("scores", None, "an array") if is_absent else None


RULES = {"select_top_k_tokens": (_later_steps_have_scores,)}
