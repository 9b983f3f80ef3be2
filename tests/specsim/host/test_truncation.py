import numpy as np
import pytest

from specsim.host.stopping import FinishReason, StopRules
from specsim.host.truncation import truncate_at_stop
from specsim.rejection import Reason, SpecRejection

ACCEPT_INDEX = np.array([[0, 2, 4, -1], [6, 7, 9, 11]], dtype=np.int32)
PREDICT = np.array([12, 42, 23, 42, 70, 42, 31, 42, 42, 63, 42, 80], dtype=np.int32)
RULES = StopRules(20, frozenset({42}))


def test_k3_with_a_stop():
    got = truncate_at_stop(ACCEPT_INDEX, PREDICT, [RULES, RULES], [[10], [30]], [7, 5], chr)
    assert got.accept_index.tolist() == [[0, 2, 4, -1], [6, 7, -1, -1]]
    assert got.batch_num_accepted_drafts.tolist() == [2, 1]
    assert got.request_num_accepted_drafts.tolist() == [2, 3]
    assert got.appended == ((12, 23, 70), (31, 42))
    assert [finish and (finish.reason, finish.num_tokens) for finish in got.finishes] == [None, (FinishReason.EOS, 3)]
    assert ACCEPT_INDEX.tolist() == [[0, 2, 4, -1], [6, 7, 9, 11]]
    assert {value.dtype for value in (got.accept_index, got.batch_num_accepted_drafts)} == {np.dtype(np.int32)}


def test_a_stop_at_the_first_token_leaves_the_root():
    got = truncate_at_stop(ACCEPT_INDEX[:1], PREDICT, [StopRules(20, frozenset({12}))], [[]], [7], chr)
    assert got.accept_index.tolist() == [[0, -1, -1, -1]]
    assert (got.batch_num_accepted_drafts.tolist(), got.request_num_accepted_drafts.tolist()) == ([0], [2])


def test_an_empty_batch():
    got = truncate_at_stop(ACCEPT_INDEX[:0], PREDICT[:0], [], [], [], chr)
    assert (got.accept_index.shape, got.appended, got.finishes) == ((0, 4), (), ())
    assert got.batch_num_accepted_drafts.shape == got.request_num_accepted_drafts.shape == (0,)


@pytest.mark.parametrize("row", [[-1, -1], [0, -1, 2]])
def test_a_row_that_is_no_path_is_refused(row):
    with pytest.raises(SpecRejection) as caught:
        truncate_at_stop(np.array([row], dtype=np.int32), PREDICT, [RULES], [[]], [1], chr)
    assert caught.value.reason is Reason.MALFORMED_PATH


def test_one_entry_a_request():
    with pytest.raises(SpecRejection) as caught:
        truncate_at_stop(ACCEPT_INDEX, PREDICT, [RULES], [[], []], [1, 1], chr)
    assert (caught.value.reason, caught.value.what) == (Reason.INCONSISTENT_LENGTHS, "len(rules)")
