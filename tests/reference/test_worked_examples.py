"""Section K of the semantics, number by number: two requests, topk 2, three steps, six nodes."""

import numpy as np
import pytest

from specsim import reference
from specsim.config import TreeMaskMode
from specsim.counts import count_tokens
from specsim.host.stopping import StopRules
from specsim.host.truncation import truncate_at_stop
from specsim.phases import VerifyInput, VerifyOutput, filter_batch
from specsim.reference.worker.extend import collect_extend_input

STEP_0_P = [[0.6, 0.35], [0.7, 0.2]]
STEP_0_IDS = [[11, 12], [31, 32]]
STEP_1_P = [[0.5, 0.3], [0.7, 0.2], [0.5, 0.4], [0.6, 0.3]]
STEP_1_IDS = [[21, 22], [23, 24], [41, 42], [43, 44]]
STEP_2_P = [[0.8, 0.1], [0.6, 0.3], [0.6, 0.3], [0.9, 0.05]]
STEP_2_IDS = [[51, 52], [53, 54], [61, 62], [63, 64]]
DRAFT_TOKEN = [10, 11, 12, 21, 23, 51, 30, 31, 41, 42, 61, 63]
NEXT_TOKEN = [[1, 3, 4, 5, -1, -1], [1, 2, 4, 5, -1, -1]]
NEXT_SIBLING = [[-1, 2, -1, -1, -1, -1], [-1, -1, 3, -1, -1, -1]]
QLEN_ROWS = [
    ["100000", "110000", "101000", "110100", "101010", "110101"],
    ["100000", "110000", "111000", "110100", "111010", "110101"],
]
TARGET_PREDICT = [[12, 91, 23, 92, 70, 94], [31, 42, 95, 63, 96, 80]]
ACCEPT_INDEX = [[0, 2, 4, -1], [6, 7, 9, 11]]
PREDICT = [12, 0, 23, 0, 70, 0, 31, 42, 0, 63, 0, 80]
VERIFY_SLOTS = [20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35]


def squares():
    return np.array([[[cell == "1" for cell in row] for row in rows] for rows in QLEN_ROWS])


@pytest.fixture
def steps(f32, i64):
    """Run the three select steps of K.1."""
    hidden = i64([[100], [200]])
    zero = reference.select_top_k_tokens(0, f32(STEP_0_P), i64(STEP_0_IDS), hidden, None, 2)
    hidden_of_beams = i64([[0], [1], [2], [3]])
    one = reference.select_top_k_tokens(1, f32(STEP_1_P), i64(STEP_1_IDS), hidden_of_beams, zero[2], 2)
    two = reference.select_top_k_tokens(2, f32(STEP_2_P), i64(STEP_2_IDS), None, one[2], 2)
    return zero, one, two


@pytest.fixture
def organised(steps):
    scores, tokens, parents = ([step[block] for step in steps] for block in (3, 4, 5))
    return reference.organize_draft_results(scores, tokens, parents, 6)


@pytest.fixture
def built(organised, i32, i64):
    def build(mask_mode, seq_lens_sum=0):
        parent_list, top_scores_index, draft_tokens = organised
        bonus, seq_lens = i32([10, 30]), i64([7, 5])
        return reference.build_tree(
            bonus, parent_list, top_scores_index, draft_tokens, seq_lens, 2, 3, 6, mask_mode, seq_lens_sum
        )

    return build


def test_k1_step_0(steps, equal, f32, i64):
    expected = (
        i64([11, 12, 31, 32]),
        i64([[100], [100], [200], [200]]),
        f32(STEP_0_P),
        f32([[[0.6, 0.35]], [[0.7, 0.2]]]),
        i64(STEP_0_IDS),
        i64([[-1, 0, 1], [-1, 0, 1]]),
    )
    equal(steps[0], expected)


def test_k1_step_1_chooses_by_cumulative_score(steps, equal, f32, i64):
    scores = f32(STEP_0_P)
    block = scores[:, :, None] * f32(STEP_1_P).reshape(2, 2, 2)
    np.testing.assert_allclose(block, [[[0.30, 0.18], [0.245, 0.07]], [[0.35, 0.28], [0.12, 0.06]]], rtol=1e-6)
    expected = (
        i64([21, 23, 41, 42]),
        i64([[0], [1], [2], [2]]),
        f32([[block[0, 0, 0], block[0, 1, 0]], [block[1, 0, 0], block[1, 0, 1]]]),
        block,
        i64([[21, 22, 23, 24], [41, 42, 43, 44]]),
        i64([[2, 4], [2, 3]]),
    )
    equal(steps[1], expected)


def test_k1_step_2_scores(steps):
    expected = [[[0.24, 0.03], [0.147, 0.0735]], [[0.21, 0.105], [0.252, 0.014]]]
    np.testing.assert_allclose(steps[2][3], expected, rtol=1e-6)


def test_k1_organised(organised, equal, i64):
    expected = (
        i64([[-1, 0, 1, 2, 4], [-1, 0, 1, 2, 3]]),
        i64([[0, 1, 2, 4, 6], [0, 2, 3, 6, 8]]),
        i64([[11, 12, 21, 23, 51], [31, 41, 42, 61, 63]]),
    )
    equal(organised, expected)


def test_k1_tree(built, equal, i64):
    expected = (
        i64(DRAFT_TOKEN),
        i64([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]),
        i64(NEXT_TOKEN),
        i64(NEXT_SIBLING),
        i64([7, 8, 8, 9, 9, 10, 5, 6, 7, 7, 8, 8]),
        squares().reshape(-1),
    )
    equal(built(TreeMaskMode.QLEN_ONLY), expected)


def test_k1_packed_mask(built, equal):
    packed = np.array([1, 3, 5, 11, 21, 43, 1, 3, 7, 11, 23, 43], dtype=np.uint8)
    equal(built(TreeMaskMode.QLEN_ONLY_BITPACKING)[5], packed)


def test_k1_full_mask(built, equal):
    mask = built(TreeMaskMode.FULL_MASK, 12)[5]
    assert mask.shape == (144,)
    row_4 = mask[4 * 13 : 5 * 13]
    equal(row_4, np.array([cell == "1" for cell in "1111111101010"]))
    rows = [np.concatenate([np.ones(7, dtype=bool), row]) for row in squares()[0]]
    rows += [np.concatenate([np.ones(5, dtype=bool), row]) for row in squares()[1]]
    equal(mask[:78], np.concatenate(rows[:6]))
    equal(mask[78:], np.concatenate(rows[6:]))


def test_k2_greedy_verify(equal, i64, i32):
    got = reference.verify_tree_greedy(
        i64(DRAFT_TOKEN).reshape(2, 6),
        i64(range(12)).reshape(2, 6),
        i64(NEXT_TOKEN),
        i64(NEXT_SIBLING),
        i64(TARGET_PREDICT),
        3,
    )
    equal(got, (i32(PREDICT), i32(ACCEPT_INDEX), i32([2, 3])))
    assert count_tokens(got[2]).tolist() == [3, 4]
    assert (i64([7, 5]) + count_tokens(got[2])).tolist() == [10, 9]


def test_k2_everything_rejected(equal, i64, i32):
    target_predict = i64(TARGET_PREDICT)
    target_predict[:, 0] = 99
    got = reference.verify_tree_greedy(
        i64(DRAFT_TOKEN).reshape(2, 6),
        i64(range(12)).reshape(2, 6),
        i64(NEXT_TOKEN),
        i64(NEXT_SIBLING),
        target_predict,
        3,
    )
    predict = [0] * 12
    predict[0] = predict[6] = 99
    equal(got, (i32(predict), i32([[0, -1, -1, -1], [6, -1, -1, -1]]), i32([0, 0])))


def test_k2_output_text_and_bonus_tokens(equal, i32):
    accept_tokens = reference.gather_accept_tokens(i32(PREDICT), i32(ACCEPT_INDEX))
    equal(accept_tokens, i32([[12, 23, 70, 0], [31, 42, 63, 80]]))
    equal(reference.fill_bonus_tokens(accept_tokens, i32([3, 4])), i32([70, 80]))


def test_k3_source_and_target_slots(equal, i32, i64):
    source = reference.fill_accept_out_cache_loc(i32(ACCEPT_INDEX), i64(VERIFY_SLOTS))
    target = reference.fill_accept_target_cache_loc(i32([3, 4]), i64(VERIFY_SLOTS), 3)
    equal(source, i64([20, 22, 24, 30, 31, 33, 35, 0]))
    equal(target, i64([20, 21, 22, 30, 31, 32, 33, 0]))


def test_k3_move_reads_every_source_before_it_writes_a_target(equal, i64):
    pool = i64(range(40)).reshape(40, 1) * 10
    expected = pool.copy()
    expected[[21, 22, 32, 33], 0] = [220, 240, 330, 350]
    reference.move_kv_cache([pool], i64([20, 21, 22, 30, 31, 32, 33, 0]), i64([20, 22, 24, 30, 31, 33, 35, 0]))
    equal(pool, expected)


def test_k3_compacted(equal, i32, i64):
    equal(
        reference.compact_accepted_to_front(i32(PREDICT), i32(ACCEPT_INDEX)),
        i32([12, 23, 70, 12, 70, 0, 31, 42, 63, 80, 0, 80]),
    )
    rows = i64(range(12)).reshape(12, 1)
    equal(
        reference.compact_accepted_to_front(rows, i32(ACCEPT_INDEX)),
        i64([0, 2, 4, 0, 4, 5, 6, 7, 9, 11, 10, 11]).reshape(12, 1),
    )


def test_k3_select_index(equal, i32, i64):
    got = reference.prepare_for_extend_to_fill_draft_kvcache(i64([7, 5]), i32([3, 4]), 6)
    equal(got, (i64([7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 10]), i64([13, 11]), i64([2, 9])))


def test_k3_v1_slots_are_mapped_and_freed(equal, i32, i64):
    rows = i32(np.zeros((3, 12)))
    slots = i64(VERIFY_SLOTS)
    evicted = reference.remap_accepted_slots(i64([1, 2]), rows, i64([7, 5]), slots, i32(ACCEPT_INDEX))
    equal(slots[evicted], i64([21, 23, 25, 32, 34]))
    assert rows[1].tolist() == [0] * 7 + [20, 22, 24, 0, 0]
    assert rows[2].tolist() == [0] * 5 + [30, 31, 33, 35, 0, 0, 0]


def test_k3_v1_extend(equal, i32, i64):
    tokens = i64([12, 23, 70, 31, 42, 63, 80])
    got = reference.create_extend_after_decode_spec_info(tokens, i64([10, 9]), i32([3, 4]))
    equal(got, (i64([7, 8, 9, 5, 6, 7, 8]), i32([70, 80])))
    rows = i32(range(36)).reshape(3, 12)
    qo_indptr, kv_indptr, kv_indices = reference.generate_attn_arg_prefill(
        i64([1, 2]), rows, i64([10, 9]), i32([3, 4]), 19
    )
    equal((qo_indptr, kv_indptr), (i32([0, 3, 7]), i32([0, 10, 19])))
    equal(kv_indices, np.concatenate([rows[1, :10], rows[2, :9]]))


def test_k3_v1_with_a_stop(equal, i32, i64):
    """Token 42 ends request 1: the path is cut behind it, and only request 0 goes on."""
    rules = [StopRules(9), StopRules(9, eos_tokens=frozenset({42}))]
    cut = truncate_at_stop(i32(ACCEPT_INDEX), i32(PREDICT), rules, [[], []], [8, 6], chr)
    equal(cut.accept_index, i32([[0, 2, 4, -1], [6, 7, -1, -1]]))
    equal((cut.batch_num_accepted_drafts, cut.request_num_accepted_drafts), (i32([2, 1]), i32([2, 3])))
    links = i64(np.zeros((2, 6)))
    mask = np.ones(72, dtype=bool)
    verify_input = VerifyInput(
        i64(DRAFT_TOKEN), links, links, links, i64(range(12)), mask, i64(VERIFY_SLOTS), i64([7, 5]), 6
    )
    counts = i32([3, 4])
    verify_output = VerifyOutput(
        i64(TARGET_PREDICT).reshape(-1),
        i32(PREDICT),
        i32(ACCEPT_INDEX),
        counts - i32(1),
        counts,
        i32([70, 80]),
        i64(range(12)).reshape(12, 1),
    )
    everyone = collect_extend_input(i64([1, 2]), verify_input, verify_output, cut)
    assert everyone.seq_lens.tolist() == [10, 7]
    evicted = reference.remap_accepted_slots(
        i64([1, 2]), i32(np.zeros((3, 12))), i64([7, 5]), i64(VERIFY_SLOTS), cut.accept_index
    )
    equal(i64(VERIFY_SLOTS)[evicted], i64([21, 23, 25, 32, 33, 34, 35]))
    going_on = filter_batch(everyone, [0])
    equal((going_on.input_ids, going_on.hidden_states), (i64([12, 23, 70]), i64([[0], [2], [4]])))
    equal((going_on.seq_lens, going_on.num_accepted_drafts), (i64([10]), i32([2])))
    assert going_on.num_accepted_tokens_cpu == (3,)


def test_k7_reconstruction(equal, i64):
    rows = ["100000", "110000", "101000", "110100", "110110", "100001"]
    mask = np.array([[[cell == "1" for cell in row] for row in rows]])
    expected = (
        i64([20, 21, 21, 22, 23, 21]),
        i64([[0, 1, 2, 3, 4, 5]]),
        i64([[1, 3, -1, 4, -1, -1]]),
        i64([[-1, 2, 5, -1, -1, -1]]),
    )
    equal(reference.reconstruct_indices_from_tree_mask(mask, i64([20])), expected)


@pytest.mark.parametrize(
    ("num_tokens", "cache_seqlens", "cu_seqlens_q", "cu_seqlens_k"),
    [
        (18, [15, 14, 9], [0, 6, 12, 18], [0, 15, 29, 38]),
        (15, [14, 13, 8], [0, 5, 10, 15], [0, 14, 27, 35]),
    ],
)
def test_k8_metadata(num_tokens, cache_seqlens, cu_seqlens_q, cu_seqlens_k, equal, i32, i64):
    req_to_token = i32(range(5 * 16)).reshape(5, 16) + 16
    tokens_per_request = num_tokens // 3
    got = reference.target_verify_metadata(
        i64([2, 4, 1]), req_to_token, i64([9, 8, 3]), num_tokens, 9 + tokens_per_request, 4
    )
    page_table = i32([[12, 13, 14, 15], [20, 21, 22, 23], [8, 9, 10, 11]])
    equal(got, (i32(cache_seqlens), i32(cu_seqlens_q), i32(cu_seqlens_k), page_table))


def test_k9_select_index(equal, i32, i64):
    got = reference.prepare_for_extend_to_fill_draft_kvcache(i64([9, 8, 3]), i32([2, 4, 1]), 4)
    positions = i64([9, 10, 11, 12, 8, 9, 10, 11, 3, 4, 5, 6])
    equal(got, (positions, i64([13, 12, 7]), i64([1, 7, 8])))
