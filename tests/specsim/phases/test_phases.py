from dataclasses import fields, replace

import numpy as np
import pytest

from specsim import Reason, SpecRejection, phases
from specsim.algorithms import SpecInputType
from specsim.phases import (
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    PhaseTag,
    VerifyInput,
    filter_batch,
    merge_batch,
)


def i64(*values):
    return np.array(values, dtype=np.int64)


def i32(*values):
    return np.array(values, dtype=np.int32)


def draft(rows, hidden=True, topk=2):
    rows = i64(*rows)
    return DraftInput(
        req_pool_indices=rows,
        seq_lens=rows * 10,
        topk_p=np.repeat(rows, topk).reshape(-1, topk).astype(np.float32),
        topk_index=np.repeat(rows, topk).reshape(-1, topk),
        hidden_states=rows[:, None] * 100 if hidden else None,
        bonus_tokens=rows.astype(np.int32),
    )


def extend(**changes):
    """Return the hand-over of the worked example K.3: accepted tokens 12 23 70 and 31 42 63 80."""
    values = {
        "req_pool_indices": i64(1, 2),
        "seq_lens": i64(10, 9),
        "seq_lens_cpu": (10, 9),
        "num_accepted_drafts": i32(2, 3),
        "num_accepted_tokens": i32(3, 4),
        "num_accepted_tokens_cpu": (3, 4),
        "input_ids": i64(12, 23, 70, 31, 42, 63, 80),
        "hidden_states": i64(0, 2, 4, 6, 7, 9, 11)[:, None],
        "out_cache_loc": i64(20, 22, 24, 30, 31, 33, 35),
    }
    return EagleDraftExtendInput(**{**values, **changes})


def equal(one, other):
    assert type(one) is type(other)
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert (left.dtype, left.shape) == (right.dtype, right.shape), field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        else:
            assert left == right, field.name


def reason_of(function, *arguments, **options):
    with pytest.raises(SpecRejection) as caught:
        function(*arguments, **options)
    return caught.value.reason


def test_tags_are_the_input_types_of_engines_and_two_more():
    ours = {tag.value for tag in PhaseTag} - {kind.value for kind in SpecInputType}
    assert ours == {"EAGLE_DRAFT_EXTEND_V2", "EAGLE_VERIFY_OUTPUT"}
    assert PhaseTag.EAGLE_DRAFT_EXTEND_V2.input_type is SpecInputType.EAGLE_DRAFT_EXTEND
    assert PhaseTag.EAGLE_VERIFY_OUTPUT.input_type is None


def test_frozen_kv_classes_add_no_field():
    for frozen, base in (
        (FrozenKVMTPDraftInput, DraftInput),
        (FrozenKVMTPVerifyInput, VerifyInput),
        (FrozenKVMTPDraftExtendInput, EagleDraftExtendInput),
    ):
        assert [field.name for field in fields(frozen)] == [field.name for field in fields(base)]
        assert frozen.tag.name == f"FROZEN_KV_MTP_{base.tag.name.removeprefix('EAGLE_')}"


def test_an_idle_draft_input_has_every_array():
    idle = DraftInput.create_idle_input(3, 5)
    assert idle.topk_p.shape == idle.topk_index.shape == (0, 3)
    assert (idle.hidden_states.shape, idle.bonus_tokens.dtype) == ((0, 5), np.int32)
    assert DraftInput.create_idle_input(3, None).hidden_states is None


def test_an_idle_extend_input_has_every_array():
    idle = EagleDraftExtendInput.create_idle_input(5)
    arrays = [value for value in vars(idle).values() if isinstance(value, np.ndarray)]
    assert len(arrays) == 9
    assert {len(array) for array in arrays} == {0}
    assert (idle.num_accepted_tokens_cpu, idle.hidden_states.shape) == ((), (0, 5))


def test_a_draft_input_of_nothing_is_no_idle_one():
    assert reason_of(DraftInput, i64(), i64(), None, None, None, None) is Reason.MISSING_ARGUMENT


def test_a_relayed_draft_input_carries_places_only():
    relayed = DraftInput(i64(1, 2), i64(5, 6), None, None, None, None, future_indices=i64(7, 8))
    assert filter_batch(relayed, [1], has_been_filtered=True).future_indices.tolist() == [8]
    assert reason_of(replace, draft([1]), future_indices=i64(3)) is Reason.WRONG_SHAPE
    assert reason_of(merge_batch, relayed, draft([3])) is Reason.MISSING_ARGUMENT


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_accepted_tokens_cpu": (3, 3)}, Reason.INCONSISTENT_LENGTHS),
        ({"num_accepted_tokens_cpu": (0, 7)}, Reason.INCONSISTENT_LENGTHS),
        ({"seq_lens_cpu": (10,)}, Reason.INCONSISTENT_LENGTHS),
        ({"hidden_states": i64(1, 2)[:, None]}, Reason.WRONG_SHAPE),
        ({"num_accepted_drafts": i32(2)}, Reason.WRONG_SHAPE),
        ({"num_accepted_drafts": i64(2, 3)}, Reason.WRONG_DTYPE),
        ({"input_ids": None}, Reason.MISSING_ARGUMENT),
    ],
)
def test_an_extend_input_whose_parts_disagree_is_refused(changes, reason):
    assert reason_of(extend, **changes) is reason


def test_rows_of_the_draft_phase_are_no_rows_of_the_extend():
    """As many requests as tokens: the layouts coincide, the tags do not."""
    one_each = extend(
        num_accepted_drafts=i32(0, 0),
        num_accepted_tokens=i32(1, 1),
        num_accepted_tokens_cpu=(1, 1),
        input_ids=i64(12, 31),
        hidden_states=i64(0, 6)[:, None],
        out_cache_loc=i64(20, 30),
    )
    carried = draft([1, 2])
    assert one_each.hidden_states.shape == carried.hidden_states.shape
    assert reason_of(phases.expect_phase, carried, PhaseTag.EAGLE_DRAFT_EXTEND) is Reason.WRONG_PHASE


def test_filter_keeps_segments_whole():
    kept = filter_batch(extend(), [1])
    equal(
        kept,
        EagleDraftExtendInput(
            i64(2),
            i64(9),
            (9,),
            i32(3),
            i32(4),
            (4,),
            i64(31, 42, 63, 80),
            i64(6, 7, 9, 11)[:, None],
            i64(30, 31, 33, 35),
        ),
    )
    assert filter_batch(extend(), [1, 0]).input_ids.tolist() == [31, 42, 63, 80, 12, 23, 70]
    assert filter_batch(extend(), []).input_ids.shape == (0,)


def test_filter_indexes_after_prefill_and_counts_after_verify():
    equal(filter_batch(draft([1, 2, 3]), [0, 2]), draft([1, 3]))
    equal(filter_batch(draft([1, 3]), [0, 2], has_been_filtered=True), draft([1, 3]))
    assert reason_of(filter_batch, draft([1, 3]), [0], has_been_filtered=True) is Reason.INCONSISTENT_LENGTHS
    with pytest.warns(UserWarning, match="num_requests is 2, but should be 1"):
        equal(filter_batch(draft([1, 3]), [0], has_been_filtered=True, strict=False), draft([1]))


def test_merge_appends_with_and_without_hidden_states():
    equal(merge_batch(draft([1]), draft([2, 3])), draft([1, 2, 3]))
    equal(merge_batch(draft([1], hidden=False), draft([2], hidden=False)), draft([1, 2], hidden=False))
    two = merge_batch(filter_batch(extend(), [1]), filter_batch(extend(), [0]))
    equal(two, filter_batch(extend(), [1, 0]))


def test_a_batch_without_hidden_states_is_not_idle():
    idle = DraftInput.create_idle_input(2, None)
    carried = draft([4], hidden=False)
    assert merge_batch(idle, carried) is merge_batch(carried, idle) is carried


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (draft([2], hidden=False), Reason.MISSING_ARGUMENT),
        (draft([2], topk=3), Reason.WRONG_SHAPE),
        (replace(draft([2]), hidden_states=np.zeros((1, 1), dtype=np.int32)), Reason.WRONG_DTYPE),
        (FrozenKVMTPDraftInput(**vars(draft([2]))), Reason.WRONG_PHASE),
    ],
)
def test_what_does_not_match_is_not_merged(other, reason):
    assert reason_of(merge_batch, draft([1]), other) is reason
    assert reason_of(merge_batch, other, draft([1])) is reason


def test_verify_inputs_are_not_carried_between_iterations():
    links = np.zeros((1, 1), dtype=np.int64)
    left_over = VerifyInput(i64(0), links, links, links, i64(0), np.ones(1, dtype=bool), i64(0), i64(0), 1)
    with pytest.raises(TypeError, match="VerifyInput is not carried between iterations"):
        merge_batch(left_over, draft([1]))
    with pytest.raises(TypeError):
        filter_batch(left_over, [0])


def test_rows_of_a_request_by_phase():
    assert phases.get_spec_adjust_token_coefficient(draft([1], topk=4)) == (4, 4)
    assert phases.get_spec_adjust_token_coefficient(extend(num_tokens_per_req=6)) == (6, 1)
    assert reason_of(phases.get_spec_adjust_token_coefficient, extend()) is Reason.MISSING_ARGUMENT
    got = phases.get_spec_adjusted_global_num_tokens(extend(num_tokens_per_req=6), [2, 0], [2, 0])
    assert got == ([12, 0], [2, 0])
