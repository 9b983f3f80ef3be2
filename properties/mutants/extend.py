"""Faults in the inputs with which the draft model catches up."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, returning

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


def _positions_after_the_root(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = outputs["positions"] + 1


def _positions_after_the_path(arguments: Named) -> None:
    lengths = np.asarray(arguments["seq_lens"], dtype=np.int64)
    arguments["seq_lens"] = lengths + arguments["num_accepted_tokens"]


_ROTATE = "rotate_prefill_input_ids"
_PREPARE = "prepare_for_extend_to_fill_draft_kvcache"

MUTANTS = (
    Mutant("X01", _ROTATE, "Every chunk ends in the sampled token.", given(_sampled_tail_for_every_chunk)),
    Mutant("X16", _ROTATE, "The lookahead token of all but the last chunk is dropped.", returning(_tail_not_looked_up)),
    Mutant("OWN-82", _ROTATE, "The batch is rotated as one prompt.", instead(_rotated_across_requests)),
    Mutant("OWN-83", _ROTATE, "A prompt's first token becomes its tail.", instead(_rotated_within)),
    Mutant("D08", _ROTATE, "Rows are those of the prompt before it is shifted.", instead(_not_rotated)),
    Mutant(
        "X15",
        _PREPARE,
        "There are as many rows as the longest path, not as nodes.",
        returning(_as_many_rows_as_accepted),
    ),
    Mutant("X03", _PREPARE, "Drafts are counted where tokens are meant.", returning(_drafts_for_tokens)),
    Mutant("PV17", _PREPARE, "Every request is trimmed to the longest.", given(_trimmed_to_the_longest)),
    Mutant("OWN-84", _PREPARE, "Rows are selected with the stride of a path.", returning(_stride_of_the_path)),
    Mutant("OWN-85", _PREPARE, "A forward adds one position.", returning(_one_position_a_verify)),
    Mutant("OWN-86", _PREPARE, "Positions start after the root.", returning(_positions_after_the_root)),
    Mutant("OWN-87", _PREPARE, "Lengths have already advanced.", given(_positions_after_the_path)),
)
