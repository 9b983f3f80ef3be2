"""Faults in the inputs with which the draft model catches up, after a V1 verify too."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Named,
    given,
    mutants_by_operation,
    returning,
    with_arguments,
    with_outputs,
)
from specsim.properties.mutants.tables import rows_of_the_batch

_TAIL = "rotated_input_ids[last] = tail_tokens[request]"


def _as_many_rows_as_accepted(outputs: Named, arguments: Named) -> None:
    most = int(arguments["num_accepted_tokens"].max(initial=0))
    positions = outputs["positions"].reshape(len(arguments["seq_lens"]), arguments["num_draft_tokens"])
    outputs["positions"] = positions[:, :most].reshape(-1)
    outputs["forward_seq_lens"] = np.asarray(arguments["seq_lens"], dtype=np.int64) + most


_tail_not_looked_up = edited(_TAIL, f"{_TAIL} if last == len(input_ids) - 1 else input_ids[last]")
_sampled_tail = with_arguments(tail_tokens=lambda tails: np.resize(tails[-1:], tails.shape))
_one_prompt = edited(_TAIL, "rotated_input_ids[last] = [*input_ids, tail_tokens[-1]][last + 1]")
_first_token_last = edited(_TAIL, "rotated_input_ids[last] = input_ids[start]")
_drafts_for_tokens = with_outputs(select_index=lambda rows: np.maximum(rows - 1, 0))
_as_long_as_the_longest = with_arguments(num_accepted_tokens=lambda counts: np.full_like(counts, counts.max(initial=1)))
_stride_of_the_path = edited(
    "request * num_draft_tokens + num_accepted_tokens[request]",
    "request * max(num_accepted_tokens) + num_accepted_tokens[request]",
)
_one_position_a_verify = edited("seq_lens[request] + num_draft_tokens", "seq_lens[request] + 1")
_after_the_path = edited(
    "seq_lens[request] + place",
    "seq_lens[request] + num_accepted_tokens[request] + place",
    "seq_lens[request] + num_draft_tokens",
    "seq_lens[request] + num_accepted_tokens[request] + num_draft_tokens",
)
_not_shifted = edited("input_ids[place + 1]", "input_ids[place]")


_QUERIES = "qo_indptr[request] + num_accepted_tokens[request]"


def _before_the_verify(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["kv_lens"] = np.maximum(arguments["kv_lens"] - counts, counts).astype(arguments["kv_lens"].dtype)


_one_less_counted = edited("seq_lens[request] - count + place", "max(seq_lens[request] - 1, count) - count + place")
_after_the_length = edited("seq_lens[request] - count + place", "seq_lens[request] + place")
_as_one_request = edited("seq_lens[request] - count + place", "seq_lens[0] - num_accepted_tokens[0] + start + place")
_equal_segments = edited(
    "input_ids[start + count - 1]", 'input_ids[(request + 1) * (len(input_ids) // axes["request"]) - 1]'
)
_first_token = edited("input_ids[start + count - 1]", "input_ids[start]")
_one_width = edited(_QUERIES, "qo_indptr[request] + max(num_accepted_tokens)")

MUTANTS = mutants_by_operation(
    rotate_prefill_input_ids=(
        ("X01", "Every chunk ends in the sampled token.", _sampled_tail),
        ("X16", "The lookahead token of all but the last chunk is dropped.", _tail_not_looked_up),
        ("OWN-82", "The batch is rotated as one prompt.", _one_prompt),
        ("OWN-83", "A prompt's first token becomes its tail.", _first_token_last),
        ("D08", "Rows are those of the prompt before it is shifted.", _not_shifted),
    ),
    prepare_for_extend_to_fill_draft_kvcache=(
        ("X15", "There are as many rows as the longest path, not as nodes.", returning(_as_many_rows_as_accepted)),
        ("X03", "Drafts are counted where tokens are meant.", _drafts_for_tokens),
        ("PV17", "Every request is trimmed to the longest.", _as_long_as_the_longest),
        ("OWN-84", "Rows are selected with the stride of a path.", _stride_of_the_path),
        ("OWN-85", "A forward adds one position.", _one_position_a_verify),
        ("OWN-86", "Positions start after the root.", with_outputs(positions=lambda positions: positions + 1)),
        ("OWN-87", "Lengths have already advanced.", _after_the_path),
    ),
    create_extend_after_decode_spec_info=(
        ("OWN-193", "The length counts one token less.", _one_less_counted),
        ("OWN-194", "Positions start at the new length.", _after_the_length),
        ("OWN-195", "The batch is laid out as one request.", _as_one_request),
        ("OWN-196", "The next root is the first output token.", _first_token),
        ("OWN-197", "Tokens are cut into segments of one width.", _equal_segments),
    ),
    generate_attn_arg_prefill=(
        ("OWN-198", "There is one query a draft.", edited(_QUERIES, f"{_QUERIES} - 1")),
        ("OWN-199", "All requests have as many queries as the longest.", _one_width),
        ("OWN-200", "Keys are those from before the verify.", given(_before_the_verify)),
        ("OWN-201", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
)
