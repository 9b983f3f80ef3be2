"""Faults in the ragged inputs with which the draft model catches up after a V1 verify."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, given, mutants_by_operation
from specsim.properties.mutants.tables import rows_of_the_batch

_QUERIES = "qo_indptr[request] + num_accepted_tokens[request]"


def _one_before(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["seq_lens"] = np.maximum(arguments["seq_lens"] - 1, counts)


def _before_the_verify(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["kv_lens"] = np.maximum(arguments["kv_lens"] - counts, counts).astype(arguments["kv_lens"].dtype)


_after_the_length = edited("seq_lens[request] - count + place", "seq_lens[request] + place")
_as_one_request = edited("seq_lens[request] - count + place", "seq_lens[0] - num_accepted_tokens[0] + start + place")
_equal_segments = edited(
    "input_ids[start + count - 1]", 'input_ids[(request + 1) * (len(input_ids) // axes["request"]) - 1]'
)
_first_token = edited("input_ids[start + count - 1]", "input_ids[start]")
_one_width = edited(_QUERIES, "qo_indptr[request] + max(num_accepted_tokens)")

MUTANTS = mutants_by_operation(
    create_extend_after_decode_spec_info=(
        ("OWN-193", "The length counts one token less.", given(_one_before)),
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
