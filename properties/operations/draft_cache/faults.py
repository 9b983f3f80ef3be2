"""Faults in the slots that a draft writes and reads, and in what brings the end of a text to every beam of a tree."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    edits_of,
    given,
    mutants_by_operation,
    returning,
    with_outputs,
)
from specsim.properties.mutants.tables import rows_of_the_batch, slots_for_pages

BLOCK = 64

_STRIDE = "beam_stride(length, topk, num_steps, page_size)"
_COPIED = "length if beam > 0 else base"


def _written(slot: str) -> Callable[[Function], Function]:
    """Inject another slot of a beam's step."""
    return edited("slots[length + beam * stride + step]", slot)


@returning
def _buffer_without_topk(outputs: Named, arguments: Named) -> None:
    outputs["kv_indices"][:, len(arguments["seq_lens"]) * arguments["req_to_token"].shape[1] :] = 0


def _without_the_partial_page(outputs: Named, arguments: Named) -> None:
    table, last = outputs["expand_page_table"], arguments["seq_lens"] % arguments["page_size"]
    has_tail = np.repeat(last > 0, arguments["topk"])[:, None]
    outputs["expand_page_table"] = np.where(has_tail, np.pad(table, ((0, 0), (0, 1)))[:, 1:], table).astype(np.int32)


_step_first = edited("(request * topk + beam) * num_steps + step", "(request * num_steps + step) * topk + beam")
_past_the_bonus = _written("slots[(length + 1 + beam * num_steps + step) % len(slots)]")
_side_by_side = _written("slots[length + beam * num_steps + step]")
_no_tail = _written("slots[length + beam * ceil_to(num_steps, page_size_of_beams(topk, page_size)) + step]")
_without_holes = _written("slots[length + beam * stride + step - (length - base if beam else 0)]")
_consecutive_pages = edited("slots[first + page * page_size] // page_size", "slots[first] // page_size + page")
_tail_read_twice = edited("cache_seqlens[request] = base", "cache_seqlens[request] = length")
_step_major = edited("row * num_steps + step", "step * step_cache_loc.shape[1] + row")
_first_block_repeated = edited("slots[:length]", f"slots[np.arange(length) % {BLOCK}]")
_without_the_tail = edited("length - base + step + 1", "step + 1")
_one_query_a_request = edited("cu_seqlens_q[request] + topk", "cu_seqlens_q[request] + 1")

DIFFS = """
    @@ assign_draft_cache_locs
    D11 Positions past the row are clamped to its last slot instead of being refused.
    - check_call("assign_draft_cache_locs", locals()) => {**locals(), "request": len(seq_lens)}
    - req_to_token[req_pool_indices[request]]
    + np.pad(req_to_token[req_pool_indices[request]], (0, topk * (num_steps + 2 * page_size)), mode="edge")
    K03 A row is as wide as one beam needs, so beams spill into the next row.
      slots = req_to_token[req_pool_indices[request]]
    + width = int(max(seq_lens)) + num_steps + topk - 1
    + narrow = np.roll(req_to_token, -req_pool_indices[request] * width).reshape(-1)
    - slots[length + beam * stride + step] => narrow[(length + beam * stride + step) % narrow.size]
    OWN-727 Copies go from the beams to the text.
    - AssignDraftCacheLocsOutputs(out_cache_loc, source_slots, target_slots)
    + AssignDraftCacheLocsOutputs(out_cache_loc, target_slots, source_slots)
    OWN-729 The first request decides whether anything is copied.
    - length if beam > 0 else base
    + length if beam > 0 and seq_lens[0] % page_size_of_beams(topk, page_size) else base
    OWN-730 The last pair fills the surplus.
      copied += 1
    + source_slots[copied:], target_slots[copied:] = source_slots[copied - 1], target_slots[copied - 1]
    @@ generate_draft_decode_kv_indices
    OWN-29 The committed length has advanced with the steps.
    - slots[:length] => slots[: length + step]
    - slots[first : first + step + 1] => slots[first + step : first + step + 1]
    OWN-30 Lists start where one beam a request would put them.
    - kv_indices[step, end : end + len(visible)] = visible
    + start = end - (topk - 1) * int(seq_lens[:request].sum())
    + kv_indices[step, start : start + len(visible)] = visible
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    assign_draft_cache_locs=(
        ("OWN-22", "Slots are listed step first.", _step_first),
        ("OWN-23", "Slots start one position late.", _past_the_bonus),
        ("OWN-24", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-724", "Beams of a paged tree lie side by side, as in a chain.", _side_by_side),
        ("OWN-725", "The partial page at the end of the text is not counted, so that beams overlap.", _no_tail),
        ("OWN-726", "Beams leave no holes for the end of the text.", _without_holes),
        ("OWN-728", "Only the second beam gets a copy.", edited(_COPIED, "length if beam == 1 else base")),
    ),
    per_step_draft_out_cache_loc=(
        ("OWN-25", "Slots are viewed step-major without a transposition.", _step_major),
        ("OWN-26", "Beams come in reverse.", with_outputs(step_cache_loc=lambda slots: slots[:, ::-1].copy())),
    ),
    generate_draft_decode_kv_indices=(
        ("OWN-27", "Launched for one step less, so beams lie too close.", edited(_STRIDE, "(num_steps - 1)")),
        ("D01", "Every block of the prefix repeats the first block.", _first_block_repeated),
        ("OWN-28", "A beam misses its newest entry.", edited("first + step + 1", "first + step")),
        ("G01", "The buffer holds one beam a request, and what lies past it is lost.", _buffer_without_topk),
        ("OWN-731", "Beams of a paged tree are read side by side.", edited(_STRIDE, "num_steps")),
    ),
    draft_decode_cascade_metadata=(
        ("K09", "A beam's pages are taken to be consecutive.", _consecutive_pages),
        ("OWN-732", "The page that the text ends in is left out.", returning(_without_the_partial_page)),
        ("OWN-733", "The end of the text is not counted among a beam's keys.", _without_the_tail),
        ("OWN-734", "The first pass reads the end of the text, too.", _tail_read_twice),
        ("OWN-735", "Every beam reads the pages of the first.", edited(f"beam * {_STRIDE}", "0")),
        ("OWN-736", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-737", "Each request has one query, not one a beam.", _one_query_a_request),
    ),
)
