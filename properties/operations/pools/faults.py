"""Faults in what pools move."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specsim.config import INDEXER_PAGE_KEYS as _KEYS
from specsim.properties.mutants.record import Function, Named, given, instead, mutants_of, returning

Array = Any
Parts = list[tuple[int, int, int]]
"""Page, first byte and bytes of each part of an entry."""


def _key(slot: int, width: int) -> tuple[int, int, int]:
    return slot // _KEYS, slot % _KEYS * width, width


def _scale(slot: int, width: int) -> tuple[int, int, int]:
    return slot // _KEYS, _KEYS * width + slot % _KEYS * (width // 32), width // 32


def _both(slot: int, width: int) -> Parts:
    return [_key(slot, width), _scale(slot, width)]


def _moved(
    read: Callable[[int, int, int], Parts],
    written: Callable[[int, int, int], Parts] = lambda target, source, width: _both(target, width),
    layers_of: Callable[[Sequence[Array]], Sequence[Array]] = lambda buffers: buffers,
    pairs_of: Callable[[int], Any] = range,
    has_snapshot: bool = True,
) -> Callable[[Function], Function]:
    """Inject a move by parts that may be others than those of the two slots; both see target and source."""

    def move_indexer_cache(
        indexer_buffers: Sequence[Array], target_slots: Array, source_slots: Array, head_dim: int
    ) -> None:
        slots = [*zip(target_slots.tolist(), source_slots.tolist(), strict=True)]
        for buffer in (one for one in layers_of(indexer_buffers) if len(one)):
            before = buffer.copy() if has_snapshot else buffer
            for pair in pairs_of(len(slots)):
                target, source = slots[pair]
                froms, tos = read(target, source, head_dim), written(target, source, head_dim)
                for (page, first, size), (to_page, to_first, _) in zip(froms, tos, strict=True):
                    row = before[page % len(buffer)][first : first + size].copy()
                    place = buffer[to_page % len(buffer)][to_first : to_first + len(row)]
                    place[:] = row[: len(place)]

    return instead(move_indexer_cache)


def _laid_out(parts_of: Callable[[int, int], Parts]) -> Callable[[Function], Function]:
    """Inject a move by other parts of an entry, the same of both slots."""
    return _moved(
        lambda target, source, width: parts_of(source, width), lambda target, source, width: parts_of(target, width)
    )


def _read(target: int, source: int, width: int) -> Parts:
    return _both(source, width)


def _read_on_page(target: int, source: int, width: int) -> Parts:
    return _both(target // _KEYS * _KEYS + source % _KEYS, width)


def _rows_by_token(indexer_buffers: Sequence[Array], target_slots: Array, source_slots: Array, head_dim: int) -> None:
    for buffer in (one for one in indexer_buffers if len(one)):
        is_row = (target_slots < len(buffer)) & (source_slots < len(buffer))
        buffer[target_slots[is_row]] = buffer[source_slots[is_row]]


def _interleaved(slot: int, width: int) -> Parts:
    entry = width + width // 32
    return [(slot // _KEYS, slot % _KEYS * entry, width), (slot // _KEYS, slot % _KEYS * entry + width, width // 32)]


def _scale_of_four_bytes(slot: int, width: int) -> Parts:
    return [_key(slot, width), (slot // _KEYS, _KEYS * width + slot % _KEYS * 4, 4)]


def _until_an_empty_layer(buffers: Sequence[Array]) -> Sequence[Array]:
    lengths = [len(buffer) for buffer in buffers]
    return buffers[: lengths.index(0)] if 0 in lengths else buffers


def _whole_page(target: int, source: int, width: int) -> Parts:
    return [(source // _KEYS, 0, _KEYS * (width + width // 32))]


def _every_layer_has_pages(arguments: Named) -> None:
    for buffer in arguments["indexer_buffers"]:
        buffer[0, 0]


def _looked_up(target_of: Any, source_of: Any) -> Any:
    def translate(outputs: Named, arguments: Named) -> None:
        table, target, source = (arguments[name] for name in ("full_to_swa", "target_slots", "source_slots"))
        outputs["swa_target_slots"] = target_of(table, target, source).astype(np.int64)
        outputs["swa_source_slots"] = source_of(table, target, source).astype(np.int64)

    return returning(translate)


def _target(table: Array, target: Array, source: Array) -> Array:
    return table[target]


def _source(table: Array, target: Array, source: Array) -> Array:
    return table[source]


def _kept_where_there_is_none(table: Array, slots: Array) -> Array:
    return np.where(table[slots] == 0, slots, table[slots])


def _packed(outputs: Named, arguments: Named) -> None:
    """Drop pairs outside of the window on the side of sources alone."""
    kept = outputs["swa_source_slots"][outputs["swa_source_slots"] != 0]
    outputs["swa_source_slots"] = np.pad(kept, (0, len(outputs["swa_source_slots"]) - len(kept)))


MUTANTS = (
    *mutants_of(
        "move_indexer_cache",
        ("K07", "Pages are taken for rows of one token.", instead(_rows_by_token)),
        ("OWN-1300", "Keys move without their scales.", _laid_out(lambda slot, width: _both(slot, width)[:1])),
        ("OWN-1301", "Scales move without their keys.", _laid_out(lambda slot, width: _both(slot, width)[1:])),
        ("OWN-1302", "The page of the target is read.", _moved(_read_on_page)),
        (
            "OWN-1303",
            "The page of the source is written.",
            _moved(_read, lambda target, source, width: _both(source // _KEYS * _KEYS + target % _KEYS, width)),
        ),
        (
            "OWN-1304",
            "The place of the target inside its page is read.",
            _moved(lambda target, source, width: _both(source // _KEYS * _KEYS + target % _KEYS, width)),
        ),
        (
            "OWN-1305",
            "Scales come from the page of the target.",
            _moved(lambda target, source, width: [_key(source, width), _read_on_page(target, source, width)[1]]),
        ),
        ("OWN-1306", "A key and its scale are taken to lie side by side.", _laid_out(_interleaved)),
        ("OWN-1307", "A key of any width has one scale of four bytes.", _laid_out(_scale_of_four_bytes)),
        (
            "OWN-1308",
            "The last slot of a page is looked for on the next one.",
            _moved(lambda target, source, width: _both(source + (source % _KEYS == _KEYS - 1), width)),
        ),
        ("OWN-1309", "Whole pages move.", _moved(_whole_page, _whole_page)),
        ("OWN-1310", "Pairs are copied forwards, in place.", _moved(_read, has_snapshot=False)),
        (
            "OWN-1311",
            "Pairs are copied backwards, in place.",
            _moved(_read, pairs_of=lambda count: range(count - 1, -1, -1), has_snapshot=False),
        ),
        ("OWN-1312", "Only the first layer moves.", _moved(_read, layers_of=lambda buffers: buffers[:1])),
        (
            "OWN-1313",
            "A layer without indexer ends the walk over layers.",
            _moved(_read, layers_of=_until_an_empty_layer),
        ),
        ("OWN-1314", "Every layer has an indexer.", given(_every_layer_has_pages)),
        ("OWN-1315", "The last pair is lost.", _moved(_read, pairs_of=lambda count: range(max(count - 1, 0)))),
        (
            "OWN-1316",
            "Of a key all but the last byte moves.",
            _moved(
                lambda target, source, width: [
                    (page, first, size - (part == 0)) for part, (page, first, size) in enumerate(_both(source, width))
                ]
            ),
        ),
    ),
    *mutants_of(
        "translate_move_slots",
        ("OWN-1320", "Sources stay slots of the full pool.", _looked_up(_target, lambda table, target, source: source)),
        ("OWN-1321", "Targets stay slots of the full pool.", _looked_up(lambda table, target, source: target, _source)),
        ("OWN-1322", "Sides change places.", _looked_up(_source, _target)),
        ("OWN-1323", "Sources are those of the targets.", _looked_up(_target, _target)),
        (
            "OWN-1324",
            "A slot that has left the window keeps its number.",
            _looked_up(
                lambda table, target, source: _kept_where_there_is_none(table, target),
                lambda table, target, source: _kept_where_there_is_none(table, source),
            ),
        ),
        ("OWN-1325", "Pairs outside of the window are left out on one side.", returning(_packed)),
        (
            "OWN-1326",
            "The counterpart is that of the slot before.",
            _looked_up(
                lambda table, target, source: table[np.maximum(target - 1, 0)],
                lambda table, target, source: table[np.maximum(source - 1, 0)],
            ),
        ),
    ),
)
