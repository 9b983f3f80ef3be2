"""Strategies of scheduled verification: confidences and budgets, ragged windows, cuts and commits."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from specsim.config import SURVIVAL_EPS
from specsim.properties.composite import composite
from specsim.properties.operations.acceptance import strategy as acceptance
from specsim.properties.operations.dflash import strategy as dflash
from specsim.properties.operations.pages.strategy import near_a_page, page_sizes
from specsim.properties.strategies import topologies
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
from specsim.properties.strategies.limits import nearest, sized, taken
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import Fault, with_entry
from specsim.properties.strategies.malformed.structure import one_less
from specsim.properties.strategies.topologies import BOUNDARY_NODES, batch, lengths, num_nodes, request_rows, slack

TOKEN_DTYPES = ("int32", "int64")
CONFIDENCES = ("halves", "saturated", "rounded", "fine", "fine")
"""Few values, so that survivals are equal; ones after some draft; products that only rounding makes equal; any."""

BUDGETS = ("tied", "tied", "tied", "some", "some", "some", "some", "some", "all", "none")
"""Whether the budget ends between equal survivals, somewhere, or after all drafts."""
MODES = ("before", "at", "after")
"""Where the walk over all drafts ends: before the cut, at it, or after it."""

NO_CAP = 2**31 - 1
TRAILING = ((), (1,), (3,), (2, 5))


@composite
def schedule_verify_lens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS, has_ties: bool = True) -> Arguments:
    """Draw confidences, of which most calls have several alike, and budgets that end among equal survivals.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    has_ties : bool
        Whether survivals may be equal.
    """
    some = mostly(st.integers(3, 6), st.sampled_from((0, 1, 2, *BOUNDARY_NODES[:3])), one_in=8)
    num_drafts = draw(sized("draft", some))
    kind = draw(st.sampled_from(CONFIDENCES)) if has_ties else "distinct"
    requests = draw(batch(st.tuples(bulk(), st.integers(0, num_drafts)), max_requests))
    rows = _confidences(kind, [source for source, _ in requests], num_drafts)
    is_cut = draw(st.booleans())
    counts = np.array([count if is_cut else num_drafts for _, count in requests], dtype=np.int32)
    longest = num_drafts + 1
    longest = draw(mostly(st.just(longest), st.integers(1, longest), one_in=5))
    survivals = np.cumprod(rows, axis=1)[np.arange(num_drafts)[None, :] < counts[:, None]]
    eps = draw(_eps(survivals))
    counted = survivals[survivals >= (SURVIVAL_EPS if eps is None else eps[0])]
    return {
        "confidence": rows,
        "num_drafts": counts if is_cut else None,
        "survival_eps": eps,
        "verify_token_budget": _budget(draw(st.sampled_from(BUDGETS)), counted, draw(st.integers(0, 2**16))),
        "max_verify_len": longest,
        "min_verify_len": min(draw(st.sampled_from((1, 1, 1, 1, 0, 0, 0, 2, 2, 3))), longest),
    }


def _budget(kind: str, survivals: Array, number: int) -> int:
    """Return a budget of no draft, of all and one more, or of some, so that it ends between equal survivals or not."""
    best_first = np.sort(survivals)[::-1]
    tied = np.flatnonzero(best_first[1:] == best_first[:-1]) + 1
    if kind == "tied" and len(tied):
        return int(tied[number % len(tied)])
    most = len(best_first)
    return 0 if kind == "none" else most + 1 if kind == "all" else 1 + number % max(most - 1, 1)


@composite
def tied_survivals(draw: st.DrawFn) -> Arguments:
    """Draw calls of several requests whose budget ends between equal survivals, or nearly so: free roots, no limits."""
    num_drafts = draw(st.integers(2, 5))
    kind = draw(st.sampled_from(("halves", "saturated", "rounded")))
    sources = draw(st.lists(bulk(), min_size=nearest("request", 2), max_size=nearest("request", MAX_REQUESTS)))
    rows = _confidences(kind, sources, num_drafts)
    survivals = np.cumprod(rows, axis=1)
    budget = _budget("tied", survivals[survivals >= SURVIVAL_EPS], draw(st.integers(0, 2**16)))
    limits = {"verify_token_budget": budget, "max_verify_len": num_drafts + 1, "min_verify_len": 1}
    return {"confidence": rows, "num_drafts": None, "survival_eps": None, **limits}


@composite
def limited_survivals(draw: st.DrawFn) -> Arguments:
    """Draw calls in which budgets admit nearly all drafts, so that what else limits lengths shows."""
    num_drafts = draw(st.integers(1, 5))
    sources = draw(batch(bulk(), MAX_REQUESTS))
    rows = _confidences(draw(st.sampled_from(CONFIDENCES)), sources, num_drafts)
    counts = np.array([source.integer(0, num_drafts) for source in sources], dtype=np.int32)
    survivals = np.cumprod(rows, axis=1)
    eps = draw(_eps(survivals[survivals > 0]))
    longest = draw(one_of_evenly(st.just(num_drafts + 1), st.integers(1, num_drafts + 1)))
    return {
        "confidence": rows,
        "num_drafts": counts if draw(mostly(st.just(True), st.just(False), one_in=3)) else None,
        "survival_eps": eps,
        "verify_token_budget": rows.size + draw(st.integers(-1, 1)) if rows.size else 0,
        "max_verify_len": longest,
        "min_verify_len": min(draw(st.sampled_from((0, 0, 1, 2, longest))), longest),
    }


def distinct_survivals() -> st.SearchStrategy[Arguments]:
    """Return a strategy of calls in which no two survivals are equal."""
    return schedule_verify_lens(has_ties=False)


def _confidences(kind: str, sources: list[Bulk], num_drafts: int) -> Array:
    """Return float32 [request, draft]."""
    rows = [source.integers(num_drafts, 0, 2**20) / 2.0**20 for source in sources]
    if kind == "halves":
        rows = [np.array([0.0, 0.5, 0.5, 1.0])[(4 * row).astype(np.int64) % 4] for row in rows]
    if kind == "saturated":
        first = [source.integer(0, 2) for source in sources]
        rows = [np.where(np.arange(num_drafts) < start, 0.5, 1.0) for start in first]
    if kind == "rounded":
        # NOTE: in float32 nearly all of them survive with 1/4 from the second draft on, in float64 each a little apart.
        rows = [np.where(np.arange(num_drafts) == 1, 0.25, 1) for _ in sources]
        for row, source in zip(rows, sources, strict=True):
            row[:1] = np.float32(source.integer(256, 2**10) / 2.0**10)
            row[1:2] = row[1:2] / row[:1]
    if kind == "distinct" and rows:
        count = len(rows) * num_drafts
        ranks = np.sort(sources[0].order(count).reshape(len(rows), num_drafts), axis=1)[:, ::-1]
        survivals = (ranks + 1.0) / (count + 1.0)
        rows = list(survivals / np.hstack([np.ones((len(rows), 1)), survivals[:, :-1]]))
    return np.array(rows, dtype=np.float32).reshape(len(rows), num_drafts)


@composite
def _eps(draw: st.DrawFn, survivals: Array) -> Array | None:
    """Draw no bound, 0, more than any survival, or one that occurs."""
    kind = draw(st.sampled_from(("none", "none", "none", "occurs", "occurs", "occurs", "zero", "two")))
    if kind == "none" or (kind == "occurs" and not len(survivals)):
        return None
    occurring = {"zero": 0.0, "two": 2.0}.get(kind)
    number = draw(st.integers(0, 2**16))
    return np.array([survivals[number % len(survivals)] if occurring is None else occurring], dtype=np.float32)


@made_once
def _verify_lens(count: int, least: int = 1) -> st.SearchStrategy[int]:
    """Return a strategy of the rows of a request, the fewest and all of them often."""
    return one_of_evenly(st.integers(least, count), st.sampled_from((least, count)))


def _padded(draw: st.DrawFn, total: int) -> int:
    """Return the rows of a forward, most often more than are verified."""
    return total + draw(st.sampled_from((0, 1, 2, 7, 64)))


@composite
def ragged_verify_window(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw chains of which the root, a part, or all is verified, and rows whose last position may be the last used."""
    count = draw(num_nodes())
    requests = draw(batch(st.tuples(lengths(), _verify_lens(count), bulk()), max_requests))
    committed = np.array([length for length, _, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES)))
    lens = np.array([own for _, own, _ in requests], dtype=np.int32)
    width = int((committed.astype(np.int64) + lens).max(initial=0)) + draw(slack())
    rows = request_rows(draw(bulk()), len(requests), width)
    candidates = np.array([source.integers(count, 1, 9) for _, _, source in requests], dtype=np.int64)
    chains = {"candidates": candidates.reshape(-1, count), "verify_lens": lens}
    known = topologies.mapped(rows, committed, committed.dtype)
    return {**chains, **known, "num_tokens": _padded(draw, int(lens.sum()))}


@composite
def pad_verify_lens_to_bucket(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
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
def scatter_compact_to_strided(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
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
def ragged_verify_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows in whole pages; the page table may cover more than the longest sequence."""
    page_size = draw(sized("page_size", mostly(page_sizes(), st.just(1), one_in=4)))
    committed = near_a_page(page_size, page_size) if page_size > 1 else lengths()
    requests = draw(batch(st.tuples(committed, _verify_lens(8, 0)), max_requests))
    max_seq_len_k = max((length + own for length, own in requests), default=0) + draw(slack())
    width = max_seq_len_k + draw(slack())
    rows = request_rows(draw(bulk()), len(requests), width, page_size)
    lens = np.array([own for _, own in requests], dtype=np.int32)
    known = topologies.mapped(rows, [length for length, _ in requests], draw(st.sampled_from(LENGTH_DTYPES)))
    return {**known, "verify_lens": lens, "max_seq_len_k": max_seq_len_k, "page_size": page_size}


@composite
def cap_accepted_drafts(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
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
        "is_compact": draw(st.sampled_from(taken("is_compact", (False, True)))),
    }


@composite
def commit_inject_layout(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw commits of any length, half of the calls with a gate; slots are mapped, or lie in a ring, or neither.

    A row of the map ends with the last position that is committed.
    """
    count = draw(num_nodes())
    requests = draw(batch(st.tuples(lengths(), _verify_lens(count, 0), _verify_lens(count, 0)), max_requests))
    commit = np.array([committed for _, committed, _ in requests], dtype=np.int32)
    gate = np.array([own for _, _, own in requests], dtype=np.int32) if draw(st.booleans()) else None
    committed = np.array([length for length, _, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES)))
    counts = commit if gate is None else np.minimum(commit, gate)
    where = draw(st.sampled_from(("slots", "mapped", "ring")))
    ends = np.where((counts > 0) & (where != "ring"), committed.astype(np.int64) + counts, 0)
    source = draw(bulk())
    width = int(ends.max(initial=1)) + draw(slack())
    rows = request_rows(source, len(requests), width)
    places = source.order(int(rows[1].max(initial=0)) + 1).astype(draw(st.sampled_from(TOKEN_DTYPES))) + 7
    return {
        **topologies.mapped(rows, committed, committed.dtype),
        "commit_lens": commit,
        "verify_lens": gate,
        "slot_map": places if where == "mapped" else None,
        "num_draft_tokens": count,
        "ring_size": draw(st.integers(1, 9)) if where == "ring" else 0,
    }


POISONS = ("none", "huge", "next", "other")
"""What target rows after the cut say: token 0, a token that was not drafted, the next draft, or another token."""


@composite
def greedy_walks(draw: st.DrawFn) -> Arguments:
    """Draw chains and the target's choices, of which half agree to the end, lengths, and choices that were not made.

    ``other_predict`` agrees with ``target_predict`` on the rows that are verified.
    """
    chains = draw(dflash.chains())
    candidates, target = chains["candidates"].copy(), chains["target_predict"].copy()
    num_requests, count = candidates.shape
    lens = np.array([draw(_verify_lens(count)) for _ in range(num_requests)], dtype=np.int32)
    for request in range(num_requests):
        if draw(st.booleans()):
            target[request, :-1] = candidates[request, 1:]
    poison = draw(st.sampled_from(POISONS))
    other = {"none": np.zeros_like(target), "huge": np.full_like(target, 2**31 - 1), "other": target + 1}.get(poison)
    if other is None:
        other = np.roll(candidates, -1, axis=1)
    other_predict = np.where(np.arange(count)[None, :] < lens[:, None], target, other)
    return {"candidates": candidates, "target_predict": target, "other_predict": other_predict, "verify_lens": lens}


@composite
def sampled_walks(draw: st.DrawFn) -> Arguments:
    """Draw ragged chains, lengths, and target rows that agree with the given ones where a chain is verified."""
    chains = draw(acceptance.chain_speculative_sampling(is_whole=True))
    target, vocab = chains["target_probs"], chains["target_probs"].shape[1]
    other, lens = target.copy(), []
    source = draw(bulk())
    for request, (start, end) in enumerate(pairwise(chains["cu_num_drafts"].tolist())):
        lens.append(draw(_verify_lens(end - start + 1)))
        poison = draw(st.sampled_from(POISONS))
        for node in range(lens[-1], end - start + 1):
            following = int(chains["draft_tokens"][start + node]) if node < end - start else 0
            token = {"next": max(following, 0), "huge": vocab - 1, "none": 0}.get(poison, source.integer(0, vocab - 1))
            other[start + request + node] = np.arange(vocab) == token
    return {"chains": chains, "other_probs": other, "verify_lens": np.array(lens, dtype=np.int32)}


@composite
def windows_of_rows(draw: st.DrawFn) -> Arguments:
    """Draw a window, a row of numbers for each node, and padding that holds NaN, infinities or huge numbers."""
    window = draw(ragged_verify_window())
    rows = draw(bulk()).values((window["candidates"].size, draw(st.sampled_from((1, 3, 8)))), "float32")
    return {**window, "rows": rows, "padding": draw(st.sampled_from((np.nan, np.inf, -3e38, 7.0)))}


@composite
def whole_windows(draw: st.DrawFn) -> Arguments:
    """Draw the metadata of a forward in which all requests verify the same number of rows."""
    arguments: Arguments = draw(ragged_verify_metadata())
    lens, most = arguments["verify_lens"], int(arguments["verify_lens"].min(initial=8))
    return {**arguments, "verify_lens": np.full_like(lens, most)}


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
