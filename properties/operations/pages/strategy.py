"""Strategies of the page operations: page sizes, and lengths on both sides of a page's end."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, Array, bulk, mostly
from specsim.properties.strategies.limits import sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import Fault, with_entry
from specsim.properties.strategies.malformed.structure import one_less, one_more
from specsim.properties.strategies.topologies import any_slots, batch, lengths, num_nodes

PAGE_SIZES = (16, 4, 64, 16, 2, 64, 1)


@made_once
def page_sizes() -> st.SearchStrategy[int]:
    """Return a strategy of slots a page."""
    return sized("page_size", st.sampled_from(PAGE_SIZES))


@made_once
def paged_sizes() -> st.SearchStrategy[int]:
    """Return a strategy of slots a page where a page has several; large ones make long rows, so they are rare."""
    return sized("page_size", mostly(st.sampled_from((4, 2, 16)), st.just(64), one_in=8))


@made_once
def near_a_page(page_size: int, reach: int) -> st.SearchStrategy[int]:
    """Return a strategy of lengths: most often around a page's end, many at it, or up to ``reach`` before it."""
    before = st.one_of(st.sampled_from((0, 0, 1, -1)), st.integers(1, reach))
    near = st.builds(lambda pages, short: max(0, pages * page_size - short), st.integers(1, 3), before)
    return mostly(near, lengths(), one_in=6)


@made_once
@composite
def accepted_near_a_page(draw: st.DrawFn, page_size: int, most: int) -> tuple[int, int]:
    """Draw a length and its accepted tokens: the root alone, all, some, or so many that they end near a page's end."""
    length = draw(near_a_page(page_size, most))
    kind = draw(st.sampled_from(("page", "page", "root", "all", "some")))
    if kind == "page":
        end = -(-(length + 1) // page_size) * page_size + draw(st.sampled_from((1, 0, 1, -1)))
        return length, min(max(end - length, 1), most)
    return length, {"root": 1, "all": most}.get(kind) or draw(st.integers(1, most))


@composite
def chains_on_pages(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw masks of chains whose first nodes were accepted."""
    page_size, count = draw(page_sizes()), draw(num_nodes())
    requests = draw(batch(accepted_near_a_page(page_size, count), max_requests))
    kept = np.array([tokens for _, tokens in requests], dtype=np.int64)
    seq_lens = _lengths(draw, [length for length, _ in requests])
    evict_mask = (np.arange(count) >= kept[:, None]).reshape(-1)
    return {"seq_lens": seq_lens, "evict_mask": evict_mask, "num_draft_tokens": count, "page_size": page_size}


@composite
def align_evict_mask_to_page_size(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw masks of chains, and in every third case masks that keep as many entries anywhere."""
    case = draw(chains_on_pages(max_requests))
    if draw(st.sampled_from((False, False, True))):
        source, rows = draw(bulk()), case["evict_mask"].reshape(-1, case["num_draft_tokens"])
        case["evict_mask"] = np.array([row[source.order(len(row))] for row in rows], dtype=np.bool_).reshape(-1)
    return case


@composite
def get_src_tgt_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths of trees, most often with numbers that ascend, and the slots of all nodes."""
    page_size, count = draw(page_sizes()), draw(num_nodes())
    requests = draw(batch(st.tuples(accepted_near_a_page(page_size, count), st.booleans(), bulk()), max_requests))
    paths = []
    for request, ((_, tokens), is_ascending, source) in enumerate(requests):
        drafts = source.order(count - 1)[: tokens - 1] + 1
        drafts = np.sort(drafts) if is_ascending else drafts
        paths.append(request * count + np.concatenate([[0], drafts]))
    return {
        "seq_lens": _lengths(draw, [length for (length, _), _, _ in requests]),
        "out_cache_loc": any_slots(draw(bulk()), len(requests) * count),
        "accept_indices": np.concatenate([np.zeros(0, dtype=np.int64), *paths]).astype(np.int32),
        "num_accepted_drafts": np.array([tokens - 1 for (_, tokens), _, _ in requests], dtype=np.int32),
        "num_draft_tokens": count,
        "page_size": page_size,
    }


@composite
def get_target_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw counts of accepted and freed slots that fit into a window; most often something lies between the two."""
    count = draw(num_nodes())
    one = st.tuples(st.one_of(st.integers(1, count), st.sampled_from((1, count))), st.sampled_from((0.5, 1.0, 0.0)))
    requests = draw(batch(one, max_requests))
    to_free = [int((count - tokens) * share) for tokens, share in requests]
    return {
        "num_accepted_drafts": np.array([tokens - 1 for tokens, _ in requests], dtype=np.int32),
        "to_free_num_slots": np.array(to_free, dtype=np.int32),
        "out_cache_loc": any_slots(draw(bulk()), len(requests) * count),
        "num_draft_tokens": count,
        "num_target_slots": sum(tokens for tokens, _ in requests),
        "num_to_free_slots": sum(to_free),
    }


@composite
def create_num_accepted_drafts_filter(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw counts, and which requests go on: all, none or some of them, in any order."""
    requests = draw(batch(st.tuples(lengths(), _drafts(), st.booleans()), max_requests))
    kind = draw(st.sampled_from(("some", "some", "all", "none")))
    places = [place for place, (_, _, goes_on) in enumerate(requests) if kind == "all" or (goes_on and kind == "some")]
    return {
        "num_accepted_drafts": np.array([drafts for _, drafts, _ in requests], dtype=np.int32),
        "unfinished_index": np.array(places, dtype=np.int64)[draw(bulk()).order(len(places))],
        "seq_lens": _lengths(draw, [length for length, _, _ in requests]),
    }


@composite
def filter_finished_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw the slots of accepted tokens, of which a request keeps all, none or the first ones."""
    requests = draw(batch(st.tuples(_drafts(), st.sampled_from((1.0, 1.0, 0.0, 0.5))), max_requests))
    drafts = np.array([count for count, _ in requests], dtype=np.int32)
    shares = np.array([share for _, share in requests], dtype=np.float64)
    num_kept = ((drafts + 1) * shares).astype(np.int32)
    slots = any_slots(draw(bulk()), int((drafts + 1).sum()))
    counts = {"num_accepted_drafts": drafts, "num_unfinished_tokens": num_kept, "num_locations": int(num_kept.sum())}
    return {"target_slots": slots, **counts}


def _drafts() -> st.SearchStrategy[int]:
    return mostly(st.integers(0, 6), st.sampled_from((0, 31, 32, 63)), one_in=5)


def _lengths(draw: st.DrawFn, values: list[int]) -> Array:
    return np.array(values, dtype=draw(st.sampled_from(LENGTH_DTYPES)))


def _nothing_kept(arguments: Arguments, where: int) -> Arguments:
    """A request keeps no entry."""
    mask = arguments["evict_mask"].reshape(-1, arguments["num_draft_tokens"]).copy()
    if len(mask):
        mask[where % len(mask)] = True
    return {**arguments, "evict_mask": mask.reshape(-1)}


def _node_of_another_path(arguments: Arguments, where: int) -> Arguments:
    """A node stands in two places."""
    nodes = arguments["accept_indices"]
    return with_entry(arguments, "accept_indices", where, nodes[where // 2 % nodes.size] if nodes.size else 0)


def _more_freed_than_there_are(arguments: Arguments, where: int) -> Arguments:
    """A request gives back a slot that one of its nodes moves to."""
    changed = one_more("to_free_num_slots")(arguments, where)
    return {**changed, "num_to_free_slots": int(changed["to_free_num_slots"].sum())}


def _by_one(name: str) -> tuple[Fault, Fault]:
    return one_more(name), one_less(name)


FAULTS: dict[str, tuple[Fault, ...]] = {
    "align_evict_mask_to_page_size": (_nothing_kept,),
    "get_src_tgt_cache_loc": (*_by_one("accept_indices"), _node_of_another_path, *_by_one("num_accepted_drafts")),
    "get_target_cache_loc": (
        *map(one_more, ("num_accepted_drafts", "to_free_num_slots")),
        _more_freed_than_there_are,
        *map(one_more, ("num_target_slots", "num_to_free_slots")),
    ),
    "filter_finished_cache_loc": (
        one_more("num_accepted_drafts"),
        *_by_one("num_unfinished_tokens"),
        one_more("num_locations"),
    ),
}
