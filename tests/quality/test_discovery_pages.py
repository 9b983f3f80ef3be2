"""What operations on pages must meet: every page size, lengths around a page's end, every end of a verify."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specsim.properties.operations.pages.strategy import PAGE_SIZES
from tests.quality.pool import calls_of

Case = dict[str, Any]
PAGED = ("align_evict_mask_to_page_size", "get_src_tgt_cache_loc")
DRAFTS = ("assign_draft_cache_locs", "generate_draft_decode_kv_indices", "draft_decode_cascade_metadata")
METADATA = ("target_verify_metadata", "verify_cascade_metadata")


def accepted_tokens_of(case: Case) -> Any:
    """Return the accepted tokens of each request."""
    if "num_accepted_drafts" in case:
        return case["num_accepted_drafts"] + 1
    return (~case["evict_mask"]).reshape(-1, case["num_draft_tokens"]).sum(axis=1)


def ends(case: Case, past: int) -> Any:
    """Return whether a request ends so many positions after a page's end, with and without what it accepted."""
    size, lengths = case["page_size"], case["seq_lens"].astype(np.int64)
    return size > 2 and (lengths > 0).any() and (((lengths - past) % size == 0) & (lengths > 0)).any()


WAYS: dict[str, Callable[[Case], Any]] = {
    "a length just below a page's end": lambda case: ends(case, -1),
    "a length at a page's end": lambda case: ends(case, 0),
    "a length just above a page's end": lambda case: ends(case, 1),
    "one request": lambda case: len(case["seq_lens"]) == 1 and case["page_size"] > 1,
    "four requests": lambda case: len(case["seq_lens"]) >= 4 and case["page_size"] > 1,
}
VERIFIED: dict[str, Callable[[Case], Any]] = {
    "nothing accepted": lambda case: (accepted_tokens_of(case) == 1).any() and case["num_draft_tokens"] > 3,
    "everything accepted": lambda case: (
        (accepted_tokens_of(case) == case["num_draft_tokens"]).any() and case["num_draft_tokens"] > 3
    ),
    "a path that ends with its page": lambda case: (
        case["page_size"] > 2
        and ((case["seq_lens"] + accepted_tokens_of(case)) % case["page_size"] == 0).any()
        and (accepted_tokens_of(case) > 1).any()
    ),
    "a page that ends after the window": lambda case: (
        (case["seq_lens"] + case["num_draft_tokens"]) % case["page_size"] > 0
    ).any(),
}


@pytest.mark.parametrize("page_size", sorted(set(PAGE_SIZES)))
@pytest.mark.parametrize("operation", [*PAGED, *DRAFTS, *METADATA])
def test_every_page_size_is_drawn(operation: str, page_size: int) -> None:
    assert page_size in (1, 2, 4, 16, 64)
    calls_of(operation).first(lambda case: case["page_size"] == page_size and len(case["seq_lens"]) > 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", [*PAGED, *DRAFTS, *METADATA])
def test_lengths_lie_around_the_end_of_a_page(operation: str, way: str) -> None:
    calls_of(operation).first(WAYS[way])


@pytest.mark.parametrize("way", VERIFIED)
@pytest.mark.parametrize("operation", PAGED)
def test_verifies_end_in_every_way(operation: str, way: str) -> None:
    calls_of(operation).first(VERIFIED[way])


def test_masks_keep_entries_after_a_gap() -> None:
    def has_a_gap(case: Case) -> Any:
        mask = case["evict_mask"].reshape(-1, case["num_draft_tokens"])
        return case["page_size"] > 1 and (mask[:, :-1] & ~mask[:, 1:]).any()

    calls_of(PAGED[0]).first(has_a_gap)


@pytest.mark.parametrize(("goes_on", "of"), [(0, 3), (3, 3), (1, 3), (1, 1), (0, 1)])
def test_requests_end_alone_together_or_not_at_all(goes_on: int, of: int) -> None:
    calls_of("create_num_accepted_drafts_filter").first(
        lambda case: len(case["seq_lens"]) == of and len(case["unfinished_index"]) == goes_on
    )


def test_a_request_ends_between_two_that_go_on() -> None:
    calls_of("filter_finished_cache_loc").first(
        lambda case: (case["num_unfinished_tokens"][:3] > 0).tolist() == [True, False, True]
    )
