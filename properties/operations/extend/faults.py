"""Faults in the inputs with which the draft model catches up."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Named, given, instead, mutants_of, returning, with_outputs

Array = Any
_NO_TOKENS = np.zeros(0, dtype=np.int64)


def _last_places(extend_lens: Array) -> Array:
    return np.cumsum(extend_lens) - 1


def _sampled_tail_for_every_chunk(arguments: Named) -> None:
    tails = arguments["tail_tokens"]
    arguments["tail_tokens"] = np.resize(tails[-1:], tails.shape)


def _tail_not_looked_up(outputs: Named, arguments: Named) -> None:
    last = _last_places(arguments["extend_lens"])[:-1]
    outputs["rotated_input_ids"][last] = arguments["input_ids"][last]


def _rotated_across_requests(input_ids: Array, extend_lens: Array, tail_tokens: Array) -> Array:
    rotated = np.roll(input_ids, -1)
    rotated[-1:] = tail_tokens[-1:]
    return rotated


def _rotated_within(input_ids: Array, extend_lens: Array, tail_tokens: Array) -> Array:
    prompts = np.split(input_ids, np.cumsum(extend_lens)[:-1]) if len(extend_lens) else []
    return np.concatenate([_NO_TOKENS, *(np.roll(prompt, -1) for prompt in prompts)])


def _not_rotated(input_ids: Array, extend_lens: Array, tail_tokens: Array) -> Array:
    unrotated = input_ids.copy()
    unrotated[_last_places(extend_lens)] = tail_tokens
    return unrotated


def _as_many_rows_as_accepted(outputs: Named, arguments: Named) -> None:
    most = int(arguments["num_accepted_tokens"].max(initial=0))
    positions = outputs["positions"].reshape(len(arguments["seq_lens"]), arguments["num_draft_tokens"])
    outputs["positions"] = positions[:, :most].reshape(-1)
    outputs["forward_seq_lens"] = np.asarray(arguments["seq_lens"], dtype=np.int64) + most


def _drafts_for_tokens(outputs: Named, arguments: Named) -> None:
    outputs["select_index"] = np.maximum(outputs["select_index"] - 1, 0)


def _trimmed_to_the_longest(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["num_accepted_tokens"] = np.full_like(counts, counts.max(initial=1))


def _stride_of_the_path(outputs: Named, arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    width = int(counts.max(initial=1))
    outputs["select_index"] = np.arange(len(counts), dtype=np.int64) * width + counts - 1


def _one_position_a_verify(outputs: Named, arguments: Named) -> None:
    outputs["forward_seq_lens"] = np.asarray(arguments["seq_lens"], dtype=np.int64) + 1


def _positions_after_the_path(arguments: Named) -> None:
    lengths = np.asarray(arguments["seq_lens"], dtype=np.int64)
    arguments["seq_lens"] = lengths + arguments["num_accepted_tokens"]


MUTANTS = (
    *mutants_of(
        "rotate_prefill_input_ids",
        ("X01", "Every chunk ends in the sampled token.", given(_sampled_tail_for_every_chunk)),
        ("X16", "The lookahead token of all but the last chunk is dropped.", returning(_tail_not_looked_up)),
        ("OWN-82", "The batch is rotated as one prompt.", instead(_rotated_across_requests)),
        ("OWN-83", "A prompt's first token becomes its tail.", instead(_rotated_within)),
        ("D08", "Rows are those of the prompt before it is shifted.", instead(_not_rotated)),
    ),
    *mutants_of(
        "prepare_for_extend_to_fill_draft_kvcache",
        ("X15", "There are as many rows as the longest path, not as nodes.", returning(_as_many_rows_as_accepted)),
        ("X03", "Drafts are counted where tokens are meant.", returning(_drafts_for_tokens)),
        ("PV17", "Every request is trimmed to the longest.", given(_trimmed_to_the_longest)),
        ("OWN-84", "Rows are selected with the stride of a path.", returning(_stride_of_the_path)),
        ("OWN-85", "A forward adds one position.", returning(_one_position_a_verify)),
        ("OWN-86", "Positions start after the root.", with_outputs(positions=lambda positions: positions + 1)),
        ("OWN-87", "Lengths have already advanced.", given(_positions_after_the_path)),
    ),
)
