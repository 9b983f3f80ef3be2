"""KV buffers with the table of addresses that one launch over all of them needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any, TypeGuard

import torch

from specsim.contracts.keys import ListIdentity, identify_list_by
from specsim.contracts.lists import ArrayTuple
from specsim.gpu.arrays import TENSORS
from specsim.gpu.launching.strips import SLOTS, STEPS, WORDS, Layout, StripTable, build_strip_table

MOST_KEPT = 1024
"""Forms of buffers that are kept; what is dropped is another form when it is met again."""


class KeptForm:
    """Stands for the form of buffers that never change; equal forms are one object."""


_KEPT: dict[tuple[Any, ...], KeptForm] = {}


class KVBuffers(ArrayTuple):
    """Every buffer of every layer, K and V in turn, with their strip table built once.

    It is a tuple of tensors whose forms and addresses are taken once. Build it before a CUDA graph is captured and pass
    it to ``move_kv_cache`` instead of a list; the addresses stay valid as long as it lives. Recurrent states are such
    buffers as well.
    """

    strips: StripTable

    def __new__(cls, buffers: Iterable[torch.Tensor], layout: Layout = SLOTS) -> "KVBuffers":
        """Keep the buffers and build their table."""
        self = super().__new__(cls, buffers, TENSORS)
        self.strips = build_strip_table(self, layout)
        self.identity = _identify(self.tensors, self.strips.facts)
        return self

    @classmethod
    def of_indexer(cls, buffers: Iterable[torch.Tensor], head_dim: int) -> "KVBuffers":
        """Keep the buffers of an indexer whose keys have so many bytes, for ``move_indexer_cache``."""
        return cls(buffers, Layout(head_dim=head_dim))

    @classmethod
    def of_steps(cls, buffers: Iterable[torch.Tensor]) -> "KVBuffers":
        """Keep the buffers [place, node, ...] of states after every node, for ``commit_recurrent_states``."""
        return cls(buffers, STEPS)

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


def _identify(tensors: Sequence[torch.Tensor], facts: tuple[Any, ...]) -> ListIdentity | None:
    """Identify a list that never changes, and facts about it, by one object; None where it has no identity."""
    try:
        form, *others = identify_list_by(TENSORS)(tensors)
    except TypeError:
        return None
    if len(_KEPT) >= MOST_KEPT:
        _KEPT.clear()
    return _KEPT.setdefault((*form, *facts), KeptForm()), *others


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


def strips_of(buffers: Sequence[torch.Tensor], layout: Layout = SLOTS) -> StripTable:
    """Return the strip table of the buffers, built now if they carry none of that layout."""
    return buffers.strips if has_strips(buffers, layout) else build_strip_table(buffers, layout)


def has_strips(buffers: Sequence[torch.Tensor], layout: Layout) -> TypeGuard[KVBuffers]:
    """Return whether buffers carry a strip table of a layout."""
    return isinstance(buffers, KVBuffers) and buffers.strips.layout == layout


def words_of(rows: torch.Tensor) -> torch.Tensor:
    """View a contiguous tensor [row, ...] as [row, word], words as wide as its rows and address allow."""
    num_bytes = rows[:1].numel() * rows.element_size()
    width = gcd(max(WORDS), num_bytes, rows.data_ptr(), rows.storage_offset() * rows.element_size())
    # NOTE: one entry is contiguous whatever its stride, but only a stride of 1 can be viewed as bytes.
    return rows.as_strided((rows.numel(),), (1,)).view(torch.uint8).view(WORDS[width]).view(rows.shape[0], -1)
