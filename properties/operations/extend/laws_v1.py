"""Laws of the ragged draft-extend: positions, last tokens, and what each query sees."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, cut, outputs_of, require_equal, require_one_by_one, states
from specsim.properties.operations.extend import strategy as strategies

_LAYOUT = "create_extend_after_decode_spec_info"
_METADATA = "generate_attn_arg_prefill"


def ragged_positions_end_at_the_length(backend: Backend, case: Case) -> None:
    """The positions of a request ascend to its last position, one a token."""
    positions = outputs_of(backend, _LAYOUT, case)["positions"]
    ends = np.asarray(case["seq_lens"], dtype=np.int64)
    counts = case["num_accepted_tokens"].tolist()
    for request, (got, end, count) in enumerate(zip(cut(positions, counts), ends, counts, strict=True)):
        require_equal(f"the positions of request {request}", got, np.arange(end - count, end))


def next_root_is_the_last_output_token(backend: Backend, case: Case) -> None:
    """The bonus token of a request is the last token of its segment."""
    bonus_tokens = outputs_of(backend, _LAYOUT, case)["bonus_tokens"]
    segments = cut(case["input_ids"], case["num_accepted_tokens"])
    require_equal("bonus_tokens", bonus_tokens, [segment[-1] for segment in segments])


def segments_are_laid_out_one_by_one(backend: Backend, case: Case) -> None:
    """Positions and bonus token of a request are the same alone, and in any order of the batch."""
    counts = case["num_accepted_tokens"].tolist()
    flat, names = {"input_ids": counts, "positions": counts}, ("seq_lens", "num_accepted_tokens")
    require_one_by_one(backend, _LAYOUT, case, names, len(counts), ["positions", "bonus_tokens"], counts=flat)


def queries_and_keys_are_cut_by_their_counts(backend: Backend, case: Case) -> None:
    """A request has one query a token, never a draft, and one key a position up to its new length."""
    outputs = outputs_of(backend, _METADATA, case)
    for name, counts in (("qo_indptr", case["num_accepted_tokens"]), ("kv_indptr", case["kv_lens"])):
        require_equal(f"{name}[0]", outputs[name][0], 0)
        require_equal(f"the widths of {name}", np.diff(outputs[name]), counts)


def keys_are_the_slots_of_the_request(backend: Backend, case: Case) -> None:
    """The slots between two offsets are those of the request's row, from position 0."""
    outputs = outputs_of(backend, _METADATA, case)
    ends = np.cumsum(case["kv_lens"], dtype=np.int64)
    for request, (end, length) in enumerate(zip(ends, case["kv_lens"], strict=True)):
        row = case["req_to_token"][case["req_pool_indices"][request]]
        require_equal(f"the keys of request {request}", outputs["kv_indices"][end - length : end], row[:length])


_layouts = strategies.create_extend_after_decode_spec_info
_metadata = strategies.generate_attn_arg_prefill

PROPERTIES = states(
    "extend_v1",
    (ragged_positions_end_at_the_length, _layouts, (_LAYOUT,), "P51"),
    (next_root_is_the_last_output_token, _layouts, (_LAYOUT,), "P25"),
    (segments_are_laid_out_one_by_one, _layouts, (_LAYOUT,), "P31"),
    (queries_and_keys_are_cut_by_their_counts, _metadata, (_METADATA,), "P51"),
    (keys_are_the_slots_of_the_request, _metadata, (_METADATA,), "P40"),
)
