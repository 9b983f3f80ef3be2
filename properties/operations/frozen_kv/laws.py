"""Laws of what a draft that reads the target's KV is given: it stands still, whatever it drafts."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require_equal, require_one_by_one, states

_BEAMS = ("beam_req_pool_indices", "beam_seq_lens", "positions")


def beams_of_a_request_are_neighbours_and_alike(backend: Backend, case: Case) -> None:
    """Every request has as many beams, one after the other, each with its row and its length."""
    prepared = outputs_of(backend, "prepare_for_frozen_kv_draft", case)
    for name, given in (("beam_req_pool_indices", "req_pool_indices"), ("beam_seq_lens", "seq_lens")):
        expected = [value for value in case[given].tolist() for _ in range(case["topk"])]
        require_equal(name, prepared[name], np.array(expected, dtype=np.int64))


def a_beam_stands_at_its_last_key(backend: Backend, case: Case) -> None:
    """The position is one below the number of keys, and that of no key is 0."""
    prepared = outputs_of(backend, "prepare_for_frozen_kv_draft", case)
    keys, positions = prepared["beam_seq_lens"], prepared["positions"]
    require_equal("positions and one, where there are keys", positions[keys > 0] + 1, keys[keys > 0])
    require_equal("positions without keys", positions[keys == 0], np.zeros((keys == 0).sum()))


def frozen_drafts_are_prepared_one_by_one(backend: Backend, case: Case) -> None:
    """The beams of a request are the same alone, and in any order of the batch."""
    require_one_by_one(backend, "prepare_for_frozen_kv_draft", case, _BEAMS)


def the_last_verified_row_ends_its_segment(backend: Backend, case: Case) -> None:
    """After the row that is selected begins the next request, and after the last one the rows end."""
    counts = case["num_accepted_tokens"]
    selected = outputs_of(backend, "select_last_verified", case)["select_index"]
    owners = np.repeat(np.arange(len(counts)), counts)
    require_equal("the request of the selected row", owners[selected], np.arange(len(counts)))
    require_equal("the request after it", np.append(owners, len(counts))[selected + 1], 1 + np.arange(len(counts)))


PROPERTIES = states(
    "frozen_kv",
    (beams_of_a_request_are_neighbours_and_alike, "prepare_for_frozen_kv_draft", "P42"),
    (a_beam_stands_at_its_last_key, "prepare_for_frozen_kv_draft", "P51"),
    (frozen_drafts_are_prepared_one_by_one, "prepare_for_frozen_kv_draft", "P31"),
    (the_last_verified_row_ends_its_segment, "select_last_verified", "P25"),
)
