"""Faults in what a verify keeps and gives back where a page holds several slots."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Named, given, instead, mutants_of, returning

Array = Any


def _aligned(start_of: Callable[[int, int, int], int], fits: bool = True) -> Any:
    """Return an alignment that keeps a page from where ``start_of`` says: of length, kept nodes and page size."""

    def align(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
        page_size = int(page_size)
        for request, length in enumerate(seq_lens.tolist()):
            first = request * num_draft_tokens
            kept = num_draft_tokens - int(evict_mask[first : first + num_draft_tokens].sum())
            start = start_of(length, kept, page_size)
            most = num_draft_tokens if fits else len(evict_mask) - first
            evict_mask[first + max(start, 0) : first + max(min(start + page_size, most), 0)] = False

    return instead(align)


def _floored(position: int, page_size: int) -> int:
    return position // page_size * page_size


def _wraps(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
    mask, page_size = evict_mask.reshape(-1, num_draft_tokens), int(page_size)
    for row, length in zip(mask, seq_lens.tolist(), strict=True):
        start = _floored(length + int((~row).sum()) - 1, page_size) - length
        for place in range(start, min(start + page_size, num_draft_tokens)):
            row[place % num_draft_tokens] = False
    evict_mask[...] = mask.reshape(-1)


def _by_the_last_one_kept(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
    for row, length in zip(evict_mask.reshape(-1, num_draft_tokens), seq_lens.tolist(), strict=True):
        start = _floored(length + int(np.flatnonzero(~row)[-1]), int(page_size)) - length
        row[max(start, 0) : max(min(start + int(page_size), num_draft_tokens), 0)] = False


def _as_a_chain(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
    place = np.arange(num_draft_tokens)
    for row, length in zip(evict_mask.reshape(-1, num_draft_tokens), seq_lens.tolist(), strict=True):
        row[...] = length + place >= _end_of_page(length + num_draft_tokens - int(row.sum()), int(page_size))


def _kept_until(keep_len_of: Callable[[int, int, int, int], int]) -> Any:
    """Return a count of freed slots by where ``keep_len_of`` says that kept ones end: of L, a, N and page size."""

    def count(outputs: Named, arguments: Named) -> None:
        num_nodes, page_size = int(arguments["num_draft_tokens"]), int(arguments["page_size"])
        pairs = zip(arguments["seq_lens"].tolist(), arguments["num_accepted_drafts"].tolist(), strict=True)
        freed = [length + num_nodes - keep_len_of(length, drafts + 1, num_nodes, page_size) for length, drafts in pairs]
        outputs["to_free_num_slots"] = np.array(freed, dtype=np.int32)

    return returning(count)


def _end_of_page(position: int, page_size: int) -> int:
    return -(-position // page_size) * page_size


def _nodes_of_the_first_tree(outputs: Named, arguments: Named) -> None:
    nodes = arguments["accept_indices"] % int(arguments["num_draft_tokens"])
    outputs["source_slots"] = arguments["out_cache_loc"][nodes]


def _listed(targets_of: Callable[..., Any], freed_of: Callable[..., Any]) -> Any:
    """Return a list of places of each window, by its width, its accepted tokens and its freed slots."""

    def change(outputs: Named, arguments: Named) -> None:
        windows = arguments["out_cache_loc"].reshape(-1, int(arguments["num_draft_tokens"]))
        counts = [*zip(arguments["num_accepted_drafts"] + 1, arguments["to_free_num_slots"], strict=True)]
        for name, places_of in (("target_slots", targets_of), ("to_free_slots", freed_of)):
            rows = [
                window[places_of(len(window), int(kept), int(freed)) % len(window)]
                for window, (kept, freed) in zip(windows, counts, strict=True)
            ]
            outputs[name] = np.concatenate([outputs[name][:0], *rows])

    return returning(change)


def _front(width: int, kept: int, freed: int) -> Array:
    return np.arange(kept)


def _back(width: int, kept: int, freed: int) -> Array:
    return np.arange(width - freed, width)


def _rest_of_targets_left(outputs: Named, arguments: Named) -> None:
    starts = _before(arguments["num_accepted_drafts"].astype(np.int64))
    windows = arguments["out_cache_loc"].reshape(-1, int(arguments["num_draft_tokens"]))
    targets = np.zeros_like(outputs["target_slots"])
    for window, start, drafts in zip(windows, starts, arguments["num_accepted_drafts"], strict=True):
        targets[start : start + drafts + 1] = window[: drafts + 1]
    outputs["target_slots"] = targets


def _filter(advance: Callable[[Array, Array], Array], count: Callable[[Array], Array] = lambda d: d + 1) -> Any:
    """Return a filter that advances by what ``advance`` makes of drafts and goers-on, and counts by ``count``."""

    def create(num_accepted_drafts: Array, unfinished_index: Array, seq_lens: Array) -> Array:
        goes_on = np.isin(np.arange(len(seq_lens)), unfinished_index)
        seq_lens += advance(num_accepted_drafts, goes_on).astype(seq_lens.dtype)
        return np.where(goes_on, count(num_accepted_drafts), 0).astype(np.int32)

    return instead(create)


def _first_ones_go_on(arguments: Named) -> None:
    arguments["unfinished_index"] = np.arange(len(arguments["unfinished_index"]))


def _kept(begin_of: Callable[[Array, Array], Array], kept_of: Callable[[Array, Array], Array]) -> Any:
    """Return a filter that takes segments from where ``begin_of`` says: of drafts and of counts, both by request."""

    def keep(
        target_slots: Array, num_accepted_drafts: Array, num_unfinished_tokens: Array, num_locations: int
    ) -> Array:
        drafts, counts = num_accepted_drafts.astype(np.int64), num_unfinished_tokens.astype(np.int64)
        slots = [
            int(target_slots[(begin + place) % len(target_slots)])
            for begin, kept in zip(begin_of(drafts, counts), kept_of(drafts, counts), strict=True)
            for place in range(kept)
        ]
        return np.array((slots + [0] * num_locations)[:num_locations], dtype=np.int64)

    return instead(keep)


def _before(counts: Array) -> Array:
    return np.cumsum(counts) - counts


MUTANTS = (
    *mutants_of(
        "align_evict_mask_to_page_size",
        ("OWN-700", "Slots are freed one by one, pages in use among them.", _aligned(lambda *_: 2**31)),
        (
            "OWN-701",
            "The page of the bonus token is kept, which has no slot yet.",
            _aligned(lambda length, kept, size: _floored(length + kept, size) - length),
        ),
        (
            "OWN-702",
            "The root is not counted, so the page of the draft before the last is kept.",
            _aligned(lambda length, kept, size: _floored(length + max(kept - 2, 0), size) - length),
        ),
        (
            "OWN-703",
            "Pages are counted from the start of the verify window.",
            _aligned(lambda length, kept, size: _floored(kept - 1, size)),
        ),
        ("OWN-704", "A page that begins before the window wraps to its end.", instead(_wraps)),
        (
            "OWN-705",
            "A page that ends after the window keeps slots of the next request.",
            _aligned(lambda length, kept, size: _floored(length + kept - 1, size) - length, fits=False),
        ),
        ("OWN-3141", "The last kept entry decides, not how many are kept.", instead(_by_the_last_one_kept)),
        ("OWN-3142", "What is kept is taken to be in front.", instead(_as_a_chain)),
    ),
    *mutants_of(
        "get_src_tgt_cache_loc",
        (
            "OWN-714",
            "The page of the last accepted token is freed when it begins one.",
            _kept_until(
                lambda length, kept, nodes, size: min(
                    max(_end_of_page(length + kept - 1, size), length + 1), length + nodes
                )
            ),
        ),
        (
            "OWN-715",
            "Everything after the accepted tokens is freed, on pages in use too.",
            _kept_until(lambda length, kept, nodes, size: length + kept),
        ),
        (
            "OWN-716",
            "Pages are counted from the start of the verify window.",
            _kept_until(lambda length, kept, nodes, size: length + min(_end_of_page(kept, size), nodes)),
        ),
        (
            "OWN-717",
            "A page that ends after the window frees less than nothing.",
            _kept_until(lambda length, kept, nodes, size: _end_of_page(length + kept, size)),
        ),
        (
            "OWN-718",
            "A page that is full keeps the next one.",
            _kept_until(lambda length, kept, nodes, size: min(_floored(length + kept, size) + size, length + nodes)),
        ),
        ("OWN-719", "Every path is looked up in the first tree.", returning(_nodes_of_the_first_tree)),
    ),
    *mutants_of(
        "get_target_cache_loc",
        ("OWN-720", "Targets start one draft, not one token, after those before.", returning(_rest_of_targets_left)),
        (
            "OWN-721",
            "What is freed follows the accepted slots, where it should end the window.",
            _listed(_front, lambda width, kept, freed: kept + np.arange(freed)),
        ),
        (
            "OWN-722",
            "Targets are the last slots that are kept.",
            _listed(lambda width, kept, freed: np.arange(width - freed - kept, width - freed), _back),
        ),
        ("OWN-723", "Slots are freed from the front.", _listed(_front, lambda width, kept, freed: np.arange(freed))),
    ),
    *mutants_of(
        "create_num_accepted_drafts_filter",
        (
            "OWN-706",
            "Lengths of ended requests stay, so that their last slots are never freed.",
            _filter(lambda drafts, goes_on: np.where(goes_on, drafts + 1, 0)),
        ),
        (
            "OWN-707",
            "Without a request that goes on, no length grows.",
            _filter(lambda drafts, goes_on: (drafts + 1) * goes_on.any()),
        ),
        ("OWN-708", "Lengths grow by drafts, not by tokens.", _filter(lambda drafts, goes_on: drafts)),
        (
            "OWN-709",
            "Drafts are counted, not tokens.",
            _filter(lambda drafts, goes_on: drafts + 1, count=lambda drafts: drafts),
        ),
        ("OWN-710", "The first requests go on, as many as do.", given(_first_ones_go_on)),
    ),
    *mutants_of(
        "filter_finished_cache_loc",
        (
            "OWN-711",
            "Segments are as long as drafts, the bonus token left out.",
            _kept(lambda drafts, counts: _before(drafts), lambda drafts, counts: counts),
        ),
        (
            "OWN-712",
            "Segments are those of the filtered list.",
            _kept(lambda drafts, counts: _before(counts), lambda drafts, counts: counts),
        ),
        (
            "OWN-713",
            "A request that has ended keeps its slots too.",
            _kept(lambda drafts, counts: _before(drafts + 1), lambda drafts, counts: drafts + 1),
        ),
    ),
)
