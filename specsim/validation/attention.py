"""Structural rules of attention metadata."""

import numpy as np

from specsim.validation.common import bounds_the_sum
from specsim.validation.rule import Arguments


def _mask_entries(arguments: Arguments, axes: Arguments) -> int:
    return int(axes["node"] * int(arguments["seq_lens"].sum()) + axes["node"] ** 2 * axes["request"])


def _longest(arguments: Arguments, axes: Arguments) -> int:
    del axes
    return int(arguments["seq_lens"].max(initial=0))


def _sum(arguments: Arguments, axes: Arguments) -> int:
    del axes
    return int(np.sum(arguments["seq_lens"]))


_SUM_IS_ENOUGH = bounds_the_sum(
    "seq_lens_sum",
    "seq_lens_sum",
    _sum,
    "`seq_lens_sum` is at least the sum of `seq_lens`.",
    "it sizes the list of keys",
)

RULES = {
    "verify_cascade_metadata": (
        bounds_the_sum(
            "tree_mask.shape[0]",
            "mask",
            _mask_entries,
            "`tree_mask` holds the prefix and the window of every node.",
            "every node has a row of prefix and window",
        ),
        bounds_the_sum(
            "max_prefix_len",
            "max_prefix_len",
            _longest,
            "`max_prefix_len` is at least the longest of `seq_lens`.",
            "the page table reaches the end of every prefix",
        ),
    ),
    "verify_custom_mask_metadata": (_SUM_IS_ENOUGH,),
    "verify_extend_metadata": (_SUM_IS_ENOUGH,),
}
