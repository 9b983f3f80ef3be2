"""Structural rules of extend operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import Arguments, check_total, reject


def rotate_prefill_input_ids(arguments: Arguments, axes: Arguments) -> None:
    """The prompts fill the flat ids."""
    check_total(int(np.sum(arguments["extend_lens"])), axes["token"], "input_ids.shape[0]")


def create_extend_after_decode_spec_info(arguments: Arguments, axes: Arguments) -> None:
    """The counts cut the flat ids, and no request has more tokens than positions."""
    check_total(int(np.sum(arguments["num_accepted_tokens"])), axes["token"], "input_ids.shape[0]")
    _check_tokens_within(arguments, "seq_lens")


def generate_attn_arg_prefill(arguments: Arguments, axes: Arguments) -> None:
    """The keys have room, and every query is one of them."""
    total = int(np.sum(arguments["kv_lens"]))
    if axes["location"] < total:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            "kv_lens_sum",
            axes["location"],
            f"at least {total}",
            "it sizes the list of slots",
        )
    _check_tokens_within(arguments, "kv_lens")


def _check_tokens_within(arguments: Arguments, name: str) -> None:
    """Check that no request has more query tokens than its length; the queries are its last positions."""
    counts, lengths = arguments["num_accepted_tokens"], arguments[name]
    for request in np.flatnonzero(lengths < counts)[:1]:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            f"{name}[{request}]",
            int(lengths[request]),
            f"at least {int(counts[request])}",
            "the length counts the accepted tokens too",
        )
