"""Faults in what pools move."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from specsim.config import INDEXER_PAGE_KEYS as _KEYS
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, edits_of, instead, mutants_by_operation, returning

Array = Any

_ENTRY_READ = "(page[key].copy(), page[scale].copy())"
_PAIRS = "zip(target_slots.tolist(), read, strict=True)"

_laid_out = partial(edited, within="entry_of_slot")


def _rows_by_token(indexer_buffers: Sequence[Array], target_slots: Array, source_slots: Array, head_dim: int) -> None:
    for buffer in (one for one in indexer_buffers if len(one)):
        is_row = (target_slots < len(buffer)) & (source_slots < len(buffer))
        buffer[target_slots[is_row]] = buffer[source_slots[is_row]]


def _slots_by(page: str, place: str) -> str:
    """Return slots on the pages of some, at the places of others."""
    return f"({page}_slots // {_KEYS} * {_KEYS} + {place}_slots % {_KEYS})"


def _counterparts(counterpart: str) -> Callable[[Function], Function]:
    """Inject another counterpart of a slot, on both sides."""
    slots = ("target_slots[pair]", "source_slots[pair]")
    return edited(*(text for slot in slots for text in (f"full_to_swa[{slot}]", counterpart.replace("slot", slot))))


def _packed(outputs: Named, arguments: Named) -> None:
    """Drop pairs outside of the window on the side of sources alone."""
    kept = outputs["swa_source_slots"][outputs["swa_source_slots"] != 0]
    outputs["swa_source_slots"] = np.pad(kept, (0, len(outputs["swa_source_slots"]) - len(kept)))


_scales_left = edited("buffer[slot // INDEXER_PAGE_KEYS, scale] = scale_read", "")
_keys_left = edited("buffer[slot // INDEXER_PAGE_KEYS, key] = key_read", "")
_scales_of_the_target = edited("page[scale]", f"buffer[target_slots[len(read)] // {_KEYS}, scale]")
_scale_of_four_bytes = _laid_out("INDEXER_SCALE_BYTES * key_bytes // INDEXER_GROUP", "4")
_whole_pages = _laid_out("slice(key, key + key_bytes), slice(scale, scale + scale_bytes)", "slice(None), slice(0)")
_backwards_in_place = edited(_ENTRY_READ, "(page[key], page[scale])", _PAIRS, f"[*{_PAIRS}][::-1]")
_place_of_the_target = edited("source_slots", _slots_by("source", "target"))
_sources_kept = edited("full_to_swa[source_slots[pair]]", "source_slots[pair]")
_targets_kept = edited("full_to_swa[target_slots[pair]]", "target_slots[pair]")

DIFFS = """
    @@ move_indexer_cache in entry_of_slot
    OWN-1306 A key and its scale are taken to lie side by side.
    - offset * key_bytes => offset * (key_bytes + scale_bytes)
    - INDEXER_PAGE_KEYS * key_bytes + offset * scale_bytes => key + key_bytes
    @@ move_indexer_cache
    OWN-1308 The last slot of a page is looked for on the next one.
    - source_slots
    + (source_slots + (source_slots % INDEXER_PAGE_KEYS == INDEXER_PAGE_KEYS - 1)) % (len(buffer) * INDEXER_PAGE_KEYS)
    OWN-1316 Of a key all but the last byte moves.
    - buffer[slot // INDEXER_PAGE_KEYS, key] = key_read => buffer[slot // INDEXER_PAGE_KEYS, key][:-1] = key_read[:-1]
    @@ translate_move_slots
    OWN-1322 Sides change places.
    - TranslateMoveSlotsOutputs(swa_target_slots, swa_source_slots)
    + TranslateMoveSlotsOutputs(swa_source_slots, swa_target_slots)
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    move_indexer_cache=(
        ("K07", "Pages are taken for rows of one token.", instead(_rows_by_token)),
        ("OWN-1300", "Keys move without their scales.", _scales_left),
        ("OWN-1301", "Scales move without their keys.", _keys_left),
        ("OWN-1302", "The page of the target is read.", edited("source_slots", _slots_by("target", "source"))),
        ("OWN-1303", "The page of the source is written.", edited("target_slots", _slots_by("source", "target"))),
        ("OWN-1304", "The place of the target inside its page is read.", _place_of_the_target),
        ("OWN-1305", "Scales come from the page of the target.", _scales_of_the_target),
        ("OWN-1307", "A key of any width has one scale of four bytes.", _scale_of_four_bytes),
        ("OWN-1309", "Whole pages move.", _whole_pages),
        ("OWN-1310", "Pairs are copied forwards, in place.", edited(_ENTRY_READ, "(page[key], page[scale])")),
        ("OWN-1311", "Pairs are copied backwards, in place.", _backwards_in_place),
        ("OWN-1312", "Only the first layer moves.", edited("indexer_buffers", "indexer_buffers[:1]")),
        ("OWN-1313", "A layer without indexer ends the walk over layers.", edited("continue", "break")),
        ("OWN-1314", "Every layer has an indexer.", edited("continue", "buffer[0, 0]")),
        ("OWN-1315", "The last pair is lost.", edited(_PAIRS, f"[*{_PAIRS}][:-1]")),
    ),
    translate_move_slots=(
        ("OWN-1320", "Sources stay slots of the full pool.", _sources_kept),
        ("OWN-1321", "Targets stay slots of the full pool.", _targets_kept),
        ("OWN-1323", "Sources are those of the targets.", edited("source_slots[pair]", "target_slots[pair]")),
        ("OWN-1324", "A slot that has left the window keeps its number.", _counterparts("full_to_swa[slot] or slot")),
        ("OWN-1325", "Pairs outside of the window are left out on one side.", returning(_packed)),
        ("OWN-1326", "The counterpart is that of the slot before.", _counterparts("full_to_swa[max(slot - 1, 0)]")),
    ),
)
