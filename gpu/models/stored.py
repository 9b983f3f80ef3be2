"""Tags after the form that stores them, on the device: the whole pool is read out before a forward that wants arrays.

Everything here keeps to shapes that the host knows, so that it can be captured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim.config import INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.moving import layer_by_layer
from specsim.simulation.models.pool_kinds import FORMS, INDEXER_KEY_BYTES, TAG_WORDS, PoolKind

KV = Mapping[str, Sequence[Tensor]]
WORD_BYTES = 4
INDEXER_WORDS = (INDEXER_KEY_BYTES + INDEXER_SCALE_BYTES) // WORD_BYTES


@dataclass(frozen=True)
class TensorForm:
    """How a kind stores the tags of a layer, as ``specsim.simulation.models.pool_kinds.Form`` says it of arrays.

    ``read`` takes the buffers of a layer and returns K and V, int64 [slot, 4]; ``write`` takes the buffers, slots, and
    K and V of these slots. Without ``write`` what is read is memory of the buffers.
    """

    read: Callable[[Sequence[Tensor]], tuple[Tensor, Tensor]]
    write: Callable[[Sequence[Tensor], Tensor, Tensor, Tensor], None] | None = None


def unpacked(kind: PoolKind, kv: KV) -> list[Tensor]:
    """Return the tags of every slot, K and V of each layer in turn."""
    if FORMS[kind].is_plain:
        return layer_by_layer(kv)
    return [tags for buffers in _layers(kind, kv) for tags in _FORMS[kind].read(buffers)]


def write_back(kind: PoolKind, kv: KV, tags: Sequence[Tensor], slots: Tensor) -> None:
    """Store the tags of the slots that a forward wrote, where that was not done in place."""
    write = None if FORMS[kind].is_plain else _FORMS[kind].write
    if write is None:
        return
    for layer, buffers in enumerate(_layers(kind, kv)):
        keys, values = (one.index_select(0, slots) for one in tags[2 * layer : 2 * layer + 2])
        write(buffers, slots, keys, values)


def mix(words: Tensor) -> Tensor:
    """Scramble every word, as ``specsim.hashing.mix`` does; a product may wrap past the 32 bits that count."""
    words = words & MASK
    words = words ^ (words >> 16)
    words = (words * 0x7FEB352D) & MASK
    words = words ^ (words >> 15)
    words = (words * 0x846CA68B) & MASK
    return words ^ (words >> 16)


def digest(words: Sequence[Tensor | int]) -> Tensor:
    """Fold words into one, in order, as ``specsim.hashing.digest`` does."""
    first, *others = words
    state = mix(torch.as_tensor(first) + GOLDEN)
    for word in others:
        state = mix(state + word)
    return state


def _layers(kind: PoolKind, kv: KV) -> list[list[Tensor]]:
    return [list(buffers) for buffers in zip(*(kv[part.name] for part in FORMS[kind].parts), strict=True)]


def _read_halves(buffers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return buffers[0][:, :TAG_WORDS], buffers[0][:, TAG_WORDS:]


def _read_beside_indexer(buffers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    keys, rest = _read_halves(buffers)
    pages, num_key_bytes = buffers[1], INDEXER_PAGE_KEYS * INDEXER_KEY_BYTES
    total = _words(pages[:, :num_key_bytes].reshape(-1, INDEXER_KEY_BYTES)).sum(dim=1)
    total = total + _words(pages[:, num_key_bytes:].reshape(-1, INDEXER_SCALE_BYTES)).sum(dim=1)
    values = rest.clone()
    values[:, 2] = (rest[:, 2] + total[: rest.shape[0]]) & MASK
    return keys.clone(), values


def _write_beside_indexer(buffers: Sequence[Tensor], slots: Tensor, keys: Tensor, values: Tensor) -> None:
    place = torch.arange(INDEXER_WORDS, device=slots.device)
    entries = mix(digest(keys.unbind(1))[:, None] + place)
    rest = values.clone()
    rest[:, 2] = (values[:, 2] - entries.sum(dim=1)) & MASK
    buffers[0][slots] = torch.cat([keys, rest], dim=1)
    written, page, offset = _bytes(entries), slots // INDEXER_PAGE_KEYS, slots % INDEXER_PAGE_KEYS
    start = torch.cat(
        [
            offset[:, None] * INDEXER_KEY_BYTES + torch.arange(INDEXER_KEY_BYTES, device=slots.device),
            INDEXER_PAGE_KEYS * INDEXER_KEY_BYTES
            + offset[:, None] * INDEXER_SCALE_BYTES
            + torch.arange(INDEXER_SCALE_BYTES, device=slots.device),
        ],
        dim=1,
    )
    buffers[1][page[:, None], start] = written


def _read_scaled(buffers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    keys, values = (
        (_words(data) + scales.long() * GOLDEN) & MASK for data, scales in zip(buffers[:2], buffers[2:], strict=True)
    )
    return keys, values


def _write_scaled(buffers: Sequence[Tensor], slots: Tensor, keys: Tensor, values: Tensor) -> None:
    shifts = 8 * torch.arange(TAG_WORDS, device=slots.device)
    for data, scales, tags in zip(buffers[:2], buffers[2:], (keys, values), strict=True):
        scale = (digest(tags.unbind(1))[:, None] >> shifts) & 0xFF
        data[slots] = _bytes((tags - scale * GOLDEN) & MASK)
        scales[slots] = scale.to(torch.uint8)


def _read_upside_down(buffers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    keys, values = _read_halves([buffers[0].flip(0)])
    return keys, values


def _write_upside_down(buffers: Sequence[Tensor], slots: Tensor, keys: Tensor, values: Tensor) -> None:
    buffers[0][buffers[0].shape[0] - 1 - slots] = torch.cat([keys, values], dim=1)


def _words(rows: Tensor) -> Tensor:
    """Return the words of four bytes that rows of bytes hold, lowest byte first."""
    shifts = 8 * torch.arange(WORD_BYTES, device=rows.device)
    return (rows.view(rows.shape[0], rows.shape[1] // WORD_BYTES, WORD_BYTES).long() << shifts).sum(dim=2)


def _bytes(words: Tensor) -> Tensor:
    """Return the bytes of rows of words, lowest byte first."""
    shifts = 8 * torch.arange(WORD_BYTES, device=words.device)
    return ((words[:, :, None] >> shifts) & 0xFF).to(torch.uint8).flatten(1)


_FORMS = {
    PoolKind.MLA: TensorForm(_read_halves),
    PoolKind.DSA: TensorForm(_read_beside_indexer, _write_beside_indexer),
    PoolKind.QUANTISED: TensorForm(_read_scaled, _write_scaled),
    PoolKind.OTHER: TensorForm(_read_upside_down, _write_upside_down),
}
