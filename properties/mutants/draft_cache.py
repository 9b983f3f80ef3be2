"""Faults in the slots that a draft writes and reads."""

from typing import Any

import numpy as np

from specsim.counts import beam_stride, floor_to, page_size_of_beams
from specsim.properties.mutants.draft_pages import positions_of
from specsim.properties.mutants.record import Mutant, Named, given, instead, mutants_of, returning, unchecked

Array = Any
BLOCK = 64


def _step_first(outputs: Named, arguments: Named) -> None:
    topk, num_steps = arguments["topk"], arguments["num_steps"]
    slots = outputs["out_cache_loc"].reshape(-1, topk, num_steps)
    outputs["out_cache_loc"] = slots.transpose(0, 2, 1).reshape(-1)


def _past_the_bonus(outputs: Named, arguments: Named) -> None:
    width = arguments["topk"] * arguments["num_steps"]
    outputs["out_cache_loc"] = np.concatenate(
        [outputs["out_cache_loc"][:0]]
        + [
            np.roll(arguments["req_to_token"][row], -int(length) - 1)[:width].astype(np.int64)
            for row, length in zip(arguments["req_pool_indices"], arguments["seq_lens"], strict=True)
        ]
    )


def _rows_of_the_batch(arguments: Named) -> None:
    count = len(arguments["req_pool_indices"])
    arguments["req_pool_indices"] = np.arange(count, dtype=np.int64) % max(len(arguments["req_to_token"]), 1)


def _clamped_to_the_row(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    topk: int,
    num_steps: int,
    page_size: int = 1,
    num_copies: int = 0,
) -> tuple[Array, Array, Array]:
    def slot_at(row: int, position: int) -> int:
        return int(req_to_token[row, min(max(position, 0), req_to_token.shape[1] - 1)])

    found: list[int] = []
    copies: list[tuple[int, int]] = [(0, 0)] * num_copies
    copied = 0
    for row, length in zip(req_pool_indices.tolist(), np.asarray(seq_lens).tolist(), strict=True):
        stride = beam_stride(length, topk, num_steps, page_size)
        for beam in range(topk):
            begin = length + beam * stride
            found += [slot_at(row, begin + step) for step in range(num_steps)]
            for position in range(floor_to(length, page_size_of_beams(topk, page_size)), length if beam else 0):
                copies[copied : copied + 1] = [(slot_at(row, position), slot_at(row, position + beam * stride))]
                copied += 1
    sources, targets = np.array(copies[:num_copies], dtype=np.int64).reshape(num_copies, 2).T.copy()
    return np.array(found, dtype=np.int64), sources, targets


def _narrow_rows(outputs: Named, arguments: Named) -> None:
    seq_lens, rows, req_to_token = (arguments[name] for name in ("seq_lens", "req_pool_indices", "req_to_token"))
    if len(seq_lens):
        topk, num_steps = arguments["topk"], arguments["num_steps"]
        width = int(np.max(seq_lens)) + num_steps + topk - 1
        flat = rows[:, None, None] * width + positions_of(arguments)
        outputs["out_cache_loc"] = req_to_token.reshape(-1)[flat % req_to_token.size].reshape(-1).astype(np.int64)


def _beams_in_reverse(outputs: Named, arguments: Named) -> None:
    outputs["step_cache_loc"] = outputs["step_cache_loc"][:, ::-1].copy()


def _first_entry(arguments: Named, length: int, beam: int) -> int:
    """Return where the entries of a beam start."""
    return length + beam * int(
        beam_stride(length, arguments["topk"], arguments["num_steps"], int(arguments["page_size"]))
    )


def _lists(arguments: Named, visible_of: Any, starts_at: Any = lambda end, step, row: end) -> tuple[Array, Array]:
    """Lay out lists like the correct function, but with other contents or other starts."""
    req_to_token, topk = arguments["req_to_token"], arguments["topk"]
    num_rows = len(arguments["seq_lens"]) * topk
    kv_indices = np.zeros((arguments["num_steps"], num_rows * req_to_token.shape[1]), dtype=np.int32)
    kv_indptr = np.zeros((arguments["num_steps"], num_rows + 1), dtype=np.int32)
    for step in range(arguments["num_steps"]):
        for row in range(num_rows):
            slots = req_to_token[arguments["req_pool_indices"][row // topk]]
            visible = visible_of(slots, int(arguments["seq_lens"][row // topk]), row % topk, step)
            start = starts_at(kv_indptr[step, row], step, row)
            room = kv_indices[step, start : start + len(visible)]
            room[:] = visible[: len(room)]
            kv_indptr[step, row + 1] = kv_indptr[step, row] + len(visible)
    return kv_indices, kv_indptr


def _launched_one_short(**arguments: Any) -> tuple[Array, Array]:
    stride = arguments["num_steps"] - 1

    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        first = length + beam * stride
        return np.concatenate([slots[:length], slots[first : first + step + 1]])

    return _lists(arguments, visible_of)


def _beams_side_by_side(**arguments: Any) -> tuple[Array, Array]:
    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        first = length + beam * arguments["num_steps"]
        return np.concatenate([slots[:length], slots[first : first + step + 1]])

    return _lists(arguments, visible_of)


def _blocks_repeat_the_first(**arguments: Any) -> tuple[Array, Array]:
    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        first = _first_entry(arguments, length, beam)
        return np.concatenate([slots[np.arange(length) % BLOCK], slots[first : first + step + 1]])

    return _lists(arguments, visible_of)


def _own_entries_left_out(**arguments: Any) -> tuple[Array, Array]:
    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        first = _first_entry(arguments, length, beam)
        return np.concatenate([slots[:length], slots[first : first + step]])

    return _lists(arguments, visible_of)


def _prefix_grows_with_the_step(**arguments: Any) -> tuple[Array, Array]:
    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        own = _first_entry(arguments, length, beam) + step
        return np.concatenate([slots[: length + step], slots[own : own + 1]])

    return _lists(arguments, visible_of)


def _starts_without_topk(**arguments: Any) -> tuple[Array, Array]:
    topk = arguments["topk"]
    before = np.concatenate([[0], np.cumsum(arguments["seq_lens"])]).astype(int)

    def visible_of(slots: Array, length: int, beam: int, step: int) -> Array:
        first = _first_entry(arguments, length, beam)
        return np.concatenate([slots[:length], slots[first : first + step + 1]])

    def starts_at(end: int, step: int, row: int) -> int:
        request, beam = divmod(row, topk)
        length = int(arguments["seq_lens"][request])
        start: int = int(before[request]) + request * topk * (step + 1) + beam * (length + step + 1)
        return start

    return _lists(arguments, visible_of, starts_at)


def _buffer_without_topk(outputs: Named, arguments: Named) -> None:
    room = len(arguments["seq_lens"]) * arguments["req_to_token"].shape[1]
    outputs["kv_indices"][:, room:] = 0


MUTANTS = (
    *mutants_of(
        "assign_draft_cache_locs",
        ("OWN-22", "Slots are listed step first.", returning(_step_first)),
        ("OWN-23", "Slots start one position late.", returning(_past_the_bonus)),
        ("OWN-24", "The row is the place in the batch.", given(_rows_of_the_batch)),
        (
            "D11",
            "Positions past the row are clamped to its last slot instead of being refused.",
            unchecked(_clamped_to_the_row),
        ),
        ("K03", "A row is as wide as one beam needs, so beams spill into the next row.", returning(_narrow_rows)),
    ),
    Mutant(
        "OWN-25",
        "per_step_draft_out_cache_loc",
        "Slots are viewed step-major without a transposition.",
        instead(lambda out_cache_loc, topk, num_steps: out_cache_loc.reshape(num_steps, -1).copy()),
    ),
    Mutant("OWN-26", "per_step_draft_out_cache_loc", "Beams come in reverse.", returning(_beams_in_reverse)),
    *mutants_of(
        "generate_draft_decode_kv_indices",
        ("OWN-27", "Launched for one step less, so beams lie too close.", instead(_launched_one_short)),
        ("D01", "Every block of the prefix repeats the first block.", instead(_blocks_repeat_the_first)),
        ("OWN-28", "A beam misses its newest entry.", instead(_own_entries_left_out)),
        ("OWN-29", "The committed length has advanced with the steps.", instead(_prefix_grows_with_the_step)),
        ("OWN-30", "Lists start where one beam a request would put them.", instead(_starts_without_topk)),
        ("G01", "The buffer holds one beam a request, and what lies past it is lost.", returning(_buffer_without_topk)),
        ("OWN-731", "Beams of a paged tree are read side by side.", instead(_beams_side_by_side)),
    ),
)
