"""Laws of extend: the draft model sees at each position the token of the next one, after a V1 verify too."""

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import (
    Case,
    arrangements,
    batch_of,
    cut,
    outputs_of,
    require_equal,
    require_one_by_one,
    states,
)
from specsim.properties.strategies.numbers import generators


def each_position_has_the_next_token(backend: Backend, case: Case) -> None:
    """Inside a request entry p is prompt token p+1; its last entry is the tail token."""
    rotated = outputs_of(backend, _ROTATE, case)["rotated_input_ids"]
    lens = case["extend_lens"].tolist()
    prompts = zip(*(cut(ids, lens) for ids in (rotated, case["input_ids"])), strict=True)
    for request, (got, prompt) in enumerate(prompts):
        require_equal(f"the input of request {request}", got, [*prompt[1:], case["tail_tokens"][request]])


def chunks_rotate_like_the_whole_prompt(backend: Backend, case: Case) -> None:
    """Cut into chunks, each with the next prompt token as its tail, a prompt rotates as in one piece."""
    prompt, cuts = case["prompt"], case["cuts"]
    whole = {"input_ids": prompt, "extend_lens": [len(prompt)], "tail_tokens": [case["tail"]]}
    bounds = [0, *cuts, len(prompt)]
    chunked = {"input_ids": prompt, "extend_lens": np.diff(bounds), "tail_tokens": [*prompt[cuts], case["tail"]]}
    rotated = []
    for asked in (whole, chunked):
        asked["extend_lens"] = np.array(asked["extend_lens"], dtype=np.int32)
        asked["tail_tokens"] = np.array(asked["tail_tokens"], dtype=np.int64)
        rotated.append(outputs_of(backend, _ROTATE, asked)["rotated_input_ids"])
    require_equal("the chunks' input", rotated[1], rotated[0])
    require_equal("the whole prompt's input", rotated[0], [*prompt[1:], case["tail"]])


def prompts_rotate_one_by_one(backend: Backend, case: Case) -> None:
    """A prompt rotates alike alone, and in any order of the batch."""
    lens = case["extend_lens"].tolist()
    flat = {"input_ids": lens, "rotated_input_ids": lens}
    require_one_by_one(backend, _ROTATE, case, ["rotated_input_ids"], counts=flat)


def extend_positions_are_consecutive(backend: Backend, case: Case) -> None:
    """Every request has one row a tree node, at consecutive positions from its committed length."""
    positions = outputs_of(backend, _PREPARE, case)["positions"]
    expected = np.asarray(case["seq_lens"], dtype=np.int64)[:, None] + np.arange(case["num_draft_tokens"])
    require_equal("positions", positions, expected.reshape(-1))


def selected_row_is_the_last_output_token(backend: Backend, case: Case) -> None:
    """The selected row lies in the request's block, at the place of its last output token."""
    selected = outputs_of(backend, _PREPARE, case)["select_index"]
    width = case["num_draft_tokens"]
    require_equal("the request of the selected row", selected // width, np.arange(len(selected)))
    require_equal("the rows up to the selected one", selected % width + 1, case["num_accepted_tokens"])


def forward_lengths_end_at_the_last_position(backend: Backend, case: Case) -> None:
    """The forward sees as many keys as the last row's position needs."""
    prepared = outputs_of(backend, _PREPARE, case)
    last = prepared["positions"].reshape(len(case["seq_lens"]), case["num_draft_tokens"])[:, -1]
    require_equal("forward_seq_lens", prepared["forward_seq_lens"], last + 1)
    rows = prepared["forward_seq_lens"] - np.asarray(case["seq_lens"], dtype=np.int64)
    require_equal("the rows of a forward", rows, [case["num_draft_tokens"]] * len(last))


def requests_are_prepared_one_by_one(backend: Backend, case: Case) -> None:
    """Positions and lengths of a request are the same alone, and in any order of the batch."""
    require_one_by_one(backend, _PREPARE, case, ["positions", "forward_seq_lens"])
    width, whole = case["num_draft_tokens"], outputs_of(backend, _PREPARE, case)["select_index"]
    for requests in arrangements(len(whole)):
        got = outputs_of(backend, _PREPARE, batch_of(_PREPARE, case, requests))["select_index"]
        require_equal(f"select_index of {requests}", got, whole[requests] % width + np.arange(len(requests)) * width)


@composite
def cut_prompts(draw: st.DrawFn) -> Case:
    """Draw a prompt of distinct tokens, where it is cut, and its tail token."""
    length = draw(st.integers(1, 12))
    cuts = draw(st.lists(st.integers(1, length - 1), unique=True, max_size=4)) if length > 1 else []
    tokens = draw(generators()).permutation(length + 1)
    return {"prompt": tokens[:-1], "cuts": sorted(cuts), "tail": int(tokens[-1])}


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
    flat = {"input_ids": counts, "positions": counts}
    require_one_by_one(backend, _LAYOUT, case, ["positions", "bonus_tokens"], counts=flat)


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


_ROTATE = "rotate_prefill_input_ids"
_PREPARE = "prepare_for_extend_to_fill_draft_kvcache"
_LAYOUT = "create_extend_after_decode_spec_info"
_METADATA = "generate_attn_arg_prefill"

PROPERTIES = (
    *states(
        "extend",
        (each_position_has_the_next_token, _ROTATE, "P47"),
        (chunks_rotate_like_the_whole_prompt, cut_prompts, _ROTATE, "P47"),
        (prompts_rotate_one_by_one, _ROTATE, "P31"),
        (extend_positions_are_consecutive, _PREPARE, "P51"),
        (selected_row_is_the_last_output_token, _PREPARE, "P25"),
        (forward_lengths_end_at_the_last_position, _PREPARE, "P51"),
        (requests_are_prepared_one_by_one, _PREPARE, "P31"),
    ),
    *states(
        "extend_v1",
        (ragged_positions_end_at_the_length, _LAYOUT, "P51"),
        (next_root_is_the_last_output_token, _LAYOUT, "P25"),
        (segments_are_laid_out_one_by_one, _LAYOUT, "P31"),
        (queries_and_keys_are_cut_by_their_counts, _METADATA, "P51"),
        (keys_are_the_slots_of_the_request, _METADATA, "P40"),
    ),
)
