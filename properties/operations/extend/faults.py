"""Faults in the inputs with which the draft model catches up."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, mutants_by_operation, returning, with_arguments, with_outputs

_TAIL = "rotated_input_ids[last] = tail_tokens[request]"


def _tail_not_looked_up(outputs: Named, arguments: Named) -> None:
    last = np.cumsum(arguments["extend_lens"])[:-1] - 1
    outputs["rotated_input_ids"][last] = arguments["input_ids"][last]


def _as_many_rows_as_accepted(outputs: Named, arguments: Named) -> None:
    most = int(arguments["num_accepted_tokens"].max(initial=0))
    positions = outputs["positions"].reshape(len(arguments["seq_lens"]), arguments["num_draft_tokens"])
    outputs["positions"] = positions[:, :most].reshape(-1)
    outputs["forward_seq_lens"] = np.asarray(arguments["seq_lens"], dtype=np.int64) + most


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

MUTANTS = mutants_by_operation(
    rotate_prefill_input_ids=(
        ("X01", "Every chunk ends in the sampled token.", _sampled_tail),
        ("X16", "The lookahead token of all but the last chunk is dropped.", returning(_tail_not_looked_up)),
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
)
