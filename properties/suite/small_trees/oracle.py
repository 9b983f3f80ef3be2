"""What operations on trees mean, for thousands of requests at once: the reference's loops as NumPy over a batch.

Each function is named as its operation, takes what it takes, and returns what it returns and writes, by name. Entries
without meaning are those of the reference. A test compares them with the reference on all small trees.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.config import TreeMaskMode
from specsim.counts import ceil_to, count_nodes, count_tokens, floor_to, path_width
from specsim.properties.suite.small_trees.shapes import closure

Array = NDArray[Any]
Outputs = dict[str, Any]


def verify_tree_greedy(
    candidates: Array,
    retrieve_index: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    target_predict: Array,
    num_steps: int,
) -> Outputs:
    """Walk all trees at once, a step at a time."""
    num_requests, num_nodes = candidates.shape
    rows = np.arange(num_requests)
    predict = np.zeros(num_requests * num_nodes, dtype=np.int32)
    accept_index = np.full((num_requests, path_width(num_steps)), -1, dtype=np.int32)
    num_drafts = np.zeros(num_requests, dtype=np.int32)
    last = np.zeros(num_requests, dtype=np.int64)
    accept_index[:, 0] = retrieve_index[:, 0]
    for _ in range(num_steps):
        wanted, node = target_predict[rows, last], retrieve_next_token[rows, last]
        for _ in range(num_nodes):
            is_other = (node >= 0) & (candidates[rows, node] != wanted)
            node = np.where(is_other, retrieve_next_sibling[rows, node], node)
        # NOTE: who has stopped looks for the same child again, and finds none again.
        going = np.flatnonzero(node >= 0)
        predict[retrieve_index[going, last[going]]] = wanted[going]
        num_drafts[going] += 1
        accept_index[going, num_drafts[going]] = retrieve_index[going, node[going]]
        last[going] = node[going]
    predict[retrieve_index[rows, last]] = target_predict[rows, last]
    return {"predict": predict, "accept_index": accept_index, "num_accepted_drafts": num_drafts}


def organize_draft_results(
    score_list: Sequence[Array], token_list: Sequence[Array], parents_list: Sequence[Array], num_draft_tokens: int
) -> Outputs:
    """Sort the candidates of all requests at once: by score, equal ones by id."""
    num_requests, num_kept = len(score_list[0]), num_draft_tokens - count_nodes(0)
    scores = np.concatenate([block.reshape(num_requests, -1) for block in score_list], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")
    kept = np.sort(order[:, :num_kept], axis=1).astype(np.int64)
    parents = [np.zeros((num_requests, 0), dtype=np.int64), *parents_list[:-1]]
    tokens = np.take_along_axis(np.concatenate(token_list, axis=1), kept, axis=1)
    return {"parent_list": np.concatenate(parents, axis=1), "top_scores_index": kept, "draft_tokens": tokens}


def build_tree(
    bonus_tokens: Array,
    parent_list: Array,
    top_scores_index: Array,
    draft_tokens: Array,
    seq_lens: Array,
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    mask_mode: int,
    seq_lens_sum: int,
) -> Outputs:
    """Find the parents of all drafts at once, and read everything else off them."""
    num_requests, num_nodes = len(seq_lens), num_draft_tokens
    parents = np.full((num_requests, num_nodes), -1, dtype=np.int64)
    if num_steps == 1:
        parents[:, 1:] = 0
    else:
        groups = top_scores_index // topk
        above = np.take_along_axis(parent_list, groups, axis=1)
        is_parent = top_scores_index[:, None, :] == above[:, :, None]
        parents[:, 1:] = np.where(groups == 0, 0, 1 + is_parent.argmax(axis=2))
    visible = closure(parents)
    tokens = np.concatenate([bonus_tokens[:, None], draft_tokens], axis=1)
    links = _links(parents, visible, seq_lens)
    mask = _laid_out(visible, seq_lens, mask_mode, seq_lens_sum)
    return {"draft_token": tokens.reshape(-1).astype(np.int64), **links, "tree_mask": mask}


def reconstruct_indices_from_tree_mask(tree_mask: Array, seq_lens: Array) -> Outputs:
    """Take the last ancestor of every node for its parent."""
    num_nodes = tree_mask.shape[1]
    node = np.arange(num_nodes)
    is_ancestor = tree_mask & (node[None, :] < node[:, None])
    return _links(np.where(is_ancestor, node, -1).max(axis=2), tree_mask, seq_lens)


def _links(parents: Array, visible: Array, seq_lens: Array) -> Outputs:
    """Return links, numbers and positions of trees in which siblings ascend."""
    num_requests, num_nodes = parents.shape
    node = np.arange(num_nodes)
    is_child = parents[:, None, :] == node[:, None]
    is_later = (parents[:, None, :] == parents[:, :, None]) & (parents >= 0)[:, :, None] & (node > node[:, None])
    depths = visible.sum(axis=2) - count_nodes(0)
    return {
        "positions": (seq_lens[:, None] + depths).astype(np.int64).reshape(-1),
        "retrieve_index": np.arange(num_requests * num_nodes, dtype=np.int64).reshape(num_requests, num_nodes),
        "retrieve_next_token": _first(is_child),
        "retrieve_next_sibling": _first(is_later),
    }


def _first(is_one: Array) -> Array:
    """Return the place of the first true entry of each row, -1 if there is none."""
    return np.where(is_one.any(axis=-1), is_one.argmax(axis=-1), -1).astype(np.int64)


def _laid_out(visible: Array, seq_lens: Array, mask_mode: int, seq_lens_sum: int) -> Array:
    num_nodes = visible.shape[1]
    if mask_mode == TreeMaskMode.QLEN_ONLY:
        squares: Array = visible.reshape(-1)
        return squares
    if mask_mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        dtype = np.uint8 if num_nodes <= 8 else np.uint16 if num_nodes <= 16 else np.uint32
        words = (visible * (np.int64(1) << np.arange(num_nodes))).sum(axis=2)
        packed: Array = words.reshape(-1).astype(dtype)
        return packed
    full = np.ones(num_nodes * seq_lens_sum + visible.size, dtype=np.bool_)
    prefixes = np.repeat(seq_lens.astype(np.int64), num_nodes)
    ends = np.cumsum(prefixes + num_nodes)
    full[ends[:, None] - num_nodes + np.arange(num_nodes)] = visible.reshape(-1, num_nodes)
    return full


def gather_accept_tokens(predict: Array, accept_index: Array) -> Outputs:
    """Read all paths at once."""
    tokens = np.where(accept_index >= 0, predict[accept_index], 0)
    return {"accept_tokens": tokens.astype(np.int32)}


def fill_bonus_tokens(accept_tokens: Array, num_accepted_tokens: Array) -> Outputs:
    """Read the last token of every row at once."""
    return {"bonus_tokens": accept_tokens[np.arange(len(accept_tokens)), num_accepted_tokens - 1]}


def fill_accept_out_cache_loc(accept_index: Array, out_cache_loc: Array) -> Outputs:
    """Pack all accepted nodes at once."""
    return {"source_slots": _packed(out_cache_loc[accept_index[accept_index >= 0]], accept_index.size)}


def fill_accept_target_cache_loc(num_accepted_tokens: Array, out_cache_loc: Array, num_steps: int) -> Outputs:
    """Pack the front of all windows at once."""
    num_requests = len(num_accepted_tokens)
    front = out_cache_loc.reshape(num_requests, -1)[:, : path_width(num_steps)]
    is_accepted = np.arange(front.shape[1]) < num_accepted_tokens[:, None]
    return {"target_slots": _packed(front[is_accepted], num_requests * path_width(num_steps))}


def _packed(slots: Array, size: int) -> Array:
    packed = np.zeros(size, dtype=np.int64)
    packed[: len(slots)] = slots
    return packed


def compact_accepted_to_front(values: Array, accept_index: Array) -> Outputs:
    """Bring all paths to the front at once."""
    num_requests, width = accept_index.shape
    compacted = values.copy()
    blocks = compacted.reshape(num_requests, -1, *values.shape[1:])
    blocks[:, :width] = values[np.maximum(accept_index, 0)]
    return {"compacted": compacted}


def move_kv_cache(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> Outputs:
    """Read all sources before a target is written."""
    moved = [buffer.copy() for buffer in kv_buffers]
    for after, before in zip(moved, kv_buffers, strict=True):
        after[target_slots] = before[source_slots]
    return {"kv_buffers": moved}


def remap_accepted_slots(
    req_pool_indices: Array, req_to_token: Array, seq_lens: Array, out_cache_loc: Array, accept_index: Array
) -> Outputs:
    """Write the slots of all paths at once."""
    rows, evict_mask = req_to_token.copy(), np.ones(len(out_cache_loc), dtype=np.bool_)
    request, place = np.nonzero(accept_index >= 0)
    nodes = accept_index[request, place]
    rows[req_pool_indices[request], seq_lens[request] + place] = out_cache_loc[nodes]
    evict_mask[nodes] = False
    return {"evict_mask": evict_mask, "req_to_token": rows}


def align_evict_mask_to_page_size(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> Outputs:
    """Keep the page of the last kept entry in all windows at once."""
    mask = evict_mask.reshape(-1, num_draft_tokens)
    start = floor_to(seq_lens + (~mask).sum(axis=1) - 1, page_size) - seq_lens
    place = np.arange(num_draft_tokens)
    is_on_page = (place >= start[:, None]) & (place < start[:, None] + page_size)
    return {"evict_mask": (mask & ~is_on_page).reshape(-1)}


def get_src_tgt_cache_loc(
    seq_lens: Array,
    out_cache_loc: Array,
    accept_indices: Array,
    num_accepted_drafts: Array,
    num_draft_tokens: int,
    page_size: int,
) -> Outputs:
    """Round all lengths up to pages at once."""
    end = seq_lens.astype(np.int64) + num_draft_tokens
    needed = seq_lens + count_tokens(num_accepted_drafts.astype(np.int64))
    kept = np.minimum(ceil_to(needed, page_size), end)
    return {"source_slots": out_cache_loc[accept_indices], "to_free_num_slots": (end - kept).astype(np.int32)}


def get_target_cache_loc(
    num_accepted_drafts: Array,
    to_free_num_slots: Array,
    out_cache_loc: Array,
    num_draft_tokens: int,
    num_target_slots: int,
    num_to_free_slots: int,
) -> Outputs:
    """Cut all windows at both ends at once; both numbers of slots are sums of what the arrays say."""
    del num_target_slots, num_to_free_slots
    windows, place = out_cache_loc.reshape(-1, num_draft_tokens), np.arange(num_draft_tokens)
    is_target = place < count_tokens(num_accepted_drafts)[:, None]
    is_freed = place >= num_draft_tokens - to_free_num_slots[:, None]
    return {"target_slots": windows[is_target], "to_free_slots": windows[is_freed]}
