"""Strategies of scheduled verification: confidences and budgets, ragged windows, cuts and commits."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    VALUE_DTYPES,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
    one_of_evenly,
)
from specsim.properties.strategies.limits import sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import Fault, with_entry
from specsim.properties.strategies.malformed.structure import one_less
from specsim.properties.strategies.pages import near_a_page, page_sizes
from specsim.properties.strategies.topologies import BOUNDARY_NODES, batch, lengths, num_nodes, request_rows, slack

TOKEN_DTYPES = ("int32", "int64")
CONFIDENCES = ("halves", "saturated", "tenths", "fine")
"""Few values, so that survivals are equal; rows of ones after some draft; products that only rounding tells apart."""

BUDGETS = ("some", "some", "some", "none", "all")
MODES = ("before", "at", "after")
"""Where the walk over all drafts ends: before the cut, at it, or after it."""

NO_CAP = 2**31 - 1
TRAILING = ((), (1,), (3,), (2, 5))


@composite
def schedule_verify_lens(draw: DrawFn, max_requests: int = MAX_REQUESTS, has_ties: bool = True) -> Arguments:
    """Draw confidences, of which most calls have several alike, and budgets that end among equal survivals.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    has_ties : bool
        Whether survivals may be equal.
    """
    num_drafts = draw(sized("draft", mostly(st.integers(0, 5), st.sampled_from(BOUNDARY_NODES[:3]), one_in=12)))
    kind = draw(st.sampled_from(CONFIDENCES)) if has_ties else "distinct"
    requests = draw(batch(st.tuples(bulk(), st.integers(0, num_drafts)), max_requests))
    rows = _confidences(kind, [source for source, _ in requests], num_drafts)
    is_cut = draw(mostly(st.just(False), st.just(True), one_in=3))
    longest = num_drafts + 1
    longest = draw(mostly(st.just(longest), st.integers(1, longest), one_in=4))
    budget = draw(st.sampled_from(BUDGETS))
    most = len(rows) * num_drafts
    return {
        "confidence": rows,
        "num_drafts": np.array([count for _, count in requests], dtype=np.int32) if is_cut else None,
        "survival_eps": draw(_eps()),
        "verify_token_budget": 0 if budget == "none" else most + 1 if budget == "all" else draw(st.integers(0, most)),
        "max_verify_len": longest,
        "min_verify_len": draw(mostly(st.just(1), st.integers(0, longest), one_in=3)),
    }


def _confidences(kind: str, sources: list[Bulk], num_drafts: int) -> Array:
    """Return float32 [request, draft]."""
    rows = [source.integers(num_drafts, 0, 2**20) / 2.0**20 for source in sources]
    if kind == "halves":
        rows = [np.array([0.0, 0.5, 0.5, 1.0])[(4 * row).astype(np.int64) % 4] for row in rows]
    if kind == "saturated":
        first = [source.integer(0, num_drafts) for source in sources]
        rows = [np.where(np.arange(num_drafts) < start, 0.5, 1.0) for start in first]
    if kind == "tenths":
        rows = [np.round(row * 10) / 10 for row in rows]
    if kind == "distinct":
        # NOTE: survivals of a request fall, and those of two requests differ by more than rounding.
        rows = [0.5 + (0.4 * row + np.arange(num_drafts)) / 40 for row in rows]
    return np.array(rows, dtype=np.float32).reshape(len(rows), num_drafts)


def _eps() -> SearchStrategy[Array | None]:
    """Return a strategy of bounds: none, 0, a survival that occurs, or more than any."""
    given_ones = st.sampled_from((0.0, 0.25, 0.5, 2.0)).map(lambda eps: np.array([eps], dtype=np.float32))
    return mostly(st.none(), given_ones, one_in=3)


@made_once
def _verify_lens(count: int, least: int = 1) -> SearchStrategy[int]:
    """Return a strategy of the rows of a request, the fewest and all of them often."""
    return one_of_evenly(st.integers(least, count), st.sampled_from((least, count)))


def _padded(draw: DrawFn, total: int) -> int:
    """Return the rows of a forward, most often more than are verified."""
    return total + draw(st.sampled_from((0, 1, 2, 7, 64)))


@composite
def ragged_verify_window(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw chains of which the root, a part, or all is verified, and rows whose last position may be the last used."""
    count = draw(num_nodes())
    requests = draw(batch(st.tuples(lengths(), _verify_lens(count), bulk()), max_requests))
    committed = np.array([length for length, _, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES)))
    lens = np.array([own for _, own, _ in requests], dtype=np.int32)
    width = int((committed.astype(np.int64) + lens).max(initial=0)) + draw(slack())
    rows, req_to_token = request_rows(draw(bulk()), len(requests), width)
    candidates = np.array([source.integers(count, 1, 9) for _, _, source in requests], dtype=np.int64)
    return {
        "candidates": candidates.reshape(-1, count),
        "verify_lens": lens,
        "req_pool_indices": rows,
        "req_to_token": req_to_token,
        "seq_lens": committed,
        "num_tokens": _padded(draw, int(lens.sum())),
    }


@composite
def pad_verify_lens_to_bucket(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw batches that fill their bucket or do not, with rows left that do not divide by what is added."""
    lens = draw(batch(st.integers(1, 8), max_requests))
    num_padding = draw(st.sampled_from((0, 0, 1, 2, 3, 5)))
    left = draw(mostly(st.integers(0, 13), st.just(300), one_in=8)) if lens or num_padding else 0
    return {
        "verify_lens": np.array(lens, dtype=np.int32),
        "num_padded_requests": len(lens) + num_padding,
        "num_tokens": sum(lens) + left,
        "max_verify_len": draw(mostly(st.just(NO_CAP), st.integers(1, 9), one_in=3)),
    }


@composite
def scatter_compact_to_strided(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows of any element type, padding last; a request may have none, some, or all of its block."""
    count = draw(num_nodes())
    lens = draw(batch(_verify_lens(count, 0), max_requests))
    shape = (_padded(draw, sum(lens)), *draw(st.sampled_from(TRAILING)))
    return {
        "values": draw(bulk()).values(shape, draw(st.sampled_from(VALUE_DTYPES))),
        "verify_lens": np.array(lens, dtype=np.int32),
        "num_draft_tokens": count,
    }


@composite
def ragged_verify_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows in whole pages; the page table may cover more than the longest sequence."""
    page_size = draw(sized("page_size", one_of_evenly(page_sizes(), st.just(1))))
    committed = near_a_page(page_size, page_size) if page_size > 1 else lengths()
    requests = draw(batch(st.tuples(committed, _verify_lens(8, 0)), max_requests))
    longest = max((length + own for length, own in requests), default=0)
    max_seq_len_k = longest + draw(slack())
    width = max_seq_len_k + draw(slack())
    req_pool_indices, req_to_token = request_rows(draw(bulk()), len(requests), width, page_size)
    return {
        "req_pool_indices": req_pool_indices,
        "req_to_token": req_to_token,
        "seq_lens": np.array([length for length, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "verify_lens": np.array([own for _, own in requests], dtype=np.int32),
        "max_seq_len_k": max_seq_len_k,
        "page_size": page_size,
    }


@composite
def cap_accepted_drafts(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw walks that end before the cut, at it, or after it, a third of the requests each; drafts are distinct.

    After the cut the token of the walk is anything at all.
    """
    count = draw(num_nodes())
    one = st.tuples(_verify_lens(count), st.sampled_from(MODES), st.integers(0, 2**16), bulk())
    rows, accepted, bonus, lens = [], [], [], []
    for own, mode, place, source in draw(batch(one, max_requests)):
        least, most = {"before": (0, own - 1), "at": (own - 1, own - 1), "after": (own, count - 1)}[mode]
        number = least + place % (most - least + 1) if least <= most else own - 1
        rows.append(100 + source.order(count) * 2)
        accepted.append(number)
        bonus.append(source.integer(0, 9) if number < own else (-1, 2**31 - 1, 0)[place % 3])
        lens.append(own)
    return {
        "candidates": np.array(rows, dtype=np.int64).reshape(-1, count),
        "num_accepted_drafts": np.array(accepted, dtype=np.int32),
        "bonus_tokens": np.array(bonus, dtype=draw(st.sampled_from(TOKEN_DTYPES))),
        "verify_lens": np.array(lens, dtype=np.int32),
        "is_compact": draw(st.booleans()),
    }


@composite
def commit_inject_layout(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw commits of any length, in half of the calls behind a gate; slots are mapped, or lie in a ring, or neither.

    A row of the map ends with the last position that is committed.
    """
    count = draw(num_nodes())
    one = st.tuples(lengths(), _verify_lens(count, 0), _verify_lens(count, 0))
    requests = draw(batch(one, max_requests))
    commit = np.array([committed for _, committed, _ in requests], dtype=np.int32)
    gate = np.array([own for _, _, own in requests], dtype=np.int32) if draw(st.booleans()) else None
    committed = np.array([length for length, _, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES)))
    ends = committed.astype(np.int64) + (commit if gate is None else np.minimum(commit, gate))
    source = draw(bulk())
    width = int(ends.max(initial=1)) + draw(slack())
    rows, req_to_token = request_rows(source, len(requests), width)
    where = draw(st.sampled_from(("slots", "mapped", "ring")))
    num_slots = int(req_to_token.max(initial=0)) + 1
    places = source.order(num_slots).astype(draw(st.sampled_from(TOKEN_DTYPES))) + 7
    return {
        "req_pool_indices": rows,
        "req_to_token": req_to_token,
        "seq_lens": committed,
        "commit_lens": commit,
        "verify_lens": gate,
        "slot_map": places if where == "mapped" else None,
        "num_draft_tokens": count,
        "ring_size": draw(st.integers(1, 9)) if where == "ring" else 0,
    }


def _shorter_rows(arguments: Arguments, where: int) -> Arguments:
    """The rows of the map end one position earlier."""
    del where
    return {**arguments, "req_to_token": arguments["req_to_token"][:, :-1].copy()}


def _fewer_rows(arguments: Arguments, where: int) -> Arguments:
    """The forward has fewer rows than are verified."""
    return {**arguments, "values": arguments["values"][: where % max(int(arguments["verify_lens"].sum()), 1)]}


def _slot_after_the_map(arguments: Arguments, where: int) -> Arguments:
    """A slot has no entry in the map."""
    places = arguments["slot_map"]
    return arguments if places is None else with_entry(arguments, "req_to_token", where, len(places))


FAULTS: dict[str, tuple[Fault, ...]] = {
    "ragged_verify_window": (one_less("num_tokens"), _shorter_rows),
    "pad_verify_lens_to_bucket": (one_less("num_tokens"), one_less("num_padded_requests")),
    "scatter_compact_to_strided": (_fewer_rows,),
    "ragged_verify_metadata": (one_less("max_seq_len_k"), _shorter_rows),
    "commit_inject_layout": (_shorter_rows, _slot_after_the_map),
}
