"""Structural rules of attention metadata."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.attended import slots_read
from specsim.rejection import Reason
from specsim.validation.common import bounds_the_sum, fault_in
from specsim.validation.rule import Arguments, Fault, Rule


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


def _is_finite(name: str, sentence: str, is_read: Callable[[Arguments], NDArray[np.bool_]] | None = None) -> Rule:
    """Return the rule that an array, or what is read of it, has no infinity."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        values: Any = arguments[name]
        if values is None:
            return None
        bad = np.isinf(values.astype(np.float32))
        if is_read is not None and bad.any():
            bad &= is_read(arguments)[:, None, None]
        return fault_in(values, bad, name, "a finite number")

    return Rule(sentence, Reason.INFINITE_LOGIT, "scores are sums of products, and differences of them are taken", find)


_FINITE = (
    _is_finite("q", "No entry of `q` is infinite."),
    *(
        _is_finite(
            name,
            f"No slot of `{name}` that holds a key of a request has an infinity.",
            lambda arguments: slots_read(arguments, len(arguments["k_buffer"])),
        )
        for name in ("k_buffer", "v_buffer")
    ),
    _is_finite("softmax_scale", "`softmax_scale` is finite."),
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
    "tree_attention": _FINITE,
}
