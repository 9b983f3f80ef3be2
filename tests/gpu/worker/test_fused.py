"""What workers launch in the place of several operations, beside these, on random batches."""

import pytest
import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.fused import gather_rows, scatter_rows

NUM_ROWS = 9
WIDTHS = ((torch.int64, ()), (torch.int32, ()), (torch.float32, (3,)), (torch.bfloat16, (5,)), (torch.int64, (0,)))


def drawn(*shape, dtype=torch.int64, below=100):
    return torch.randint(0, below, shape, device=DEVICE).to(dtype)


def batch_of(num_live, num_padding):
    """Return the rows of a batch, each once but for row 0, which pads it."""
    return torch.cat([torch.randperm(NUM_ROWS - 1)[:num_live] + 1, torch.zeros(num_padding, dtype=torch.int64)]).to(
        DEVICE
    )


BATCHES = pytest.mark.parametrize(("num_live", "num_padding"), [(0, 0), (1, 0), (0, 2), (5, 3), (8, 0)])


@BATCHES
def test_rows_of_a_batch_are_read_as_one_field_after_another(num_live, num_padding):
    rows = batch_of(num_live, num_padding)
    fields = [drawn(NUM_ROWS, *shape, dtype=dtype) for dtype, shape in WIDTHS]
    entries = [torch.full((len(rows), *shape), 7, dtype=dtype, device=DEVICE) for dtype, shape in WIDTHS]
    gather_rows(rows, fields, entries)
    for field, entry in zip(fields, entries, strict=True):
        assert torch.equal(entry, field.index_select(0, rows))


@BATCHES
def test_rows_of_a_batch_are_written_but_for_the_one_that_pads_it(num_live, num_padding):
    rows = batch_of(num_live, num_padding)
    fields = [drawn(NUM_ROWS, *shape, dtype=dtype) for dtype, shape in WIDTHS]
    entries = [drawn(len(rows), *shape, dtype=dtype) for dtype, shape in WIDTHS]
    expected = [
        field.index_copy(0, rows[:num_live], entry[:num_live]) for field, entry in zip(fields, entries, strict=True)
    ]
    scatter_rows(rows, fields, entries)
    for field, kept in zip(fields, expected, strict=True):
        assert torch.equal(field, kept)
