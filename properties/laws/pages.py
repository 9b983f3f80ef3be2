"""Laws of pages: what a verify keeps and gives back where a page holds several slots."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import Case, outputs_of, require, require_equal, state
from specsim.properties.strategies import pages as pages_strategies


def kept_slots_end_with_their_page(backend: Backend, case: Case) -> None:
    """Kept are the positions up to the end of the last accepted one's page, or all that the chain has."""
    mask = outputs_of(backend, _ALIGN[0], case)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    given = case["evict_mask"].reshape(mask.shape)
    for request, length in enumerate(case["seq_lens"].tolist()):
        ends = _page_end(length + int((~given[request]).sum()), case["page_size"])
        expected = length + np.arange(case["num_draft_tokens"]) >= ends
        require_equal(f"evict_mask of request {request}", mask[request], expected)


def freed_slots_lie_on_pages_of_their_own(backend: Backend, case: Case) -> None:
    """No page holds a committed or accepted position and one that is given back; and nothing accepted is given back."""
    mask = outputs_of(backend, _ALIGN[0], case)["evict_mask"].reshape(-1, case["num_draft_tokens"])
    given = case["evict_mask"].reshape(mask.shape)
    require(not (mask & ~given).any(), "an accepted slot", "given back", "kept")
    for request, length in enumerate(case["seq_lens"].tolist()):
        pages = (length + np.arange(case["num_draft_tokens"])) // case["page_size"]
        in_use = {*pages[~given[request]].tolist(), *(range(-(-length // case["page_size"])))}
        shared = sorted(in_use & {*pages[mask[request]].tolist()})
        require_equal(f"pages of request {request} that are given back while in use", shared, [])


def every_length_grows_by_what_was_output(backend: Backend, case: Case) -> None:
    """Every request has the accepted drafts and a bonus token more, whether it goes on or has ended."""
    seq_lens = outputs_of(backend, _FILTER[0], case)["seq_lens"]
    grown = [
        sum(pair) + 1 for pair in zip(case["seq_lens"].tolist(), case["num_accepted_drafts"].tolist(), strict=True)
    ]
    require_equal("seq_lens", seq_lens, grown)


def tokens_of_ended_requests_are_not_counted(backend: Backend, case: Case) -> None:
    """A request that goes on counts its accepted drafts and the bonus token, any other one nothing."""
    counts = outputs_of(backend, _FILTER[0], case)["num_unfinished_tokens"]
    goes_on = set(case["unfinished_index"].tolist())
    drafts = case["num_accepted_drafts"].tolist()
    expected = [count + 1 if request in goes_on else 0 for request, count in enumerate(drafts)]
    require_equal("num_unfinished_tokens", counts, expected)


def kept_slots_are_fronts_of_segments(backend: Backend, case: Case) -> None:
    """The list is cut into one segment a request, and of each so many slots stay, in order, as are asked for."""
    slots = outputs_of(backend, _KEEP[0], case)["out_cache_loc"]
    expected, left = [], case["target_slots"].tolist()
    for drafts, kept in zip(case["num_accepted_drafts"].tolist(), case["num_unfinished_tokens"].tolist(), strict=True):
        segment, left = left[: drafts + 1], left[drafts + 1 :]
        expected += segment[:kept]
    require_equal("out_cache_loc", slots, expected)


def slots_follow_the_filter(backend: Backend, case: Case) -> None:
    """With the counts that the filter makes, all slots of requests that go on are kept, and none of the others."""
    counts = outputs_of(backend, _FILTER[0], case)["num_unfinished_tokens"]
    owners = np.repeat(np.arange(len(counts)), case["num_accepted_drafts"] + 1)
    asked = {
        "target_slots": np.arange(len(owners), dtype=np.int64) + 1,
        "num_accepted_drafts": case["num_accepted_drafts"],
        "num_unfinished_tokens": counts,
        "num_locations": int(counts.sum()),
    }
    slots = outputs_of(backend, _KEEP[0], asked)["out_cache_loc"]
    require_equal("out_cache_loc", slots, np.flatnonzero(np.isin(owners, case["unfinished_index"])) + 1)


def _page_end(length: int, page_size: int) -> int:
    return -(-length // page_size) * page_size


_ALIGN = ("align_evict_mask_to_page_size",)

_FILTER = ("create_num_accepted_drafts_filter",)
_KEEP = ("filter_finished_cache_loc",)

PROPERTIES = (
    state("pages", kept_slots_end_with_their_page, pages_strategies.align_evict_mask_to_page_size, _ALIGN, "P42"),
    state(
        "pages", freed_slots_lie_on_pages_of_their_own, pages_strategies.align_evict_mask_to_page_size, _ALIGN, "P38"
    ),
    state(
        "pages",
        every_length_grows_by_what_was_output,
        pages_strategies.create_num_accepted_drafts_filter,
        _FILTER,
    ),
    state(
        "pages", tokens_of_ended_requests_are_not_counted, pages_strategies.create_num_accepted_drafts_filter, _FILTER
    ),
    state("pages", kept_slots_are_fronts_of_segments, pages_strategies.filter_finished_cache_loc, _KEEP, "P40"),
    state(
        "pages", slots_follow_the_filter, pages_strategies.create_num_accepted_drafts_filter, (*_FILTER, *_KEEP), "P38"
    ),
)
