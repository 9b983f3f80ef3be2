"""Faults in the slots that a draft writes and reads."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from specsim.counts import beam_stride, floor_to, page_size_of_beams
from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, mutants_of, returning, unchecked
from specsim.properties.mutants.tables import rows_of_the_batch
from specsim.properties.operations.draft_cache.faults_pages import positions_of

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


def _listed(
    stride: Callable[[Named], int] | None = None,
    prefix: Any = lambda length, step: slice(length),
    own: Callable[[int], tuple[int, int]] = lambda step: (0, step + 1),
    starts_at: Callable[[Named, int, int], int] | None = None,
) -> Callable[[Function], Function]:
    """Inject lists like those of the correct function, but of other positions or with other starts.

    Parameters
    ----------
    stride : callable or None
        Returns how far apart the entries of two beams lie; None for as far as they do.
    prefix : callable
        Takes the committed length and the step, and returns the committed positions that a beam sees.
    own : callable
        Takes the step, and returns the first and the end of the entries that a beam sees of itself.
    starts_at : callable or None
        Takes arguments, step and row, and returns where its list starts; None for after the list before.
    """

    def lists(**arguments: Any) -> tuple[Array, Array]:
        req_to_token, topk, num_steps = (arguments[name] for name in ("req_to_token", "topk", "num_steps"))
        num_rows = len(arguments["seq_lens"]) * topk
        kv_indices = np.zeros((num_steps, num_rows * req_to_token.shape[1]), dtype=np.int32)
        kv_indptr = np.zeros((num_steps, num_rows + 1), dtype=np.int32)
        for step, row in product(range(num_steps), range(num_rows)):
            request, beam = divmod(row, topk)
            slots, length = req_to_token[arguments["req_pool_indices"][request]], int(arguments["seq_lens"][request])
            apart = beam_stride(length, topk, num_steps, int(arguments["page_size"]))
            first, (front, end) = length + beam * int(stride(arguments) if stride else apart), own(step)
            visible = np.concatenate([slots[prefix(length, step)], slots[first + front : first + end]])
            start = starts_at(arguments, step, row) if starts_at else kv_indptr[step, row]
            room = kv_indices[step, start : start + len(visible)]
            room[:] = visible[: len(room)]
            kv_indptr[step, row + 1] = kv_indptr[step, row] + len(visible)
        return kv_indices, kv_indptr

    return instead(lists)


def _without_topk(arguments: Named, step: int, row: int) -> int:
    request, beam = divmod(row, arguments["topk"])
    before, length = int(arguments["seq_lens"][:request].sum()), int(arguments["seq_lens"][request])
    return int(before + request * arguments["topk"] * (step + 1) + beam * (length + step + 1))


def _buffer_without_topk(outputs: Named, arguments: Named) -> None:
    room = len(arguments["seq_lens"]) * arguments["req_to_token"].shape[1]
    outputs["kv_indices"][:, room:] = 0


MUTANTS = (
    *mutants_of(
        "assign_draft_cache_locs",
        ("OWN-22", "Slots are listed step first.", returning(_step_first)),
        ("OWN-23", "Slots start one position late.", returning(_past_the_bonus)),
        ("OWN-24", "The row is the place in the batch.", given(rows_of_the_batch)),
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
        (
            "OWN-27",
            "Launched for one step less, so beams lie too close.",
            _listed(stride=lambda given: given["num_steps"] - 1),
        ),
        (
            "D01",
            "Every block of the prefix repeats the first block.",
            _listed(prefix=lambda length, step: np.arange(length) % BLOCK),
        ),
        ("OWN-28", "A beam misses its newest entry.", _listed(own=lambda step: (0, step))),
        (
            "OWN-29",
            "The committed length has advanced with the steps.",
            _listed(prefix=lambda length, step: slice(length + step), own=lambda step: (step, step + 1)),
        ),
        ("OWN-30", "Lists start where one beam a request would put them.", _listed(starts_at=_without_topk)),
        ("G01", "The buffer holds one beam a request, and what lies past it is lost.", returning(_buffer_without_topk)),
        ("OWN-731", "Beams of a paged tree are read side by side.", _listed(stride=lambda given: given["num_steps"])),
    ),
)
