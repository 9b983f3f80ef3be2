"""KV buffers with the table of addresses that one launch over all of them needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Any

import torch

from specsim.contracts.lists import ArrayTuple
from specsim.gpu.arrays import TENSORS
from specsim.gpu.launching.lists import ListIdentity, keep_identity
from specsim.rejection import Reason, SpecRejection

_WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class StripTable:
    """Every contiguous run of bytes that a slot holds in some buffer: a strip.

    A row of ``table`` is (address of slot 0, words from slot to slot, words of a slot). ``word`` is the widest integer
    that divides all of them; ``is_aligned`` says that 16 bytes do as well.
    """

    table: torch.Tensor
    num_strips: int
    most_words: int
    word: torch.dtype
    is_aligned: bool

    @property
    def facts(self) -> tuple[Any, ...]:
        """What a launch takes from it beside its entries."""
        return self.num_strips, self.most_words, self.word, self.is_aligned


class KVBuffers(ArrayTuple):
    """Every buffer of every layer, K and V in turn, with their strip table built once.

    It is a tuple of tensors whose forms and addresses are taken once. Build it before a CUDA graph is captured and pass
    it to ``move_kv_cache`` instead of a list; the addresses stay valid as long as it lives.
    """

    strips: StripTable
    identity: ListIdentity | None

    def __new__(cls, buffers: Iterable[torch.Tensor]) -> "KVBuffers":
        """Keep the buffers and build their table."""
        self = super().__new__(cls, buffers, TENSORS)
        self.strips = build_strip_table(self)
        self.identity = keep_identity(self.tensors, *self.strips.facts)
        return self

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything that has an address: the buffers and their table."""
        return *self, self.strips.table

    def stand_in(self, tensors: Sequence[torch.Tensor]) -> "KVBuffers":
        """Return buffers of the same form on other tensors, from which nothing is taken."""
        *buffers, table = tensors
        other: KVBuffers = tuple.__new__(KVBuffers, buffers)
        other.strips = replace(self.strips, table=table)
        return other


def tensors_of(arguments: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """Return arguments that are tensors or lists of tensors in one list; None where one is absent."""
    tensors: list[Any] = []
    for name in names:
        value = arguments[name]
        if isinstance(value, list | tuple):
            tensors += value.tensors if isinstance(value, KVBuffers) else value
        else:
            tensors.append(value)
    return tensors


def strips_of(kv_buffers: Sequence[torch.Tensor]) -> StripTable:
    """Return the strip table of the buffers, built now if they carry none."""
    return kv_buffers.strips if isinstance(kv_buffers, KVBuffers) else build_strip_table(kv_buffers)


def build_strip_table(kv_buffers: Sequence[torch.Tensor]) -> StripTable:
    """Bring the addresses and strides of the buffers to their device without waiting for it.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a CUDA graph is being captured, and a replay would read host memory that is gone.
    """
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="kv_buffers",
            got="a list",
            expected="KVBuffers, built before the capture",
            because="a graph cannot copy the table of addresses from the host",
        )
    strips = [strip for buffer in kv_buffers for strip in _strips(buffer)]
    divisor = gcd(_VECTOR_BYTES, *(number for strip in strips for number in strip))
    width = min(divisor, max(_WORDS))
    rows = [[address, stride // width, size // width] for address, stride, size in strips]
    table = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)
    device = kv_buffers[0].device if kv_buffers else torch.device("cpu")
    if device.type == "cuda":
        table = table.pin_memory().to(device, non_blocking=True)
    return StripTable(
        table=table,
        num_strips=len(rows),
        most_words=max((row[2] for row in rows), default=0),
        word=_WORDS[width],
        is_aligned=divisor == _VECTOR_BYTES,
    )


def words_of(rows: torch.Tensor) -> torch.Tensor:
    """View a contiguous tensor [row, ...] as [row, word], words as wide as its rows and address allow."""
    num_bytes = rows[:1].numel() * rows.element_size()
    width = gcd(max(_WORDS), num_bytes, rows.data_ptr(), rows.storage_offset() * rows.element_size())
    # NOTE: one entry is contiguous whatever its stride, but only a stride of 1 can be viewed as bytes.
    return rows.as_strided((rows.numel(),), (1,)).view(torch.uint8).view(_WORDS[width]).view(rows.shape[0], -1)


def _strips(buffer: torch.Tensor) -> Iterator[tuple[int, int, int]]:
    """Yield (address, bytes from slot to slot, bytes of a slot) of each contiguous run; none of an empty buffer."""
    if buffer.numel() == 0:
        return
    size, item = 1, buffer.element_size()
    outer: list[Any] = []
    for length, stride in zip(reversed(buffer.shape[1:]), reversed(buffer.stride()[1:]), strict=True):
        if length == 1:
            continue
        if not outer and stride == size:
            size *= length
        else:
            outer.append([place * stride for place in range(length)])
    for places in product(*outer):
        yield buffer.data_ptr() + sum(places) * item, buffer.stride(0) * item, size * item
