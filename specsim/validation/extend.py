"""Structural rules of extend operations."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import bounds_the_sum, lengths_add_up
from specsim.validation.rule import Arguments, Fault, Rule


def _tokens_fit_into(name: str) -> Rule:
    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        del axes
        counts, lengths = arguments["num_accepted_tokens"], arguments[name]
        for request in np.flatnonzero(lengths < counts)[:1]:
            return Fault(f"{name}[{request}]", int(lengths[request]), f"at least {int(counts[request])}")
        return None

    return Rule(
        f"No request has more `num_accepted_tokens` than `{name}`.",
        Reason.INCONSISTENT_LENGTHS,
        "the length counts the accepted tokens too",
        find,
    )


RULES = {
    "rotate_prefill_input_ids": (
        lengths_add_up(
            "`extend_lens` add up to the length of `input_ids`.",
            lambda arguments: arguments["extend_lens"],
            "token",
            "input_ids.shape[0]",
        ),
    ),
    "create_extend_after_decode_spec_info": (
        lengths_add_up(
            "`num_accepted_tokens` add up to the length of `input_ids`.",
            lambda arguments: arguments["num_accepted_tokens"],
            "token",
            "input_ids.shape[0]",
        ),
        _tokens_fit_into("seq_lens"),
    ),
    "generate_attn_arg_prefill": (
        bounds_the_sum(
            "kv_lens_sum",
            "location",
            lambda arguments, axes: int(np.sum(arguments["kv_lens"])),
            "`kv_lens_sum` is at least the sum of `kv_lens`.",
            "it sizes the list of slots",
        ),
        _tokens_fit_into("kv_lens"),
    ),
}
