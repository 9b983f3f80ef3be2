"""K.5 by steps, K.7, K.8 and K.9: slots of a draft, a tree from its matrix, metadata, an extend and its bucket."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from specsim.gpu.worker.carried import BatchRows
from specsim.gpu.worker.graphs import bucket_for, bucket_sizes
from specsim.gpu.worker.stages import Stages, padding_of
from specsim.phases import ForwardBatch, ForwardMode, ForwardOutput, pad_inputs_to_size, post_forward_mlp_sync_batch
from tests.worked_examples.numbers import i32, i64, squares


def test_k5_slots_by_step(computes):
    out_cache_loc = i64([13, 14, 15, 25, 26, 27, 28, 29, 30, 32, 33, 34])
    computes(
        "per_step_draft_out_cache_loc",
        {"out_cache_loc": out_cache_loc, "topk": 2, "num_steps": 3},
        {"step_cache_loc": i64([[13, 25, 28, 32], [14, 26, 29, 33], [15, 27, 30, 34]])},
    )


def test_k7_reconstruction(computes):
    mask = squares([["100000", "110000", "101000", "110100", "110110", "100001"]])
    computes(
        "reconstruct_indices_from_tree_mask",
        {"tree_mask": mask, "seq_lens": i64([20])},
        {
            "positions": i64([20, 21, 21, 22, 23, 21]),
            "retrieve_index": i64([[0, 1, 2, 3, 4, 5]]),
            "retrieve_next_token": i64([[1, 3, -1, 4, -1, -1]]),
            "retrieve_next_sibling": i64([[-1, 2, 5, -1, -1, -1]]),
        },
    )


@pytest.mark.parametrize(
    ("num_tokens", "cache_seqlens", "cu_seqlens_q", "cu_seqlens_k"),
    [
        (18, [15, 14, 9], [0, 6, 12, 18], [0, 15, 29, 38]),
        (15, [14, 13, 8], [0, 5, 10, 15], [0, 14, 27, 35]),
    ],
)
def test_k8_metadata(num_tokens, cache_seqlens, cu_seqlens_q, cu_seqlens_k, computes):
    arguments = {
        "req_pool_indices": i64([2, 4, 1]),
        "req_to_token": i32(range(5 * 16)).reshape(5, 16) + 16,
        "seq_lens": i64([9, 8, 3]),
        "num_tokens": num_tokens,
        "max_seq_len_k": 9 + num_tokens // 3,
        "page_size": 4,
    }
    expected = {
        "cache_seqlens": i32(cache_seqlens),
        "cu_seqlens_q": i32(cu_seqlens_q),
        "cu_seqlens_k": i32(cu_seqlens_k),
        "page_table": i32([[12, 13, 14, 15], [20, 21, 22, 23], [8, 9, 10, 11]]),
    }
    computes("target_verify_metadata", arguments, expected)


def test_k9_select_index(computes):
    computes(
        "prepare_for_extend_to_fill_draft_kvcache",
        {"seq_lens": i64([9, 8, 3]), "num_accepted_tokens": i32([2, 4, 1]), "num_draft_tokens": 4},
        {
            "positions": i64([9, 10, 11, 12, 8, 9, 10, 11, 3, 4, 5, 6]),
            "forward_seq_lens": i64([13, 12, 7]),
            "select_index": i64([1, 7, 8]),
        },
    )


def test_k9_three_requests_fill_a_bucket_of_four():
    buckets = bucket_sizes(8)
    assert (buckets, bucket_for(3, buckets)) == ((1, 2, 4, 8), 4)
    rows = BatchRows(torch.tensor([5, 2, 7]))
    padded = padding_of(rows, bucket_for(3, buckets))
    Stages.load(cast(Any, SimpleNamespace(_batch=padded, _deepest=None, _window=None, _loaded=dict)), rows)
    assert padded.req_pool_indices.tolist() == [5, 2, 7, 0]


@pytest.mark.parametrize(("known", "seq_lens_sum"), [((13, 12, 7), 32), (None, None)])
def test_k9_lengths_positions_and_counts_of_the_padding_row(known, seq_lens_sum):
    batch = ForwardBatch(
        ForwardMode.DRAFT_EXTEND_V2,
        input_ids=i64(range(50, 62)),
        req_pool_indices=i64([2, 4, 1]),
        seq_lens=i64([13, 12, 7]),
        positions=i64([9, 10, 11, 12, 8, 9, 10, 11, 3, 4, 5, 6]),
        out_cache_loc=i64(range(101, 113)),
        seq_lens_cpu=known,
        seq_lens_sum=seq_lens_sum,
        extend_seq_lens=i32([4, 4, 4]),
        extend_seq_lens_cpu=(4, 4, 4),
        num_accepted_drafts=i32([1, 3, 0]),
        num_accepted_tokens=i32([2, 4, 1]),
        num_tokens_per_req=4,
    )
    bucket = bucket_for(3, (1, 2, 4, 8))
    padded = pad_inputs_to_size(batch, 4 * bucket, seq_len_fill_value=1, count_fill_value=4)
    assert padded.seq_lens.tolist() == [13, 12, 7, 1]
    assert padded.req_pool_indices.tolist() == [2, 4, 1, 0]
    assert padded.out_cache_loc.tolist() == [*range(101, 113), 0, 0, 0, 0]
    assert padded.positions.tolist() == [9, 10, 11, 12, 8, 9, 10, 11, 3, 4, 5, 6, 0, 0, 0, 0]
    assert padded.num_accepted_drafts.tolist() == [1, 3, 0, 4]
    assert padded.num_accepted_tokens.tolist() == [2, 4, 1, 4]
    assert (padded.extend_seq_lens.tolist(), padded.extend_seq_lens_cpu) == ([4, 4, 4, 4], (4, 4, 4, 4))
    assert padded.seq_lens_sum == (None if seq_lens_sum is None else 33)
    rows = i64(range(16)).reshape(16, 1)
    trimmed, output = post_forward_mlp_sync_batch(padded, batch, ForwardOutput(rows, rows))
    assert trimmed == batch
    assert output.logits[i64([1, 7, 8])].reshape(-1).tolist() == [1, 7, 8]
    assert len(output.logits) == len(output.hidden_states) == 12
