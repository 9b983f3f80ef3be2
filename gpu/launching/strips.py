"""Strips: every contiguous run of bytes that a place of some buffer holds, as a table that kernels follow.

Two numbers name a place. Of plain buffers both are the slot and pages have one, of an indexer they are a page and a
slot of it, of states after nodes a request and a node.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any

import torch

from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.rejection import Reason, SpecRejection

WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
"""Integers by their bytes."""

_VECTOR_BYTES = 16

Strip = tuple[int, int, int, int]
"""Address, bytes from one value of the first number to the next, the same of the second, and bytes."""


@dataclass(frozen=True)
class Layout:
    """How places of a buffer are distinguished.

    Parameters
    ----------
    num_leading : int
        Axes before those of a place.
    head_dim : int or None
        Bytes of a key, of an indexer.
    """

    num_leading: int = 1
    head_dim: int | None = None

    @property
    def page_slots(self) -> int:
        """Slots that share a value of the first number."""
        return 1 if self.head_dim is None else INDEXER_PAGE_KEYS


SLOTS, STEPS = Layout(), Layout(num_leading=2)


@dataclass(frozen=True)
class StripTable:
    """A row of ``table`` is a ``Strip`` in words: the widest integers that divide all of them.

    ``is_aligned`` says that 16 bytes divide them as well, ``is_whole`` that each buffer is one strip.
    """

    table: torch.Tensor
    num_strips: int
    most_words: int
    word: torch.dtype
    is_aligned: bool
    is_whole: bool
    layout: Layout

    @property
    def facts(self) -> tuple[Any, ...]:
        """What a launch takes from it beside its entries."""
        return self.num_strips, self.most_words, self.word, self.is_aligned, self.is_whole, self.layout


def build_strip_table(buffers: Sequence[torch.Tensor], layout: Layout = SLOTS) -> StripTable:
    """Bring the addresses and strides of buffers to their device without waiting for it.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a CUDA graph is being captured, and a replay would read host memory that is gone.
    """
    strips = [list(_strips(buffer, layout)) for buffer in buffers]
    return _table(buffers, strips, layout)


def build_paired_tables(states: Sequence[torch.Tensor], steps: Sequence[torch.Tensor]) -> tuple[StripTable, StripTable]:
    """Bring both to their device, cut alike: strip by strip one is copied to the other."""
    cut = [list(_cut((one, 1), (other, 2))) for one, other in zip(states, steps, strict=True)]
    tables = [
        _table(buffers, [[pair[side] for pair in pairs] for pairs in cut], layout)
        for side, (buffers, layout) in enumerate(((states, SLOTS), (steps, STEPS)))
    ]
    return tables[0], tables[1]


def _table(buffers: Sequence[torch.Tensor], strips_of_buffers: Sequence[list[Strip]], layout: Layout) -> StripTable:
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="buffers",
            got="a list",
            expected="a table that was built before the capture, such as KVBuffers has",
            because="a graph cannot copy the table of addresses from the host",
        )
    strips = [strip for of_buffer in strips_of_buffers for strip in of_buffer]
    divisor = gcd(_VECTOR_BYTES, *(number for strip in strips for number in strip))
    width = min(divisor, max(WORDS))
    rows = [[address, *(number // width for number in numbers)] for address, *numbers in strips]
    table = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)
    device = buffers[0].device if buffers else torch.device("cpu")
    if device.type == "cuda":
        table = table.pin_memory().to(device, non_blocking=True)
    return StripTable(
        table=table,
        num_strips=len(rows),
        most_words=max((row[3] for row in rows), default=0),
        word=WORDS[width],
        is_aligned=divisor == _VECTOR_BYTES,
        is_whole=all(len(of_buffer) == 1 for of_buffer in strips_of_buffers),
        layout=layout,
    )


def _strips(buffer: torch.Tensor, layout: Layout) -> Iterator[Strip]:
    """Yield the strips of one buffer; none of an empty one."""
    if layout.head_dim is not None:
        yield from _strips_of_pages(buffer, layout.head_dim)
        return
    for (strip,) in _cut((buffer, layout.num_leading)):
        yield strip


def _cut(*buffers: tuple[torch.Tensor, int]) -> Iterator[tuple[Strip, ...]]:
    """Cut buffers, each with its number of leading axes and all of equal trailing ones, where one is not contiguous."""
    if any(buffer.numel() == 0 for buffer, _ in buffers):
        return
    first, num_leading = buffers[0]
    size, item = 1, first.element_size()
    outer: list[Iterable[tuple[int, ...]]] = []
    trailing = zip(*(buffer.stride()[leading:] for buffer, leading in buffers), strict=True)
    for length, strides in reversed([*zip(first.shape[num_leading:], trailing, strict=True)]):
        if length == 1:
            continue
        if not outer and all(stride == size for stride in strides):
            size *= length
        else:
            outer.append([tuple(place * stride for stride in strides) for place in range(length)])
    leading_bytes = [tuple(stride * item for stride in buffer.stride()[:leading]) for buffer, leading in buffers]
    for places in product(*outer):
        offsets = [sum(place[side] for place in places) * item for side in range(len(buffers))]
        yield tuple(
            (buffer.data_ptr() + offset, strides[0], strides[-1], size * item)
            for (buffer, _), offset, strides in zip(buffers, offsets, leading_bytes, strict=True)
        )


def _strips_of_pages(buffer: torch.Tensor, key_bytes: int) -> Iterator[Strip]:
    """Yield where keys lie in their pages, and where scales do; byte by byte where those do not lie side by side."""
    if buffer.numel() == 0:
        return
    from_page, step = buffer.stride()
    start, scale_bytes = buffer.data_ptr(), INDEXER_SCALE_BYTES * key_bytes // INDEXER_GROUP
    for first, size in ((0, key_bytes), (INDEXER_PAGE_KEYS * key_bytes, scale_bytes)):
        if step == 1:
            yield start + first, from_page, size, size
        else:
            for byte in range(size):
                yield start + (first + byte) * step, from_page, size * step, 1
