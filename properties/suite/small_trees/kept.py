"""Accepted paths: every path, every width of its row, every count, every page and every move."""

from collections.abc import Callable, Iterator

import numpy as np

from specsim.counts import count_drafts
from specsim.properties.suite.small_trees import forms
from specsim.properties.suite.small_trees.shapes import count_injections, count_paths, injections, paths
from specsim.topology import NONE


def _padded(num_nodes: int, sizes: range, width: int, listed: Callable[[int, int], forms.Array]) -> forms.Array:
    """Return lists of some lengths as rows of one width, -1 after their ends."""
    rows = [listed(num_nodes, length) for length in sizes]
    padding = [((0, 0), (0, width - one.shape[1])) for one in rows]
    return np.concatenate([np.pad(one, how, constant_values=NONE) for one, how in zip(rows, padding, strict=True)])


def _path_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    for width in range(1, num_nodes + 1):
        rows = _padded(num_nodes, range(width + 1), width, paths)
        yield forms.Scope(
            {"node": num_nodes, "num_steps": count_drafts(width)}, {"path": rows, "seq_lens": forms.lengths(len(rows))}
        )


def _count_path_rows(num_nodes: int) -> int:
    return sum(count_paths(num_nodes, width) for width in range(1, num_nodes + 1))


def _values(scope: forms.Scope) -> forms.Array:
    """Return an id for each node of all cases, or pairs of doubles that no float32 holds; rows of a width have one."""
    ids = forms.tokens_of(scope)
    return ids if scope.sizes["num_steps"] % 2 else np.stack([ids + 2.0**40, forms.slots_of(scope)], axis=1)


def _pack_rows(scope: forms.Scope) -> forms.Arguments:
    size = len(scope)
    # NOTE: rows are given to requests from the last one on, and each is longer than any path needs.
    width = scope.sizes["node"] + int(scope.columns["seq_lens"].max()) + 1
    rows = -np.arange(1, (size + 1) * width + 1, dtype=np.int32).reshape(size + 1, width)
    return {"req_pool_indices": np.arange(size, 0, -1, dtype=np.int64), "req_to_token": rows}


def _count_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    for width in range(1, num_nodes + 1):
        counts = np.arange(1, width + 1, dtype=np.int32)
        yield forms.Scope({"node": num_nodes, "num_steps": count_drafts(width)}, {"num_accepted_tokens": counts})


def _count_up_to(num_nodes: int) -> int:
    return sum(range(num_nodes + 1))


def _pack_bonus_tokens(scope: forms.Scope) -> forms.Arguments:
    # NOTE: a row is as wide as a window is long here, which it need not be.
    return {"accept_tokens": forms.tokens_of(scope).astype(np.int32).reshape(len(scope), -1)}


def _move_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    rows = _padded(num_nodes, range(num_nodes + 1), num_nodes, injections)
    # NOTE: engines and kernels move few pairs another way than many.
    for most in (forms.FEW, forms.MANY):
        yield forms.Scope({"node": num_nodes}, {"source": rows}, most)


def _two_layers(num_slots: int) -> list[forms.Array]:
    """Return keys and values of two layers, of another width and element type each."""
    slots = np.arange(num_slots)
    return [
        np.stack([slots + (buffer << 32), slots], axis=1)[:, : 1 + buffer % 2].astype(dtype)
        for buffer, dtype in enumerate((np.int64, np.int32, np.int64, np.uint16))
    ]


def _pack_moves(scope: forms.Scope) -> forms.Arguments:
    num_nodes, source = scope.sizes["node"], scope.columns["source"]
    request, place = np.nonzero(source >= 0)
    # NOTE: slot 0 is the dump.
    first = 1 + request * num_nodes
    slots, sources = first + place, first + source[request, place]
    return {"kv_buffers": _two_layers(1 + len(scope) * num_nodes), "target_slots": slots, "source_slots": sources}


def _page_scopes(num_nodes: int, name: str, rows: forms.Array) -> Iterator[forms.Scope]:
    """Yield rows with every page size up to the nodes, and every place in a page at which a text can end."""
    for page_size in range(1, num_nodes + 1):
        residues = np.repeat(np.arange(page_size), len(rows))
        columns = {name: np.tile(rows, (page_size, 1)), "seq_lens": forms.lengths(len(residues)) * page_size + residues}
        yield forms.Scope({"node": num_nodes, "page_size": page_size}, columns)


def _eviction_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    bits = np.arange(2**num_nodes - 1)[:, None] >> np.arange(num_nodes)
    yield from _page_scopes(num_nodes, "evict_mask", (bits & 1).astype(np.bool_))


def _paged_path_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    yield from _page_scopes(num_nodes, "path", _padded(num_nodes, range(1, num_nodes + 1), num_nodes, paths))


def _pack_paged_paths(scope: forms.Scope) -> forms.Arguments:
    accept_index = forms.accept_index_of(scope)
    is_accepted = accept_index >= 0
    drafts = count_drafts(is_accepted.sum(axis=1)).astype(np.int32)
    return {"accept_indices": accept_index[is_accepted], "num_accepted_drafts": drafts}


def _cut_scopes(num_nodes: int) -> Iterator[forms.Scope]:
    tokens, freed = np.nonzero(np.add.outer(np.arange(num_nodes + 1), np.arange(num_nodes + 1)) <= num_nodes)
    is_one = tokens > 0
    columns: dict[str, forms.Array] = {
        "num_accepted_tokens": tokens[is_one],
        "to_free_num_slots": freed[is_one].astype(np.int32),
    }
    yield forms.Scope({"node": num_nodes}, columns)


def _pack_cuts(scope: forms.Scope) -> forms.Arguments:
    tokens, freed = scope.columns["num_accepted_tokens"], scope.columns["to_free_num_slots"]
    drafts, num_freed = count_drafts(tokens).astype(np.int32), int(freed.sum())
    return {"num_accepted_drafts": drafts, "num_target_slots": int(tokens.sum()), "num_to_free_slots": num_freed}


FORMS = (
    forms.Form(
        "gather_accept_tokens",
        _count_path_rows,
        _path_scopes,
        lambda scope: {"predict": forms.tokens_of(scope).astype(np.int32)},
    ),
    forms.Form("fill_accept_out_cache_loc", _count_path_rows, _path_scopes),
    forms.Form("compact_accepted_to_front", _count_path_rows, _path_scopes, lambda scope: {"values": _values(scope)}),
    forms.Form("remap_accepted_slots", _count_path_rows, _path_scopes, _pack_rows),
    forms.Form("fill_bonus_tokens", _count_up_to, _count_scopes, _pack_bonus_tokens),
    forms.Form("fill_accept_target_cache_loc", _count_up_to, _count_scopes),
    forms.Form("move_kv_cache", lambda nodes: 2 * count_injections(nodes), _move_scopes, _pack_moves),
    forms.Form(
        "align_evict_mask_to_page_size",
        lambda nodes: (2**nodes - 1) * _count_up_to(nodes),
        _eviction_scopes,
        lambda scope: {"evict_mask": scope.columns["evict_mask"].reshape(-1)},
    ),
    forms.Form(
        "get_src_tgt_cache_loc",
        lambda nodes: count_drafts(count_paths(nodes, nodes)) * _count_up_to(nodes),
        _paged_path_scopes,
        _pack_paged_paths,
    ),
    forms.Form("get_target_cache_loc", _count_up_to, _cut_scopes, _pack_cuts),
)
