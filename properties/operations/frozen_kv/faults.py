"""Faults in what a draft that reads the target's KV is given."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, mutants_by_operation, returning, with_arguments, with_outputs

_POSITION = "max(int(seq_lens[request]) - 1, 0)"


def _beams_of_all_requests(outputs: Named, arguments: Named) -> None:
    for name, given_name in (("beam_req_pool_indices", "req_pool_indices"), ("beam_seq_lens", "seq_lens")):
        outputs[name] = np.tile(np.asarray(arguments[given_name], dtype=np.int64), arguments["topk"])


_one_length = with_outputs(beam_seq_lens=lambda lengths: np.resize(lengths[:1], lengths.shape))
_segments_of_one_width = with_arguments(num_accepted_tokens=lambda counts: np.full_like(counts, counts.max(initial=1)))
_one_row_early = edited("start + count - 1", "max(start + count - 2, 0)")

MUTANTS = mutants_by_operation(
    prepare_for_frozen_kv_draft=(
        ("OWN-2600", "Copies of the batch follow each other.", returning(_beams_of_all_requests)),
        ("OWN-2601", "A beam stands after its last key.", edited(_POSITION, "seq_lens[request]")),
        ("OWN-2602", "The position of no key is below 0.", edited(_POSITION, "int(seq_lens[request]) - 1")),
        ("OWN-2603", "Beams stand one after the other.", edited(_POSITION, f"{_POSITION} + beam % topk")),
        ("OWN-2604", "All beams see as many keys as the first.", _one_length),
        ("OWN-2605", "The row is the place in the batch.", edited("req_pool_indices[request]", "request")),
    ),
    select_last_verified=(
        ("OWN-2606", "The row before the last token is selected.", _one_row_early),
        ("OWN-2607", "The first row of each request is selected.", edited("start + count - 1", "start")),
        ("OWN-2608", "All segments are as wide as the longest.", _segments_of_one_width),
        ("OWN-2609", "Segments before a request's own are not counted.", edited("start + count - 1", "count - 1")),
    ),
)
