"""Structural rules of attention metadata."""

from specsim.rejection import Reason
from specsim.validation.common import Arguments, reject


def verify_cascade_metadata(arguments: Arguments, axes: Arguments) -> None:
    """The mask covers every request, and the page table its prefix."""
    lengths = arguments["seq_lens"]
    needed = axes["node"] * int(lengths.sum()) + axes["node"] ** 2 * axes["request"]
    if axes["mask"] < needed:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            "tree_mask.shape[0]",
            axes["mask"],
            f"at least {needed}",
            "every node has a row of prefix and window",
        )
    longest = int(lengths.max(initial=0))
    if axes["max_prefix_len"] < longest:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            "max_prefix_len",
            axes["max_prefix_len"],
            f"at least {longest}",
            "the page table reaches the end of every prefix",
        )


def verify_custom_mask_metadata(arguments: Arguments, axes: Arguments) -> None:
    """The stated sum of lengths bounds the true one."""
    check_sum(arguments, axes)


def verify_extend_metadata(arguments: Arguments, axes: Arguments) -> None:
    """The stated sum of lengths bounds the true one."""
    check_sum(arguments, axes)


def check_sum(arguments: Arguments, axes: Arguments) -> None:
    """Check that the sum that sizes the outputs is not below the sum of the lengths."""
    total = int(arguments["seq_lens"].sum())
    if axes["seq_lens_sum"] < total:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            "seq_lens_sum",
            axes["seq_lens_sum"],
            f"at least {total}",
            "it sizes the list of keys",
        )
