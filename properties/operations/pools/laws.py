"""Laws of pools: every part of a slot goes where the slot goes, however a pool lays it out."""

import numpy as np
from hypothesis.strategies import DrawFn

from specsim.config import INDEXER_PAGE_KEYS
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of, require_equal, states
from specsim.properties.operations.pools import strategy as strategies
from specsim.properties.strategies.arrays import bulk


def keys_and_scales_go_with_their_slots(backend: Backend, case: Case) -> None:
    """A target slot holds the key and the scale that its source held before the move, on whatever page either is."""
    moved = outputs_of(backend, "move_indexer_cache", case)["indexer_buffers"]
    for layer, before in enumerate(case["indexer_buffers"]):
        if len(before):
            held = _by_slot(before, case["head_dim"])
            targets, sources = (case[name][case["target_slots"] > 0] for name in ("target_slots", "source_slots"))
            for part, now, old in zip(("keys", "scales"), _by_slot(moved[layer], case["head_dim"]), held, strict=True):
                require_equal(f"{part} of slots {targets} in layer {layer}", now[targets], old[sources])


def other_keys_and_scales_stay(backend: Backend, case: Case) -> None:
    """No byte of a slot that is no target changes, and layers without pages stay so."""
    moved = outputs_of(backend, "move_indexer_cache", case)["indexer_buffers"]
    for layer, before in enumerate(case["indexer_buffers"]):
        require_equal(f"pages of layer {layer}", len(moved[layer]), len(before))
        now, old = _by_slot(moved[layer], case["head_dim"]), _by_slot(before, case["head_dim"])
        stays = np.setdiff1d(np.arange(len(old[0])), case["target_slots"])
        for part, after, held in zip(("keys", "scales"), now, old, strict=True):
            require_equal(f"{part} of slots that nothing moves to, in layer {layer}", after[stays], held[stays])


def pages_move_like_rows(backend: Backend, case: Case) -> None:
    """Unpacked into a row a slot, keys and scales move as any other buffers do."""
    moved = outputs_of(backend, "move_indexer_cache", case)["indexer_buffers"]
    present = [layer for layer, buffer in enumerate(case["indexer_buffers"]) if len(buffer)]
    rows = [part for layer in present for part in _by_slot(case["indexer_buffers"][layer], case["head_dim"])]
    asked = {"kv_buffers": rows, **{name: case[name] for name in ("target_slots", "source_slots")}}
    expected = outputs_of(backend, "move_kv_cache", asked)["kv_buffers"]
    got = [part for layer in present for part in _by_slot(moved[layer], case["head_dim"])]
    for number, (now, wanted) in enumerate(zip(got, expected, strict=True)):
        require_equal(f"part {number} of the indexer", now, wanted)


def both_sides_are_looked_up(backend: Backend, case: Case) -> None:
    """A pair of the window is that of the counterparts, and one that it does not hold moves its dump onto itself."""
    outputs = outputs_of(backend, "translate_move_slots", case)
    full_to_swa = case["full_to_swa"].tolist()
    for side in ("target_slots", "source_slots"):
        require_equal(f"swa_{side}", outputs[f"swa_{side}"], [full_to_swa[slot] for slot in case[side].tolist()])


def the_window_holds_what_the_full_pool_holds(backend: Backend, case: Case) -> None:
    """After both moves a slot of the full pool and its counterpart hold entries of one token."""
    full = case["entries"]
    window = np.full_like(full, -1)
    is_held = case["full_to_swa"] > 0
    window[case["full_to_swa"][is_held]] = full[is_held]
    pairs = {name: case[name] for name in ("target_slots", "source_slots", "full_to_swa")}
    translated = outputs_of(backend, "translate_move_slots", pairs)
    for name, buffer, prefix in (("full", full, ""), ("window", window, "swa_")):
        slots = translated if prefix else case
        asked = {side: slots[f"{prefix}{side}"] for side in ("target_slots", "source_slots")}
        case = {**case, name: outputs_of(backend, "move_kv_cache", {**asked, "kv_buffers": [buffer]})["kv_buffers"][0]}
    require_equal("entries of the window", case["window"][case["full_to_swa"][is_held]], case["full"][is_held])


@composite
def moves_in_both_pools(draw: DrawFn) -> Case:
    """Draw a move, and a full pool whose entries are all different."""
    case = draw(strategies.translate_move_slots())
    return {**case, "entries": draw(bulk()).order(len(case["full_to_swa"])).astype(np.int64)}


def _by_slot(buffer: Array, head_dim: int) -> tuple[Array, Array]:
    """Return keys and scales, a row a slot."""
    cut = INDEXER_PAGE_KEYS * head_dim
    keys, scales = buffer[:, :cut], buffer[:, cut:]
    return keys.reshape(-1, head_dim), scales.reshape(-1, 4 * head_dim // 128)


PROPERTIES = states(
    "pools",
    (keys_and_scales_go_with_their_slots, "move_indexer_cache", "P41"),
    (other_keys_and_scales_stay, "move_indexer_cache", "P41"),
    (pages_move_like_rows, ("move_indexer_cache", "move_kv_cache"), "P41"),
    (both_sides_are_looked_up, "translate_move_slots", "P41"),
    (the_window_holds_what_the_full_pool_holds, moves_in_both_pools, ("translate_move_slots", "move_kv_cache"), "P40"),
)
