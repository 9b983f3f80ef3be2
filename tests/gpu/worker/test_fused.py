"""What workers launch in the place of several operations, beside these, on random batches."""

import pytest
import torch

from specsim import gpu
from specsim.counts import count_tokens
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.blocks import ON_GPU
from specsim.gpu.launching.mode import HERE, launching
from specsim.gpu.worker.fused import compact_paths, finish_paths, gather_rows, lay_out_nodes, scatter_rows
from specsim.gpu.worker.fused_drafts import choose_beams, lay_out_beams, plant_trees

NUM_ROWS = 9
WIDTHS = ((torch.int64, ()), (torch.int32, ()), (torch.float32, (3,)), (torch.bfloat16, (5,)), (torch.int64, (0,)))


def drawn(*shape, dtype=torch.int64, below=100):
    return torch.randint(0, below, shape, device=DEVICE).to(dtype)


def batch_of(num_live, num_padding):
    """Return the rows of a batch, each once but for row 0, which pads it."""
    live = torch.randperm(NUM_ROWS - 1)[:num_live] + 1
    return torch.cat([live, live.new_zeros(num_padding)]).to(DEVICE)


@pytest.fixture(params=["one program", "as on a GPU"])
def blocks(request):
    """Cut work as here, or into the many programs that a GPU runs."""
    with launching(blocks=HERE if request.param == "one program" else ON_GPU):
        yield


BATCHES = pytest.mark.parametrize(("num_live", "num_padding"), [(0, 0), (1, 0), (0, 2), (5, 3), (8, 0)])


@BATCHES
def test_rows_of_a_batch_are_read_as_one_field_after_another(num_live, num_padding, blocks):
    rows = batch_of(num_live, num_padding)
    fields = [drawn(NUM_ROWS, *shape, dtype=dtype) for dtype, shape in WIDTHS]
    entries = [torch.full((len(rows), *shape), 7, dtype=dtype, device=DEVICE) for dtype, shape in WIDTHS]
    gather_rows(rows, fields, entries)
    for field, entry in zip(fields, entries, strict=True):
        assert torch.equal(entry, field.index_select(0, rows))


@BATCHES
def test_rows_of_a_batch_are_written_but_for_the_one_that_pads_it(num_live, num_padding, blocks):
    rows = batch_of(num_live, num_padding)
    fields = [drawn(NUM_ROWS, *shape, dtype=dtype) for dtype, shape in WIDTHS]
    entries = [drawn(len(rows), *shape, dtype=dtype) for dtype, shape in WIDTHS]
    expected = [
        field.index_copy(0, rows[:num_live], entry[:num_live]) for field, entry in zip(fields, entries, strict=True)
    ]
    scatter_rows(rows, fields, entries)
    for field, kept in zip(fields, expected, strict=True):
        assert torch.equal(field, kept)


def paths_of(num_requests, num_steps, num_nodes):
    """Return output tokens of all nodes, accepted paths, and how many drafts are on each."""
    predict = drawn(num_requests * num_nodes, dtype=torch.int32)
    counts = drawn(num_requests, dtype=torch.int32, below=num_steps + 1)
    drafts = torch.rand(num_requests, num_nodes - 1, device=DEVICE).argsort(1)[:, :num_steps].sort(1).values + 1
    nodes = torch.cat([torch.zeros_like(drafts[:, :1]), drafts], 1) if num_steps else drafts.new_zeros(num_requests, 1)
    nodes = nodes + torch.arange(num_requests, device=DEVICE)[:, None] * num_nodes
    is_kept = torch.arange(num_steps + 1, device=DEVICE) <= counts[:, None]
    return predict, torch.where(is_kept, nodes, -1).int(), counts


TREES = pytest.mark.parametrize(("num_steps", "num_nodes"), [(0, 1), (2, 3), (2, 7), (5, 16)])
SIZES = pytest.mark.parametrize("num_requests", [0, 1, 5, 40])


@TREES
@SIZES
def test_paths_are_finished_as_by_one_operation_after_another(num_requests, num_steps, num_nodes, blocks):
    predict, accept_index, num_accepted_drafts = paths_of(num_requests, num_steps, num_nodes)
    out_cache_loc = drawn(num_requests * num_nodes, below=10_000)
    finished = finish_paths(predict, accept_index, num_accepted_drafts, out_cache_loc)
    counts = count_tokens(num_accepted_drafts)
    accept_tokens = gpu.gather_accept_tokens(predict, accept_index)
    expected = (
        counts,
        gpu.fill_bonus_tokens(accept_tokens, counts),
        gpu.fill_accept_out_cache_loc(accept_index, out_cache_loc),
        gpu.fill_accept_target_cache_loc(counts, out_cache_loc, num_steps),
    )
    for one, other in zip(finished, expected, strict=True):
        assert torch.equal(one, other)


HIDDEN = (None, (torch.bfloat16, (5,)), (torch.int64, (3,)), (torch.float32, (0,)))


@TREES
@SIZES
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("is_chain", [False, True])
def test_paths_are_compacted_as_by_one_operation_after_another(
    num_requests, num_steps, num_nodes, hidden, is_chain, blocks
):
    predict, accept_index, num_accepted_drafts = paths_of(num_requests, num_steps, num_nodes)
    counts, lengths = count_tokens(num_accepted_drafts), drawn(num_requests, below=50)
    states = None if hidden is None else drawn(num_requests * num_nodes, *hidden[1], dtype=hidden[0])
    got = compact_paths(predict, states, accept_index, counts, lengths, num_nodes, is_chain)

    def at_the_front(values):
        return values if is_chain or values is None else gpu.compact_accepted_to_front(values, accept_index)

    prepared = gpu.prepare_for_extend_to_fill_draft_kvcache(lengths, counts, num_nodes)
    tokens = at_the_front(predict)
    expected = (tokens.long(), tokens, at_the_front(states), *prepared, lengths + counts)
    for one, other in zip(got, expected, strict=True):
        assert one is other is None or torch.equal(one, other)


@pytest.mark.parametrize(("topk", "num_steps"), [(1, 1), (1, 3), (3, 2), (4, 5)])
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("num_requests", [0, 1, 5])
def test_beams_are_laid_out_as_by_one_operation_after_another(num_requests, topk, num_steps, page_size, blocks):
    width = 160
    rows, req_to_token = drawn(num_requests, below=NUM_ROWS), drawn(NUM_ROWS, width, dtype=torch.int32, below=1000)
    lengths = drawn(num_requests, below=width - topk * (num_steps + page_size) - page_size)
    num_copies = num_requests * (topk - 1) * (page_size - 1)
    sizes = topk, num_steps, page_size
    got = lay_out_beams(rows, req_to_token, lengths, *sizes, num_copies)
    positions = lengths.repeat_interleave(topk)
    located = gpu.assign_draft_cache_locs(rows, req_to_token, lengths, *sizes, num_copies)
    keys = gpu.generate_draft_decode_kv_indices(rows, req_to_token, lengths, positions, *sizes)
    expected = (
        positions + torch.arange(num_steps, device=DEVICE)[:, None],
        gpu.per_step_draft_out_cache_loc(located.out_cache_loc, topk, num_steps),
        located.source_slots,
        located.target_slots,
    )
    for one, other in zip(got, expected, strict=False):
        assert torch.equal(one, other)
    assert torch.equal(got.kv_indptr, keys.kv_indptr)
    for one, other, offsets in zip(got.kv_indices, keys.kv_indices, keys.kv_indptr, strict=True):
        assert torch.equal(one[: int(offsets[-1])], other[: int(offsets[-1])])


@pytest.mark.parametrize(("num_nodes", "page_size"), [(1, 1), (3, 16), (16, 4)])
@SIZES
def test_nodes_are_laid_out_as_by_one_operation_after_another(num_requests, num_nodes, page_size, blocks):
    width = 300
    rows, req_to_token = drawn(num_requests, below=NUM_ROWS), drawn(NUM_ROWS, width, dtype=torch.int32, below=1000)
    lengths = drawn(num_requests, below=width - num_nodes + 1)
    got = lay_out_nodes(rows, req_to_token, lengths, num_nodes, page_size)
    num_tokens = num_requests * num_nodes
    slots = gpu.assign_extend_cache_locs(rows, req_to_token, lengths, lengths + num_nodes, num_tokens)
    metadata = gpu.target_verify_metadata(rows, req_to_token, lengths, num_tokens, width, page_size)
    expected = slots, metadata.cache_seqlens, metadata.cu_seqlens_q, metadata.page_table
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("topk", "num_columns"), [(1, 5), (3, 3), (4, 40), (4, 1500), (7, 50), (3, 9000)])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("num_requests", "is_hot"), [(0, False), (1, True), (3, False)])
def test_beams_are_chosen_as_by_one_operation_after_another(
    num_requests, topk, num_columns, is_first, hidden, is_hot, blocks
):
    """Entries repeat, so that ties are ranked."""
    num_branches = num_requests * (1 if is_first else topk)
    values = drawn(num_branches, 2 * num_columns, below=8)[:, ::2] / 8
    values[:, ::3] = torch.rand_like(values[:, ::3])
    hot = drawn(num_columns, below=10_000) if is_hot else None
    states = None if hidden is None else drawn(num_branches, *hidden[1], dtype=hidden[0])
    scores = None if is_first else drawn(num_requests, topk, below=4) / 4
    step_index = 0 if is_first else 2
    got = choose_beams(step_index, values, hot, states, scores, topk)
    topk_p, topk_index = gpu.fast_topk(values, topk)
    topk_index = topk_index if hot is None else gpu.map_hot_tokens(topk_index, hot)
    expected = gpu.select_top_k_tokens(step_index, topk_p, topk_index, states, scores, topk)
    assert got._fields == expected._fields
    for one, other in zip(got, expected, strict=True):
        assert one is other is None or torch.equal(one, other)


@pytest.mark.parametrize(
    ("topk", "num_steps", "num_nodes"), [(2, 1, 2), (2, 1, 3), (3, 2, 5), (3, 2, 13), (4, 5, 16), (4, 5, 64)]
)
@pytest.mark.parametrize("num_requests", [0, 1, 4])
def test_trees_are_planted_as_by_one_operation_after_another(num_requests, topk, num_steps, num_nodes, blocks):
    """Scores repeat, so that ties are pruned; every beam has a parent that is a candidate of the level before."""
    scores, tokens, parents = [], [], []
    for step in range(num_steps):
        branches = topk if step else 1
        scores.append(drawn(num_requests, branches, topk, below=6) / 8)
        tokens.append(drawn(num_requests, branches * topk, below=500))
        first_id = topk + topk * topk * (step - 1)
        beams = torch.rand(num_requests, topk * topk, device=DEVICE).argsort(1)[:, :topk] + first_id
        parents.append(beams if step else torch.arange(-1, topk, device=DEVICE).repeat(num_requests, 1))
    bonus_tokens, lengths = drawn(num_requests, dtype=torch.int32), drawn(num_requests, below=50)
    got = plant_trees(bonus_tokens, scores, tokens, parents, lengths, topk, num_nodes)
    kept = gpu.organize_draft_results(scores, tokens, parents, num_nodes)
    expected = gpu.build_tree(bonus_tokens, *kept, lengths, topk, num_steps, num_nodes)
    assert got._fields == expected._fields
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)
