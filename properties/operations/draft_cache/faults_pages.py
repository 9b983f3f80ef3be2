"""Faults in the slots that a paged tree writes and reads, and in what brings the end of its text to every beam."""

from typing import Any

import numpy as np

from specsim.counts import beam_stride, ceil_to, page_size_of_beams
from specsim.properties.mutants.record import Named, mutants_of, returning
from specsim.properties.mutants.tables import slots_for_pages

Array = Any


def positions_of(arguments: Named, stride: Any = None, holes: bool = True) -> Array:
    """Return int64 [request, beam, step] of the right layout, but with another stride, or without holes."""
    seq_lens, topk, num_steps = (arguments[name] for name in ("seq_lens", "topk", "num_steps"))
    lengths, page_size = np.asarray(seq_lens, dtype=np.int64), page_size_of_beams(topk, int(arguments["page_size"]))
    strides = beam_stride(lengths, topk, num_steps, page_size) if stride is None else stride(arguments, page_size)
    beams = np.arange(topk) * np.broadcast_to(strides, lengths.shape)[:, None]
    if not holes:
        beams = beams - (lengths % page_size)[:, None] * (np.arange(topk) > 0)
    return np.asarray((lengths[:, None] + beams)[:, :, None] + np.arange(num_steps))


def _laid_out(stride: Any = None, holes: bool = True) -> Any:
    """Return slots of another layout; what lies past the row is read from its front."""

    def change(outputs: Named, arguments: Named) -> None:
        rows = arguments["req_to_token"][arguments["req_pool_indices"]]
        places = positions_of(arguments, stride, holes).reshape(len(rows), -1) % arguments["req_to_token"].shape[1]
        outputs["out_cache_loc"] = np.take_along_axis(rows, places, axis=1).reshape(-1).astype(np.int64)

    return returning(change)


def _copies(change: Any) -> Any:
    """Return what the right function does, with other pairs: ``change`` takes them, and the arguments."""

    def changed(outputs: Named, arguments: Named) -> None:
        pairs = np.stack([outputs["source_slots"], outputs["target_slots"]], axis=1)
        pairs = np.array(change(pairs, arguments), dtype=np.int64).reshape(-1, 2)
        room = np.zeros((arguments["num_copies"], 2), dtype=np.int64)
        room[: len(pairs)] = pairs[: len(room)]
        outputs["source_slots"], outputs["target_slots"] = room[:, 0].copy(), room[:, 1].copy()

    return returning(changed)


def _tails(arguments: Named) -> Array:
    size = page_size_of_beams(arguments["topk"], int(arguments["page_size"]))
    return np.asarray(arguments["seq_lens"].astype(np.int64) % size)


def _for_the_second_beam_alone(pairs: Array, arguments: Named) -> Array:
    last = _tails(arguments)
    ends = np.cumsum(last * (arguments["topk"] - 1))
    parts = [pairs[end - count * (arguments["topk"] - 1) :][:count] for end, count in zip(ends, last, strict=True)]
    return np.concatenate([pairs[:0], *parts])


def _if_the_first_has_a_tail(pairs: Array, arguments: Named) -> Array:
    return pairs if _tails(arguments)[:1].any() else pairs[:0]


def _last_pair_repeated(pairs: Array, arguments: Named) -> Array:
    count = int(_tails(arguments).sum()) * (arguments["topk"] - 1)
    return np.concatenate([pairs[:count], np.repeat(pairs[max(count - 1, 0) : count], len(pairs) - count, axis=0)])


def _consecutive_pages(outputs: Named, arguments: Named) -> None:
    table = outputs["expand_page_table"]
    outputs["expand_page_table"] = np.where(table, table[:, :1] + np.arange(table.shape[1]), 0).astype(np.int32)


def _without_the_partial_page(outputs: Named, arguments: Named) -> None:
    table, last = outputs["expand_page_table"], arguments["seq_lens"] % arguments["page_size"]
    shifted = np.pad(table, ((0, 0), (0, 1)))[:, 1:]
    has_tail = np.repeat(last > 0, arguments["topk"])[:, None]
    outputs["expand_page_table"] = np.where(has_tail, shifted, table).astype(np.int32)


def _without_the_tail(outputs: Named, arguments: Named) -> None:
    last = np.repeat(arguments["seq_lens"] % arguments["page_size"], arguments["topk"])
    outputs["expand_cache_seqlens"] = (outputs["expand_cache_seqlens"] - last).astype(np.int32)


def _tail_read_twice(outputs: Named, arguments: Named) -> None:
    outputs["cache_seqlens"] = arguments["seq_lens"].astype(np.int32)


def _pages_of_the_first_beam(outputs: Named, arguments: Named) -> None:
    table = outputs["expand_page_table"].copy()
    outputs["expand_page_table"] = np.repeat(table[:: arguments["topk"]], arguments["topk"], axis=0)


def _one_query_a_request(outputs: Named, arguments: Named) -> None:
    outputs["cu_seqlens_q"] = np.arange(len(outputs["cu_seqlens_q"]), dtype=np.int32)


MUTANTS = (
    *mutants_of(
        "assign_draft_cache_locs",
        (
            "OWN-724",
            "Beams of a paged tree lie side by side, as in a chain.",
            _laid_out(stride=lambda arguments, size: arguments["num_steps"]),
        ),
        (
            "OWN-725",
            "The partial page at the end of the text is not counted, so that beams overlap.",
            _laid_out(stride=lambda arguments, size: ceil_to(arguments["num_steps"], size)),
        ),
        ("OWN-726", "Beams leave no holes for the end of the text.", _laid_out(holes=False)),
        ("OWN-727", "Copies go from the beams to the text.", _copies(lambda pairs, _: pairs[:, ::-1])),
        ("OWN-728", "Only the second beam gets a copy.", _copies(_for_the_second_beam_alone)),
        ("OWN-729", "The first request decides whether anything is copied.", _copies(_if_the_first_has_a_tail)),
        ("OWN-730", "The last pair fills the surplus.", _copies(_last_pair_repeated)),
    ),
    *mutants_of(
        "draft_decode_cascade_metadata",
        ("K09", "A beam's pages are taken to be consecutive.", returning(_consecutive_pages)),
        ("OWN-732", "The page that the text ends in is left out.", returning(_without_the_partial_page)),
        ("OWN-733", "The end of the text is not counted among a beam's keys.", returning(_without_the_tail)),
        ("OWN-734", "The first pass reads the end of the text, too.", returning(_tail_read_twice)),
        ("OWN-735", "Every beam reads the pages of the first.", returning(_pages_of_the_first_beam)),
        ("OWN-736", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-737", "Each request has one query, not one a beam.", returning(_one_query_a_request)),
    ),
)
