"""K.5: where a paged draft lies, what it copies, and what it reads."""

import numpy as np
import pytest

from specsim.counts import draft_end
from tests.worked_examples.numbers import i32, i64

PAGE_SIZE, TOPK, NUM_STEPS = 4, 2, 3
SEQ_LENS = [9, 8]
ROWS = [
    [0] * 16,
    [*range(4, 16), 24, 25, 26, 27],
    [*range(16, 24), *range(28, 36)],
]
SLOTS = [13, 14, 15, 25, 26, 27, 28, 29, 30, 32, 33, 34]
DRAFT = {
    "req_pool_indices": i64([1, 2]),
    "req_to_token": i32(ROWS),
    "seq_lens": i64(SEQ_LENS),
    "topk": TOPK,
    "num_steps": NUM_STEPS,
    "page_size": PAGE_SIZE,
}


def test_k5_slots_and_copies(computes):
    computes(
        "assign_draft_cache_locs",
        {**DRAFT, "num_copies": 1},
        {"out_cache_loc": i64(SLOTS), "source_slots": i64([12]), "target_slots": i64([24])},
    )


def test_k5_what_a_beam_reads(operations):
    got = operations.generate_draft_decode_kv_indices(**DRAFT, positions=i64([9, 9, 8, 8]))
    assert got.kv_indptr[:2].tolist() == [[0, 10, 20, 29, 38], [0, 11, 22, 32, 42]]
    assert got.kv_indices[1, 11:22].tolist() == [*range(4, 13), 25, 26]
    assert got.kv_indices[0, :38].tolist() == [
        *(*range(4, 13), 13, *range(4, 13), 25),
        *(*range(16, 24), 28, *range(16, 24), 32),
    ]


def test_k5_the_same_in_pages(operations):
    got = operations.draft_decode_cascade_metadata(**DRAFT, max_prefix_len=9)
    assert (got.cache_seqlens.tolist(), got.cu_seqlens_q.tolist()) == ([8, 8], [0, 2, 4])
    assert got.page_table.tolist() == [[1, 2], [4, 5]]
    assert got.expand_cache_seqlens[1].tolist() == [3, 3, 2, 2]
    assert got.expand_page_table[:, 0].tolist() == [3, 6, 7, 8]


@pytest.mark.parametrize(
    ("length", "num_steps", "last", "pages_per_beam", "reached"),
    [
        (9, 3, 1, 1, 16),
        (8, 3, 0, 1, 16),
        (9, 5, 1, 2, 24),
        (11, 2, 3, 2, 24),
        (8, 4, 0, 1, 16),
        (8, 5, 0, 2, 24),
        (1, 1, 1, 1, 8),
    ],
)
def test_k5_these_and_other_sizes(length, num_steps, last, pages_per_beam, reached, computes):
    base, num_copies = length - last, last
    rows = i32(np.stack([np.zeros(reached), np.arange(reached) + 100]))
    own = [base + beam * pages_per_beam * PAGE_SIZE + last + step for beam in range(TOPK) for step in range(num_steps)]
    tail = list(range(base, length))
    arguments = {
        "req_pool_indices": i64([1]),
        "req_to_token": rows,
        "seq_lens": i64([length]),
        "topk": TOPK,
        "num_steps": num_steps,
        "page_size": PAGE_SIZE,
        "num_copies": num_copies,
    }
    expected = {
        "out_cache_loc": i64(own) + 100,
        "source_slots": i64(tail) + 100,
        "target_slots": i64(tail) + pages_per_beam * PAGE_SIZE + 100,
    }
    assert base + TOPK * pages_per_beam * PAGE_SIZE == reached == draft_end(length, TOPK, num_steps, PAGE_SIZE)
    computes("assign_draft_cache_locs", arguments, expected)
