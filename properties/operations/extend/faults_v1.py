"""Faults in the ragged inputs with which the draft model catches up after a V1 verify."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, returning

Array = Any


def _one_before(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["seq_lens"] = np.maximum(arguments["seq_lens"] - 1, counts)


def _after_the_length(outputs: Named, arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    outputs["positions"] = outputs["positions"] + np.repeat(counts, counts)


def _first_token(outputs: Named, arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    outputs["bonus_tokens"] = arguments["input_ids"][np.cumsum(counts) - counts].astype(np.int32)


def _equal_segments(outputs: Named, arguments: Named) -> None:
    tokens, counts = arguments["input_ids"], arguments["num_accepted_tokens"]
    width = len(tokens) // max(len(counts), 1)
    outputs["bonus_tokens"] = tokens[(np.arange(len(counts)) + 1) * width - 1].astype(np.int32)


def _wrapped_in_the_batch(input_ids: Array, seq_lens: Array, num_accepted_tokens: Array) -> tuple[Array, Array]:
    ends = np.cumsum(num_accepted_tokens)
    positions = np.arange(len(input_ids), dtype=np.int64) + int(seq_lens[:1].sum() - num_accepted_tokens[:1].sum())
    return positions, input_ids[ends - 1].astype(np.int32)


def _drafts_for_queries(outputs: Named, arguments: Named) -> None:
    drafts = arguments["num_accepted_tokens"] - 1
    outputs["qo_indptr"] = np.concatenate([[0], np.cumsum(drafts)]).astype(np.int32)


def _one_width(outputs: Named, arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    outputs["qo_indptr"] = (np.arange(len(counts) + 1) * int(counts.max(initial=0))).astype(np.int32)


def _before_the_verify(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["kv_lens"] = np.maximum(arguments["kv_lens"] - counts, counts).astype(arguments["kv_lens"].dtype)


def _rows_of_the_batch(arguments: Named) -> None:
    arguments["req_pool_indices"] = np.arange(len(arguments["kv_lens"]), dtype=np.int64)


_LAYOUT = "create_extend_after_decode_spec_info"
_METADATA = "generate_attn_arg_prefill"

MUTANTS = (
    Mutant("OWN-193", _LAYOUT, "The length counts one token less.", given(_one_before)),
    Mutant("OWN-194", _LAYOUT, "Positions start at the new length.", returning(_after_the_length)),
    Mutant("OWN-195", _LAYOUT, "The batch is laid out as one request.", instead(_wrapped_in_the_batch)),
    Mutant("OWN-196", _LAYOUT, "The next root is the first output token.", returning(_first_token)),
    Mutant("OWN-197", _LAYOUT, "Tokens are cut into segments of one width.", returning(_equal_segments)),
    Mutant("OWN-198", _METADATA, "There is one query a draft.", returning(_drafts_for_queries)),
    Mutant("OWN-199", _METADATA, "All requests have as many queries as the longest.", returning(_one_width)),
    Mutant("OWN-200", _METADATA, "Keys are those from before the verify.", given(_before_the_verify)),
    Mutant("OWN-201", _METADATA, "The row is the place in the batch.", given(_rows_of_the_batch)),
)
