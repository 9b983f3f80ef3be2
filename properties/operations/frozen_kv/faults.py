"""Faults in what a draft that reads the target's KV is given."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, returning

Array = Any


def _beams_of_all_requests(outputs: Named, arguments: Named) -> None:
    for name, given_name in (("beam_req_pool_indices", "req_pool_indices"), ("beam_seq_lens", "seq_lens")):
        outputs[name] = np.tile(np.asarray(arguments[given_name], dtype=np.int64), arguments["topk"])


def _after_the_last_key(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = outputs["beam_seq_lens"].copy()


def _below_nothing(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = outputs["beam_seq_lens"] - 1


def _one_deeper_a_beam(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = outputs["positions"] + np.arange(len(outputs["positions"])) % arguments["topk"]


def _one_length(outputs: Named, arguments: Named) -> None:
    lengths = outputs["beam_seq_lens"]
    outputs["beam_seq_lens"] = np.resize(lengths[:1], lengths.shape)


def _row_is_the_place(outputs: Named, arguments: Named) -> None:
    rows = np.arange(len(arguments["req_pool_indices"]), dtype=np.int64)
    outputs["beam_req_pool_indices"] = np.repeat(rows, arguments["topk"])


def _last_draft(outputs: Named, arguments: Named) -> None:
    outputs["select_index"] = np.maximum(outputs["select_index"] - 1, 0)


def _first_row(outputs: Named, arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"].astype(np.int64)
    outputs["select_index"] = np.cumsum(counts) - counts


def _segments_of_one_width(arguments: Named) -> None:
    counts = arguments["num_accepted_tokens"]
    arguments["num_accepted_tokens"] = np.full_like(counts, counts.max(initial=1))


def _within_the_segment(outputs: Named, arguments: Named) -> None:
    outputs["select_index"] = arguments["num_accepted_tokens"].astype(np.int64) - 1


_PREPARE = "prepare_for_frozen_kv_draft"
_SELECT = "select_last_verified"

MUTANTS = (
    Mutant("OWN-2600", _PREPARE, "Copies of the batch follow each other.", returning(_beams_of_all_requests)),
    Mutant("OWN-2601", _PREPARE, "A beam stands after its last key.", returning(_after_the_last_key)),
    Mutant("OWN-2602", _PREPARE, "The position of no key is below 0.", returning(_below_nothing)),
    Mutant("OWN-2603", _PREPARE, "Beams stand one after the other.", returning(_one_deeper_a_beam)),
    Mutant("OWN-2604", _PREPARE, "All beams see as many keys as the first.", returning(_one_length)),
    Mutant("OWN-2605", _PREPARE, "The row is the place in the batch.", returning(_row_is_the_place)),
    Mutant("OWN-2606", _SELECT, "The row before the last token is selected.", returning(_last_draft)),
    Mutant("OWN-2607", _SELECT, "The first row of each request is selected.", returning(_first_row)),
    Mutant("OWN-2608", _SELECT, "All segments are as wide as the longest.", given(_segments_of_one_width)),
    Mutant("OWN-2609", _SELECT, "Segments before a request's own are not counted.", returning(_within_the_segment)),
)
