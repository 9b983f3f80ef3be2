"""Structural faults, by hand: what no bound on an entry can express.

A fault takes the arguments of a valid call and a drawn number that says where; where the call is too small for the
fault it comes back unchanged.
"""

import numpy as np

from specsim.config import TreeMaskMode
from specsim.counts import count_candidates
from specsim.properties.strategies.malformed import sampling as malformed_sampling
from specsim.properties.strategies.malformed.arguments import Arguments, Fault, with_entry


def orphan(arguments: Arguments, where: int) -> Arguments:
    """A kept candidate's parent is a candidate that was not kept."""
    index, topk = arguments["top_scores_index"], arguments["topk"]
    deep = np.argwhere(index >= topk)
    if not len(deep):
        return arguments
    request, place = deep[where % len(deep)]
    absent = set(range(count_candidates(topk, arguments["num_steps"]))) - set(index[request].tolist())
    parents = arguments["parent_list"].copy()
    parents[request, index[request, place] // topk] = min(absent, default=-1)
    return {**arguments, "parent_list": parents}


def candidates_out_of_order(arguments: Arguments, where: int) -> Arguments:
    """Two kept candidates change places, or one is kept twice."""
    index = arguments["top_scores_index"].copy()
    if index.shape[1] < 2 or not len(index):
        return arguments
    row = index[where % len(index)]
    place = where % (index.shape[1] - 1)
    row[place : place + 2] = row[place] if where % 2 else row[place : place + 2][::-1].copy()
    return {**arguments, "top_scores_index": index}


def full_mask_too_small(arguments: Arguments, _: int) -> Arguments:
    """The sum of lengths that sizes the full mask is one too small."""
    total = int(arguments["seq_lens"].sum())
    return {**arguments, "mask_mode": int(TreeMaskMode.FULL_MASK), "seq_lens_sum": max(total - 1, 0)}


def packed_mask_of_33_nodes(_: Arguments, __: int) -> Arguments:
    """A chain of 33 nodes asks for a packed mask."""
    return {
        "bonus_tokens": np.zeros(1, dtype=np.int32),
        "parent_list": np.arange(-1, 31, dtype=np.int64)[None, :],
        "top_scores_index": np.arange(32, dtype=np.int64)[None, :],
        "draft_tokens": np.zeros((1, 32), dtype=np.int64),
        "seq_lens": np.zeros(1, dtype=np.int64),
        "topk": 1,
        "num_steps": 32,
        "num_draft_tokens": 33,
        "mask_mode": int(TreeMaskMode.QLEN_ONLY_BITPACKING),
        "seq_lens_sum": 0,
    }


def flipped_visibility(arguments: Arguments, where: int) -> Arguments:
    """One node sees one node more, or one less."""
    masks = arguments["tree_mask"]
    return with_entry(arguments, "tree_mask", where, not masks.reshape(-1)[where % masks.size] if masks.size else True)


def malformed_path(arguments: Arguments, where: int) -> Arguments:
    """An accepted path has another node, or none, somewhere."""
    paths = arguments["accept_index"]
    if not paths.size:
        return arguments
    value = -1 if where % 3 == 0 else int(paths.max()) if where % 3 == 1 else where % (int(paths.max()) + 1)
    return with_entry(arguments, "accept_index", where, value)


def path_beside_its_root(arguments: Arguments, where: int) -> Arguments:
    """An accepted path starts one node after the root of its request."""
    paths = arguments["accept_index"]
    if not paths.size:
        return arguments
    request = where % len(paths)
    return with_entry(arguments, "accept_index", request * paths.shape[1], paths[request, 0] + 1)


def slot_written_twice(arguments: Arguments, where: int) -> Arguments:
    """Two pairs of a move have one target."""
    targets = arguments["target_slots"]
    others = targets[targets != 0]
    return with_entry(arguments, "target_slots", where, others[0] if len(others) else 0)


def row_claimed_twice(arguments: Arguments, where: int) -> Arguments:
    """Two requests write one row."""
    rows = arguments["req_pool_indices"]
    return with_entry(arguments, "req_pool_indices", where, rows[0] if len(rows) else 0)


def range_backwards(arguments: Arguments, where: int) -> Arguments:
    """A range ends before it starts."""
    starts = arguments["start_offsets"]
    start = int(starts[where % len(starts)]) if len(starts) else 0
    return with_entry(arguments, "end_offsets", where, max(start - 1, 0))


def scores_absent(arguments: Arguments, _: int) -> Arguments:
    """A later step gets no scores."""
    return {**arguments, "scores": None}


def table_too_long(arguments: Arguments, where: int) -> Arguments:
    """The page table covers more positions than a row has."""
    return {**arguments, "max_seq_len_k": arguments["req_to_token"].shape[1] + 1 + where % 3}


def page_outside_the_pool(arguments: Arguments, where: int) -> Arguments:
    """A page lies before the pool or after it."""
    return with_entry(arguments, "page_table", where, -1 if where % 2 else 2**20)


def fewer_keys_than_queries(arguments: Arguments, where: int) -> Arguments:
    """A request has one key less than it has queries."""
    counts = np.diff(arguments["cu_seqlens_q"])
    if not len(counts):
        return arguments
    return with_entry(arguments, "cache_seqlens", where, max(int(counts[where % len(counts)]) - 1, 0))


def longer_than_its_row(arguments: Arguments, where: int) -> Arguments:
    """The accepted positions of a request end one after its row of the table."""
    counts, width = (arguments["accept_index"] >= 0).sum(axis=1), arguments["req_to_token"].shape[1]
    if not len(counts):
        return arguments
    return with_entry(arguments, "seq_lens", where, width - int(counts[where % len(counts)]) + 1)


def one_more(name: str) -> Fault:
    """Return the fault that a size, or one entry of an array of lengths, is one too large."""
    return _off_by(1, name)


def one_less(name: str) -> Fault:
    """Return the fault that a size, or one entry of an array of lengths, is one too small."""
    return _off_by(-1, name)


def _off_by(change: int, name: str) -> Fault:
    def fault(arguments: Arguments, where: int) -> Arguments:
        value = arguments[name]
        if isinstance(value, int):
            return {**arguments, name: value + change if change > 0 else max(value + change, 0)}
        if not len(value):
            return arguments
        entry = int(value[where % len(value)]) + change
        return with_entry(arguments, name, where, entry if change > 0 else max(entry, 0))

    return fault


_LENGTHS = (one_more("cu_seqlens_q"), one_less("cu_seqlens_q"), one_less("cache_seqlens"))
_OFFSETS = (*_LENGTHS, fewer_keys_than_queries, page_outside_the_pool)

PATHS: tuple[Fault, ...] = (malformed_path, path_beside_its_root)

FAULTS: dict[str, tuple[Fault, ...]] = {
    "select_top_k_tokens": (scores_absent,),
    "build_tree": (orphan, candidates_out_of_order, full_mask_too_small, packed_mask_of_33_nodes),
    "reconstruct_indices_from_tree_mask": (flipped_visibility,),
    "target_verify_metadata": (one_more("num_tokens"), table_too_long),
    "idle_attention_metadata": (table_too_long,),
    "verify_tree_greedy": malformed_sampling.TREE,
    "verify_chain_greedy": malformed_sampling.CHAINS,
    "gather_accept_tokens": PATHS,
    "fill_accept_out_cache_loc": PATHS,
    "compact_accepted_to_front": PATHS,
    "move_kv_cache": (slot_written_twice,),
    "assign_req_to_token_pool": (
        row_claimed_twice,
        range_backwards,
        one_more("end_offsets"),
        one_less("start_offsets"),
    ),
    "assign_extend_cache_locs": (range_backwards, one_more("num_locations"), one_more("end_offsets")),
    "rotate_prefill_input_ids": (one_more("extend_lens"), one_less("extend_lens")),
    "create_extend_after_decode_spec_info": (
        one_more("num_accepted_tokens"),
        one_less("num_accepted_tokens"),
        one_less("seq_lens"),
    ),
    "generate_attn_arg_prefill": (one_more("kv_lens"), one_more("num_accepted_tokens")),
    "remap_accepted_slots": (*PATHS, row_claimed_twice, longer_than_its_row),
    "target_forward": _OFFSETS,
    "draft_extend_forward": _OFFSETS,
    "draft_decode_forward": (one_more("kv_indptr"), one_less("kv_indptr")),
    "frozen_kv_draft_forward": (one_more("kv_indptr"), one_less("kv_indptr")),
    "generate_token_bitmask": malformed_sampling.LINKS,
    "verify_tree_greedy_from_logits": malformed_sampling.TREE,
    "generate_simulated_accept_index": (*PATHS, one_more("simulated_num_tokens")),
    **malformed_sampling.FAULTS,
}
