"""Padding by hand: the examples of D.9, and arrays of either library."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from specsim.phases import (
    ForwardBatch,
    ForwardMode,
    ForwardOutput,
    PaddingMode,
    VerifyInput,
    get_draft_extend_lens,
    get_spec_adjusted_global_num_tokens,
    pad_inputs_to_size,
    plan_mlp_sync_batch,
    post_forward_mlp_sync_batch,
)
from specsim.phases.extend import ExtendLens
from specsim.phases.forward import FIELDS
from specsim.rejection import Reason, SpecRejection


def i64(*values):
    return np.array(values, dtype=np.int64)


def verify_of(size, num_nodes):
    ids, links = np.zeros(size * num_nodes, dtype=np.int64), np.zeros((size, num_nodes), dtype=np.int64)
    mask = np.ones(size * num_nodes * num_nodes, dtype=np.bool_)
    return VerifyInput(ids, links, links, links, ids, mask, ids, np.zeros(size, dtype=np.int64), num_nodes)


def idle(width):
    nothing = i64()
    return ForwardBatch(
        ForwardMode.IDLE,
        input_ids=nothing,
        req_pool_indices=nothing,
        seq_lens=nothing,
        positions=nothing,
        out_cache_loc=nothing,
        seq_lens_cpu=(),
        seq_lens_sum=0,
        num_tokens_per_req=width,
    )


@pytest.mark.parametrize(
    ("requests", "mode", "num_tokens", "buffer_len"),
    [
        ([3, 0], PaddingMode.MAX_LEN, (12, 12), 24),
        ([3, 0, 0, 0], PaddingMode.SUM_LEN, (12, 0, 0, 0), 12),
        ([0, 0], PaddingMode.MAX_LEN, (0, 0), 0),
        ([3, 3, 0, 0], PaddingMode.MAX_LEN, (12, 12, 12, 12), 48),
    ],
)
def test_d9_four_nodes_a_request(requests, mode, num_tokens, buffer_len):
    phase = verify_of(3, 4)
    tokens, for_logprob = get_spec_adjusted_global_num_tokens(phase, requests, requests)
    plan = plan_mlp_sync_batch(tokens, phase.num_tokens_per_req)
    assert tokens == for_logprob
    assert (plan.mode, plan.num_tokens, plan.buffer_len) == (mode, num_tokens, buffer_len)


def test_d9_an_idle_rank_runs_three_requests_of_padding():
    padded = pad_inputs_to_size(idle(4), 12)
    for name in ("input_ids", "positions", "out_cache_loc"):
        assert getattr(padded, name).tolist() == [0] * 12
    assert (padded.req_pool_indices.tolist(), padded.seq_lens.tolist()) == ([0] * 3, [1] * 3)
    assert (padded.seq_lens_cpu, padded.seq_lens_sum, padded.num_live_tokens) == ((1, 1, 1), 3, 0)
    trimmed, output = post_forward_mlp_sync_batch(padded, idle(4), ForwardOutput(np.ones((12, 2)), np.ones((12, 3))))
    assert trimmed.seq_lens_sum == trimmed.num_requests == 0
    assert (output.logits.shape, output.hidden_states.shape) == ((0, 2), (0, 3))


def test_d9_an_idle_rank_runs_nothing_where_every_rank_has_its_own():
    padded = pad_inputs_to_size(idle(4), 0)
    assert (padded.num_tokens, padded.num_requests) == (0, 0)


def test_d9_rows_are_those_of_whole_requests():
    """Engines round 5 rows up to the 6 that a group of two shares, from which six nodes a request would follow."""
    assert plan_mlp_sync_batch([5], 5, attn_tp_size=2).num_tokens == (10,)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([], 4), Reason.SCALAR_OUT_OF_RANGE),
        (([4], 4, 0), Reason.SCALAR_OUT_OF_RANGE),
        (([4], 4, 1, 0), Reason.SCALAR_OUT_OF_RANGE),
        (([0], 0), Reason.SCALAR_OUT_OF_RANGE),
        (([4, -4], 4), Reason.COUNT_OUT_OF_RANGE),
        (([4, 6], 4), Reason.NOT_DIVISIBLE),
    ],
)
def test_plans_of_nothing_sensible_are_refused(arguments, reason):
    with pytest.raises(SpecRejection) as caught:
        plan_mlp_sync_batch(*arguments)
    assert caught.value.reason is reason


def test_fields_of_other_lengths_are_refused():
    with pytest.raises(SpecRejection) as caught:
        ForwardBatch(ForwardMode.DECODE, i64(1, 2), i64(3), i64(4), seq_lens_cpu=(4, 5))
    because = "because it has one entry a request"
    assert (
        str(caught.value) == f"INCONSISTENT_LENGTHS: ForwardBatch.seq_lens_cpu length is 2, but should be 1, {because}"
    )


def test_fields_that_are_padded_are_fields():
    assert {field.name for field in fields(ForwardBatch)} > FIELDS.keys()


def test_arrays_of_torch_are_padded_with_a_function_of_theirs():
    def pad(values, axis, count, fill):
        widths = [0, 0] * (values.ndim - 1 - axis) + [0, count]
        return torch.nn.functional.pad(values, widths, value=fill)

    batch = ForwardBatch(
        ForwardMode.TARGET_VERIFY,
        torch.tensor([5, 6]),
        torch.tensor([3]),
        torch.tensor([9]),
        mrope_positions=torch.tensor([[1, 2], [3, 4], [5, 6]]),
        num_tokens_per_req=2,
    )
    padded = pad_inputs_to_size(batch, 4, pad=pad)
    assert padded.mrope_positions.tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [5, 6, 0, 0]]
    assert (padded.seq_lens.tolist(), padded.req_pool_indices.tolist()) == ([9, 1], [3, 0])


@pytest.mark.parametrize("lengths", [i64(9, 8, 3), torch.tensor([9, 8, 3])])
def test_lengths_of_the_device_stay_there(lengths):
    lens = get_draft_extend_lens(lengths, None, 4)
    assert type(lens.prefix_lens) is type(lens.extend_lens) is type(lengths)
    assert (lens.prefix_lens.tolist(), lens.extend_lens.tolist()) == ([9, 8, 3], [4, 4, 4])
    assert str(lens.prefix_lens.dtype).endswith("int32")
    assert (lens.extend_lens_cpu, lens.forward_lens_cpu, lens.forward_lens_sum) == ((4, 4, 4), None, None)
    known = get_draft_extend_lens(lengths, (9, 8, 3), 4)
    assert known == ExtendLens((9, 8, 3), (4, 4, 4), (4, 4, 4), (13, 12, 7), 36 - 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ((9,), i64(4), (4,), (13,), 13),
        (i64(9), (4,), (4,), None, None),
        (i64(9), i64(4), (4,), (13,), 13),
        ((9,), (4, 4), (4, 4), (13,), 13),
        ((9,), (4,), (), (13,), 13),
    ],
)
def test_lengths_of_two_places_are_refused(arguments):
    with pytest.raises(SpecRejection) as caught:
        ExtendLens(*arguments)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_extends_of_nothing_sensible_are_refused():
    for arguments, reason in (
        ((i64(9), None, 0), Reason.SCALAR_OUT_OF_RANGE),
        ((i64(9), (9, 8), 4), Reason.INCONSISTENT_LENGTHS),
    ):
        with pytest.raises(SpecRejection) as caught:
            get_draft_extend_lens(*arguments)
        assert caught.value.reason is reason
