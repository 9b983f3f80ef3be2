"""Structural faults of sampling and of attention metadata."""

import numpy as np

from specsim.properties.strategies.malformed.arguments import Arguments, Fault, with_entry


def entry(name: str, value: float) -> Fault:
    """Return the fault that one entry of an array has a value that its bounds allow, or that no bound forbids."""

    def fault(arguments: Arguments, where: int) -> Arguments:
        return arguments if arguments[name] is None else with_entry(arguments, name, where, value)

    return fault


def empty_row(name: str, value: float) -> Fault:
    """Return the fault that one row holds the same value everywhere, so that no token is possible."""

    def fault(arguments: Arguments, where: int) -> Arguments:
        if arguments[name] is None:
            return arguments
        changed = arguments[name].copy()
        rows = changed.reshape(-1, changed.shape[-1])
        if len(rows):
            rows[where % len(rows)] = value
        return {**arguments, name: changed}

    return fault


def too_small(name: str, needed: str) -> Fault:
    """Return the fault that a size is one below what the lengths need: their sum, or the longest of them."""

    def fault(arguments: Arguments, _: int) -> Arguments:
        lengths = arguments["seq_lens"]
        least = int(lengths.sum() if needed == "sum" else lengths.max(initial=0))
        return {**arguments, name: max(least - 1, 0)}

    return fault


def mask_cut_short(arguments: Arguments, where: int) -> Arguments:
    """The mask lacks entries of the last node."""
    lengths, width = arguments["seq_lens"], arguments["num_draft_tokens"]
    needed = width * int(lengths.sum()) + width * width * len(lengths)
    return {**arguments, "tree_mask": arguments["tree_mask"][: max(needed - 1 - where % 3, 0)]}


def backward_link(name: str) -> Fault:
    """Return the fault that a link points to the node itself or to the root."""

    def fault(arguments: Arguments, where: int) -> Arguments:
        return with_entry(arguments, name, where, where % max(arguments["candidates"].shape[1], 1) * (where % 2))

    return fault


def second_link(name: str) -> Fault:
    """Return the fault that a link leads to a node that another link leads to, or to one above its own node."""

    def fault(arguments: Arguments, where: int) -> Arguments:
        return with_entry(arguments, name, where, 1 + where % max(arguments["candidates"].shape[1] - 1, 1))

    return fault


def foreign_node(arguments: Arguments, where: int) -> Arguments:
    """A node's global number is that of another node."""
    count = arguments["retrieve_index"].size
    return with_entry(arguments, "retrieve_index", where, (where + 1) % max(count, 1))


def offsets_broken(arguments: Arguments, where: int) -> Arguments:
    """One offset of the drafts is one more or one less."""
    offsets = arguments["cu_num_drafts"]
    return with_entry(arguments, "cu_num_drafts", where, offsets[where % len(offsets)] + (1 if where % 3 else -1))


def chain_too_long(arguments: Arguments, _: int) -> Arguments:
    """An output row holds one draft less than the longest chain."""
    return {**arguments, "max_num_drafts": max(int(np.diff(arguments["cu_num_drafts"]).max(initial=0)) - 1, 0)}


_INFINITE = float("inf")
_COINS = (entry("uniform_samples", 1.0), entry("uniform_samples_for_final_sampling", 1.0))
SECOND_LINKS = (second_link("retrieve_next_token"), second_link("retrieve_next_sibling"))
LINKS = (backward_link("retrieve_next_token"), backward_link("retrieve_next_sibling"), *SECOND_LINKS)
TREE = (*LINKS, foreign_node)
CHAINS = (offsets_broken, chain_too_long)
_TEMPERATURES = (entry("temperature", 1e-30), entry("temperature", 2.0**21))
_LOGITS = (entry("logits", _INFINITE), empty_row("logits", -_INFINITE), entry("top_p", 0.0), *_TEMPERATURES)
_ROWS = ("target_logits", "draft_logits")
_NO_MASS = (empty_row("probabilities", 0.0), empty_row("probabilities", _INFINITE))
_CHAIN_LOGITS = (
    *_COINS,
    *(entry(name, _INFINITE) for name in _ROWS),
    *(entry(name, float("nan")) for name in _ROWS),
    *(empty_row(name, -_INFINITE) for name in _ROWS),
    entry("top_p", 0.0),
    *(entry(name, value) for name in ("temperature", "draft_temperature") for value in (1e-30, 2.0**21)),
    *CHAINS,
)

FAULTS: dict[str, tuple[Fault, ...]] = {
    "apply_penalties": (
        entry("logits", _INFINITE),
        entry("frequency_penalty", -(2.0**21)),
        entry("presence_penalty", _INFINITE),
        entry("repetition_penalty", 0.0),
        entry("repetition_penalty", 2.0**21),
    ),
    "prepare_logits": (
        entry("logits", _INFINITE),
        entry("scaling_penalty", 0.0),
        entry("scaling_penalty", _INFINITE),
        entry("additive_penalty", _INFINITE),
        entry("logit_bias", _INFINITE),
    ),
    "keep_top_k_exactly": (entry("logits", _INFINITE), empty_row("logits", -_INFINITE)),
    "top_k_renorm": _NO_MASS,
    "top_p_renorm": (*_NO_MASS, entry("top_p", 0.0)),
    "min_p_renorm": _NO_MASS,
    "target_probabilities": _LOGITS,
    "sample_target_predict": _LOGITS,
    "tree_speculative_sampling_target_only": (
        *TREE,
        *_COINS,
        empty_row("target_probs", 0.0),
        entry("draft_probs", 0.5),
    ),
    "chain_speculative_sampling": (*_COINS, empty_row("target_probs", 0.0), *CHAINS),
    "chain_block_verification": (*_COINS, empty_row("target_probs", 0.0), *CHAINS),
    "verify_tree_sampled_from_logits": (*TREE, *_COINS, *_LOGITS),
    "chain_speculative_sampling_from_logits": _CHAIN_LOGITS,
    "chain_block_verification_from_logits": _CHAIN_LOGITS,
    "verify_cascade_metadata": (mask_cut_short, too_small("max_prefix_len", "longest")),
    "verify_custom_mask_metadata": (too_small("seq_lens_sum", "sum"),),
    "verify_extend_metadata": (too_small("seq_lens_sum", "sum"),),
}
