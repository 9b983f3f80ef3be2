"""Structural rules of verify operations."""

from specsim.rejection import Reason
from specsim.validation.links import TREE
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.NOT_DIVISIBLE, "the batch is empty")
def _empty_batches_have_no_tokens(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Without requests `num_tokens` is 0."""
    del arguments
    is_stray = axes["request"] == 0 and axes["num_tokens"] != 0
    return Fault("num_tokens", axes["num_tokens"], "0") if is_stray else None


RULES = {
    "target_verify_metadata": (_empty_batches_have_no_tokens,),
    "verify_tree_greedy": TREE,
}
