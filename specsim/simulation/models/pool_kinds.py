"""Kinds of KV pools that a toy model can have, and how each stores what the forwards write and read.

A forward knows two tags of four words for each slot and layer, one for K and one for V. Every kind stores them so that
each byte of each component goes into what is read back: what a move leaves out changes what the model says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK, digest_rows, mix_array
from specsim.simulation.models.description import (
    KVComponent,
    Layout,
    Side,
    StateComponent,
)

TAG_WORDS = 4
INDEXER_KEY_BYTES = INDEXER_GROUP
"""Bytes of an indexer key of a toy model: one group, so that a slot has one scale."""

CONVOLUTION_WIDTH = 4
"""Tokens that a convolution state remembers, as many as a context word has."""

RECURRENT, CONVOLUTION = "recurrent", "convolution"
KEYS, VALUES = "keys", "values"
SWA_KEYS, SWA_VALUES = "swa_keys", "swa_values"
SWA_COMPONENT = 1 << 16
"""What the keys of a layer with a sliding window say that they are; its values say one more."""


class PoolKind(StrEnum):
    """What the KV pool of one side is made of."""

    MHA = "mha"
    MLA = "mla"
    DSA = "dsa"
    QUANTISED = "quantised"
    HYBRID = "hybrid"
    ZERO_LAYER = "zero-layer"
    NO_KV = "no-kv"
    SWA = "swa"
    OTHER = "other"


RECURRENT_KINDS = frozenset({PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV})
"""Kinds whose side has recurrent and convolution state, which only a target can have."""

KINDS_WITHOUT_KV = frozenset({PoolKind.ZERO_LAYER, PoolKind.NO_KV})
"""Kinds whose side keeps nothing by slot: recurrent state is all it has."""

DRAFT_KINDS = tuple(kind for kind in PoolKind if kind not in RECURRENT_KINDS and kind is not PoolKind.SWA)
"""Kinds that a draft can have."""

Words = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One component of a kind: as a ``KVComponent`` says, whatever the side and the number of layers."""

    name: str
    row_shape: tuple[int, ...]
    dtype: str
    layout: Layout = Layout.SLOTS


@dataclass(frozen=True)
class Form:
    """How a kind stores the tags of a layer.

    Parameters
    ----------
    parts : tuple of Part
        Its components.
    read : callable
        Takes the buffers of a layer, 0 for K or 1 for V, and slots; returns int64 [slot, 4].
    write : callable
        Takes the same and tags; K is written before V.
    is_plain : bool
        Whether the two tags lie in buffers of their own, as they are.
    """

    parts: tuple[Part, ...]
    read: Callable[[Sequence[Array], int, Words], Words]
    write: Callable[[Sequence[Array], int, Words, Words], None]
    is_plain: bool = False


def kv_components(kind: PoolKind, side: Side, num_layers: int) -> tuple[KVComponent, ...]:
    """Return what a side of a kind declares."""
    if kind is PoolKind.NO_KV:
        return ()
    count = 0 if kind is PoolKind.ZERO_LAYER else num_layers
    return tuple(
        KVComponent(part.name, part.row_shape, part.dtype, count, side, part.layout) for part in FORMS[kind].parts
    )


def swa_components(window: int) -> tuple[KVComponent, ...]:
    """Return what one layer of a target declares that sees a sliding window; nothing without a window."""
    names = (SWA_KEYS, SWA_VALUES) if window else ()
    return tuple(KVComponent(name, (TAG_WORDS,), "int64", 1, Side.TARGET, window=window) for name in names)


def state_components(kind: PoolKind, num_layers: int) -> tuple[StateComponent, ...]:
    """Return the recurrent state that a target of a kind declares: a word a layer, and the last tokens."""
    if kind not in RECURRENT_KINDS:
        return ()
    return (
        StateComponent(RECURRENT, (1,), "int64", num_layers),
        StateComponent(CONVOLUTION, (CONVOLUTION_WIDTH,), "int64", 1),
    )


def tags_of(kind: PoolKind, buffers: Sequence[Array], slots: Words) -> list[Words]:
    """Return the tags in some slots of a side, int64 [slot, 4], K and V of each layer in turn.

    ``buffers`` are those of all components, layer by layer, as a worker tells its state.
    """
    form, count = FORMS[kind], len(FORMS[kind].parts)
    layers = [buffers[first : first + count] for first in range(0, len(buffers), max(count, 1))]
    return [form.read(layer, which, slots) for layer in layers for which in (0, 1)]


def _read_apart(buffers: Sequence[Array], which: int, slots: Words) -> Words:
    tags: Words = buffers[which][slots]
    return tags


def _write_apart(buffers: Sequence[Array], which: int, slots: Words, tags: Words) -> None:
    buffers[which][slots] = tags


def _read_half(buffers: Sequence[Array], which: int, slots: Words) -> Words:
    tags: Words = buffers[0][slots, which * TAG_WORDS : (which + 1) * TAG_WORDS]
    return tags


def _write_half(buffers: Sequence[Array], which: int, slots: Words, tags: Words) -> None:
    buffers[0][slots, which * TAG_WORDS : (which + 1) * TAG_WORDS] = tags


def _read_beside_indexer(buffers: Sequence[Array], which: int, slots: Words) -> Words:
    """Return a half of the row; the context of V lacks what the indexer's entry adds up to."""
    tags = _read_half(buffers, which, slots)
    if which == 1:
        tags[:, 2] = (tags[:, 2] + indexer_entries(buffers[1], slots).sum(axis=1)) & MASK
    return tags


def _write_beside_indexer(buffers: Sequence[Array], which: int, slots: Words, tags: Words) -> None:
    """Write K with an indexer entry that is made of it, or V without what that entry adds up to."""
    if which == 0:
        _write_half(buffers, which, slots, tags)
        num_words = (INDEXER_KEY_BYTES + INDEXER_SCALE_BYTES) // 4
        entries = mix_array(digest_rows(tags)[:, None] + np.arange(num_words))
        _write_indexer_entries(buffers[1], slots, entries)
        return
    rest = tags.copy()
    rest[:, 2] = (tags[:, 2] - indexer_entries(buffers[1], slots).sum(axis=1)) & MASK
    _write_half(buffers, which, slots, rest)


def indexer_entries(buffer: Array, slots: Words) -> Words:
    """Return key and scale of some slots as words, int64 [slot, 33]."""
    keys, scales = _indexer_places(slots)
    entries = np.concatenate(
        [buffer[keys[0][:, None], keys[1]], buffer[scales[0][:, None], scales[1]]], axis=1, dtype=np.uint8
    )
    return entries.view("<u4").astype(np.int64)


def _write_indexer_entries(buffer: Array, slots: Words, entries: Words) -> None:
    written = np.ascontiguousarray(entries.astype("<u4")).view(np.uint8)
    keys, scales = _indexer_places(slots)
    buffer[keys[0][:, None], keys[1]] = written[:, :INDEXER_KEY_BYTES]
    buffer[scales[0][:, None], scales[1]] = written[:, INDEXER_KEY_BYTES:]


def _indexer_places(slots: Words) -> tuple[tuple[Words, Words], tuple[Words, Words]]:
    """Return page and bytes of the key of each slot, and of its scale."""
    page, offset = np.divmod(slots, INDEXER_PAGE_KEYS)
    key = offset[:, None] * INDEXER_KEY_BYTES + np.arange(INDEXER_KEY_BYTES)
    first_scale = INDEXER_PAGE_KEYS * INDEXER_KEY_BYTES
    scale = first_scale + offset[:, None] * INDEXER_SCALE_BYTES + np.arange(INDEXER_SCALE_BYTES)
    return (page, key), (page, scale)


def _read_scaled(buffers: Sequence[Array], which: int, slots: Words) -> Words:
    """Return what data and scale of each word come to."""
    words = np.ascontiguousarray(buffers[which][slots]).view("<u4").astype(np.int64)
    tags: Words = (words + buffers[2 + which][slots].astype(np.int64) * GOLDEN) & MASK
    return tags


def _write_scaled(buffers: Sequence[Array], which: int, slots: Words, tags: Words) -> None:
    """Write a scale for each word, a byte of the tag's digest, and the data that is left."""
    scales = (digest_rows(tags)[:, None] >> (8 * np.arange(TAG_WORDS))) & 0xFF
    words = ((tags - scales * GOLDEN) & MASK).astype("<u4")
    buffers[which][slots] = np.ascontiguousarray(words).view(np.uint8)
    buffers[2 + which][slots] = scales


def _read_upside_down(buffers: Sequence[Array], which: int, slots: Words) -> Words:
    return _read_half(buffers, which, len(buffers[0]) - 1 - slots)


def _write_upside_down(buffers: Sequence[Array], which: int, slots: Words, tags: Words) -> None:
    _write_half(buffers, which, len(buffers[0]) - 1 - slots, tags)


_APART = Form(
    (Part(KEYS, (TAG_WORDS,), "int64"), Part(VALUES, (TAG_WORDS,), "int64")),
    _read_apart,
    _write_apart,
    is_plain=True,
)
_LATENT = Part("latent_and_rope", (2 * TAG_WORDS,), "int64")

FORMS = {
    PoolKind.MHA: _APART,
    PoolKind.HYBRID: _APART,
    PoolKind.SWA: _APART,
    PoolKind.ZERO_LAYER: _APART,
    PoolKind.NO_KV: Form((), _read_apart, _write_apart),
    PoolKind.MLA: Form((_LATENT,), _read_half, _write_half),
    PoolKind.DSA: Form(
        (
            _LATENT,
            Part(
                "indexer",
                (INDEXER_PAGE_KEYS * (INDEXER_KEY_BYTES + INDEXER_SCALE_BYTES),),
                "uint8",
                Layout.INDEXER_PAGES,
            ),
        ),
        _read_beside_indexer,
        _write_beside_indexer,
    ),
    PoolKind.QUANTISED: Form(
        (
            Part("key_data", (4 * TAG_WORDS,), "uint8"),
            Part("value_data", (4 * TAG_WORDS,), "uint8"),
            Part("key_scales", (TAG_WORDS,), "uint8"),
            Part("value_scales", (TAG_WORDS,), "uint8"),
        ),
        _read_scaled,
        _write_scaled,
    ),
    PoolKind.OTHER: Form(
        (Part("entries", (2 * TAG_WORDS,), "int64", Layout.UNKNOWN),), _read_upside_down, _write_upside_down
    ),
}
"""How each kind stores tags."""
