"""Structural rules of acceptance by chance and of grammar masks."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import (
    Arguments,
    check_accept_index,
    check_forward_links,
    check_links,
    check_offsets,
    first_place,
    reject,
)
from specsim.validation.probabilities import check_has_mass, check_logits, check_temperature, check_top_p


def tree_speculative_sampling_target_only(arguments: Arguments, axes: Arguments) -> None:
    """The links are those of a tree, coins lie below 1, and every row has mass."""
    check_links(arguments, axes)
    check_coins(arguments)
    check_has_mass(arguments["target_probs"], "target_probs")


def chain_speculative_sampling(arguments: Arguments, axes: Arguments) -> None:
    """Offsets cut the drafts into rows of bounded length, coins lie below 1, and every target row has mass."""
    offsets = arguments["cu_num_drafts"]
    check_offsets(offsets, axes["drafted"], "cu_num_drafts")
    for place in first_place(np.diff(offsets) > axes["draft"]):
        raise reject(
            Reason.COUNT_OUT_OF_RANGE,
            f"drafts of request {place[0]}",
            int(np.diff(offsets)[place]),
            f"at most {axes['draft']}",
            "an output row holds no more",
        )
    check_coins(arguments)
    check_has_mass(arguments["target_probs"], "target_probs")


def generate_simulated_accept_index(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def verify_tree_greedy_from_logits(arguments: Arguments, axes: Arguments) -> None:
    """The links are those of a tree."""
    check_links(arguments, axes)


def verify_tree_sampled_from_logits(arguments: Arguments, axes: Arguments) -> None:
    """The links are those of a tree, coins lie below 1, and every row leaves a token possible."""
    check_links(arguments, axes)
    check_coins(arguments)
    check_logits(arguments["logits"])
    check_top_p(arguments, axes)
    check_temperature(arguments)


def generate_token_bitmask(arguments: Arguments, axes: Arguments) -> None:
    """Links point forwards."""
    check_forward_links(arguments, axes)


def check_coins(arguments: Arguments) -> None:
    """Check that every coin lies below 1."""
    for name in ("uniform_samples", "uniform_samples_for_final_sampling"):
        for place in first_place(arguments[name] >= 1):
            raise reject(
                Reason.COIN_OUT_OF_RANGE,
                f"{name}{list(place)}",
                arguments[name][place],
                "at least 0 and below 1",
                "a coin is uniform on [0, 1)",
            )
