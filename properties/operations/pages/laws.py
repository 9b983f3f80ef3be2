"""Laws of pages: what a verify keeps and gives back where a page holds several slots."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.counts import ceil_to
from specsim.properties.laws.checks import Case, arrangements, batch_of, outputs_of, require, require_equal, states
from specsim.properties.operations.pages import strategy as strategies


def kept_slots_end_with_their_page(backend: Backend, case: Case) -> None:
    """Kept are the positions up to the end of the last accepted one's page, or all that the chain has."""
    mask = outputs_of(backend, _ALIGN, case)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    given = case["evict_mask"].reshape(mask.shape)
    for request, length in enumerate(case["seq_lens"].tolist()):
        ends = ceil_to(length + int((~given[request]).sum()), case["page_size"])
        expected = length + np.arange(case["num_draft_tokens"]) >= ends
        require_equal(f"evict_mask of request {request}", mask[request], expected)


def the_page_that_kept_entries_reach_is_kept(backend: Backend, case: Case) -> None:
    """One page is kept whole, which as many positions as are kept reach; every other entry stays, wherever it is."""
    mask = outputs_of(backend, _ALIGN, case)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    given = case["evict_mask"].reshape(mask.shape)
    for request, length in enumerate(case["seq_lens"].tolist()):
        pages = (length + np.arange(case["num_draft_tokens"])) // case["page_size"]
        last = length + case["num_draft_tokens"] - int(given[request].sum()) - 1
        expected = given[request] & (pages != last // case["page_size"])
        require_equal(f"evict_mask of request {request}", mask[request], expected)


def freed_slots_lie_on_pages_of_their_own(backend: Backend, case: Case) -> None:
    """No page holds a committed or accepted position and one that is given back; and nothing accepted is given back."""
    mask = outputs_of(backend, _ALIGN, case)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    given = case["evict_mask"].reshape(mask.shape)
    require(not (mask & ~given).any(), "an accepted slot", "given back", "kept")
    for request, length in enumerate(case["seq_lens"].tolist()):
        pages = (length + np.arange(case["num_draft_tokens"])) // case["page_size"]
        in_use = {*pages[~given[request]].tolist(), *(range(-(-length // case["page_size"])))}
        shared = sorted(in_use & {*pages[mask[request]].tolist()})
        require_equal(f"pages of request {request} that are given back while in use", shared, [])


def sources_are_slots_of_the_paths(backend: Backend, case: Case) -> None:
    """An accepted node's KV comes from the slot that it wrote to."""
    slots = outputs_of(backend, _SOURCES, case)["source_slots"]
    require_equal("source_slots", slots, [case["out_cache_loc"][node] for node in case["accept_indices"].tolist()])


def what_is_kept_ends_with_a_page(backend: Backend, case: Case) -> None:
    """Kept is what was accepted and the rest of its last page: neither more nor less can be given back."""
    to_free = outputs_of(backend, _SOURCES, case)["to_free_num_slots"].tolist()
    page_size = case["page_size"]
    for request, length in enumerate(case["seq_lens"].tolist()):
        needed, end = length + int(case["num_accepted_drafts"][request]) + 1, length + case["num_draft_tokens"]
        kept = end - to_free[request]
        what = f"positions of request {request} that are kept, {needed} of {end} in use"
        require(needed <= kept <= end, what, kept, f"{needed} to {end}")
        require(kept - needed < page_size, what, kept, f"fewer than {needed + page_size}")
        require(kept % page_size == 0 or kept == end, what, kept, "a multiple of the page size, or all")


def both_rules_free_the_same_positions(backend: Backend, case: Case) -> None:
    """A chain that accepts as many tokens gives back as many slots by its mask."""
    to_free = outputs_of(backend, _SOURCES, case)["to_free_num_slots"]
    accepted = case["num_accepted_drafts"] + 1
    asked = {name: case[name] for name in ("seq_lens", "num_draft_tokens", "page_size")}
    asked["evict_mask"] = (np.arange(case["num_draft_tokens"]) >= accepted[:, None]).reshape(-1)
    mask = outputs_of(backend, _ALIGN, asked)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    require_equal("to_free_num_slots", to_free, mask.sum(axis=1))


def windows_are_kept_in_front_and_freed_behind(backend: Backend, case: Case) -> None:
    """Of each window the first slots are targets and the last ones are freed, request after request."""
    outputs = outputs_of(backend, _TARGETS, case)
    windows = case["out_cache_loc"].reshape(-1, case["num_draft_tokens"]).tolist()
    accepted = (case["num_accepted_drafts"] + 1).tolist()
    targets = [slot for window, count in zip(windows, accepted, strict=True) for slot in window[:count]]
    require_equal("target_slots", outputs["target_slots"], targets)
    backs = zip(windows, case["to_free_num_slots"].tolist(), strict=True)
    freed = [slot for window, count in backs for slot in window[len(window) - count :]]
    require_equal("to_free_slots", outputs["to_free_slots"], freed)


def windows_are_moved_and_freed_one_by_one(backend: Backend, case: Case) -> None:
    """What a request moves and gives back does not depend on its neighbours."""
    counts = {"accept_indices": (case["num_accepted_drafts"] + 1).tolist()}
    whole = _reclaimed(backend, case)
    for requests in arrangements(len(case["seq_lens"])):
        got = _reclaimed(backend, batch_of(_SOURCES, case, requests, counts))
        for new, old in enumerate(requests):
            require_equal(f"moves and freed slots of request {old} in {requests}", got[new], whole[old])


def _reclaimed(backend: Backend, case: Case) -> list[list[int]]:
    """Return (sources, targets, freed slots) of each request, one after the other."""
    sources = outputs_of(backend, _SOURCES, case)
    to_free = sources["to_free_num_slots"]
    asked = {name: case[name] for name in ("num_accepted_drafts", "out_cache_loc", "num_draft_tokens")}
    sizes = {"num_target_slots": len(sources["source_slots"]), "num_to_free_slots": int(to_free.sum())}
    targets = outputs_of(backend, _TARGETS, {**asked, **sizes, "to_free_num_slots": to_free})
    kept, freed = np.cumsum(case["num_accepted_drafts"] + 1)[:-1], np.cumsum(to_free)[:-1]
    parts = [
        np.split(sources["source_slots"], kept),
        np.split(targets["target_slots"], kept),
        np.split(targets["to_free_slots"], freed),
    ]
    return [[*map(int, np.concatenate(mine))] for mine in zip(*parts, strict=True)][: len(to_free)]


def every_length_grows_by_what_was_output(backend: Backend, case: Case) -> None:
    """Every request has the accepted drafts and a bonus token more, whether it goes on or has ended."""
    seq_lens = outputs_of(backend, _FILTER, case)["seq_lens"]
    require_equal("seq_lens", seq_lens, case["seq_lens"] + case["num_accepted_drafts"] + 1)


def tokens_of_ended_requests_are_not_counted(backend: Backend, case: Case) -> None:
    """A request that goes on counts its accepted drafts and the bonus token, any other one nothing."""
    counts = outputs_of(backend, _FILTER, case)["num_unfinished_tokens"]
    goes_on = np.isin(np.arange(len(counts)), case["unfinished_index"])
    require_equal("num_unfinished_tokens", counts, np.where(goes_on, case["num_accepted_drafts"] + 1, 0))


def kept_slots_are_fronts_of_segments(backend: Backend, case: Case) -> None:
    """The list is cut into one segment a request, and of each so many slots stay, in order, as are asked for."""
    slots = outputs_of(backend, _KEEP, case)["out_cache_loc"]
    expected, left = [], case["target_slots"].tolist()
    for drafts, kept in zip(case["num_accepted_drafts"].tolist(), case["num_unfinished_tokens"].tolist(), strict=True):
        segment, left = left[: drafts + 1], left[drafts + 1 :]
        expected += segment[:kept]
    require_equal("out_cache_loc", slots, expected)


def slots_follow_the_filter(backend: Backend, case: Case) -> None:
    """With the counts that the filter makes, all slots of requests that go on are kept, and none of the others."""
    counts = outputs_of(backend, _FILTER, case)["num_unfinished_tokens"]
    owners = np.repeat(np.arange(len(counts)), case["num_accepted_drafts"] + 1)
    asked = {
        "target_slots": np.arange(len(owners), dtype=np.int64) + 1,
        "num_accepted_drafts": case["num_accepted_drafts"],
        "num_unfinished_tokens": counts,
        "num_locations": int(counts.sum()),
    }
    slots = outputs_of(backend, _KEEP, asked)["out_cache_loc"]
    require_equal("out_cache_loc", slots, np.flatnonzero(np.isin(owners, case["unfinished_index"])) + 1)


_ALIGN = "align_evict_mask_to_page_size"

_SOURCES = "get_src_tgt_cache_loc"
_TARGETS = "get_target_cache_loc"
_FILTER = "create_num_accepted_drafts_filter"
_KEEP = "filter_finished_cache_loc"

PROPERTIES = states(
    "pages",
    (kept_slots_end_with_their_page, strategies.chains_on_pages, _ALIGN, "P42"),
    (the_page_that_kept_entries_reach_is_kept, _ALIGN, "P42"),
    (freed_slots_lie_on_pages_of_their_own, strategies.chains_on_pages, _ALIGN, "P38"),
    (sources_are_slots_of_the_paths, _SOURCES, "P40"),
    (what_is_kept_ends_with_a_page, _SOURCES, "P38"),
    (both_rules_free_the_same_positions, (_SOURCES, _ALIGN), "P38"),
    (windows_are_kept_in_front_and_freed_behind, _TARGETS, "P40"),
    (windows_are_moved_and_freed_one_by_one, (_SOURCES, _TARGETS), "P31"),
    (every_length_grows_by_what_was_output, _FILTER),
    (tokens_of_ended_requests_are_not_counted, _FILTER),
    (kept_slots_are_fronts_of_segments, _KEEP, "P40"),
    (slots_follow_the_filter, (_FILTER, _KEEP), "P38"),
)
