"""Structural rules of an operation's input that bounds cannot express, each named like its operation.

The arguments have already passed the shape, dtype and bound checks of the table.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.config import TreeMaskMode
from specsim.rejection import Reason, SpecRejection

Arguments = Mapping[str, Any]


def select_top_k_tokens(arguments: Arguments, axes: Arguments) -> None:
    """Steps after the first need the scores of the step before."""
    if axes["step_index"] > 0 and arguments["scores"] is None:
        raise _reject(Reason.MISSING_ARGUMENT, "scores", None, "an array", "a later step multiplies the path's score")


def generate_draft_decode_kv_indices(arguments: Arguments, axes: Arguments) -> None:
    """Positions are the committed lengths, one copy a beam, before any step advanced them."""
    expected = np.repeat(arguments["seq_lens"], axes["topk"])
    for place in np.flatnonzero(arguments["positions"] != expected)[:1]:
        raise _reject(
            Reason.INCONSISTENT_LENGTHS,
            f"positions[{place}]",
            arguments["positions"][place],
            str(expected[place]),
            "offsets and contents must use the same committed length",
        )


def build_tree(arguments: Arguments, axes: Arguments) -> None:
    """Every kept candidate's parent is kept, and stands before it."""
    index, parents, topk = arguments["top_scores_index"], arguments["parent_list"], axes["topk"]
    for request in range(axes["request"]):
        kept: dict[int, int] = {}
        for place, candidate in enumerate(index[request].tolist()):
            if place and candidate <= index[request, place - 1]:
                raise _reject(
                    Reason.CYCLIC_TREE,
                    f"top_scores_index[{request}, {place}]",
                    candidate,
                    f"above {index[request, place - 1]}",
                    "node order is flat-id order, so parents precede children",
                )
            if candidate // topk > 0:
                parent = int(parents[request, candidate // topk])
                if parent not in kept:
                    raise _reject(
                        Reason.ORPHAN_NODE,
                        f"top_scores_index[{request}, {place}]",
                        candidate,
                        f"a candidate whose parent {parent} is kept before it",
                        "a draft is verified after its parent",
                    )
            kept[candidate] = place + 1
    lengths = int(np.sum(arguments["seq_lens"]))
    if axes["mask_mode"] == TreeMaskMode.FULL_MASK and axes["seq_lens_sum"] < lengths:
        raise _reject(
            Reason.INCONSISTENT_LENGTHS,
            "seq_lens_sum",
            axes["seq_lens_sum"],
            f"at least {lengths}",
            "it sizes the prefix columns of the full mask",
        )


def reconstruct_indices_from_tree_mask(arguments: Arguments, axes: Arguments) -> None:
    """Every row is the row of its nearest ancestor and the node itself."""
    masks = arguments["tree_mask"]
    for request in range(axes["request"]):
        for node in range(axes["node"]):
            row = masks[request, node]
            ancestors = np.flatnonzero(row[:node])
            expected = np.zeros_like(row)
            if len(ancestors):
                expected = masks[request, ancestors[-1]].copy()
            expected[node] = True
            if not np.array_equal(row, expected):
                raise _reject(
                    Reason.MALFORMED_MASK,
                    f"tree_mask[{request}, {node}]",
                    row.astype(int).tolist(),
                    str(expected.astype(int).tolist()),
                    "a node sees itself and what its parent sees",
                )


def target_verify_metadata(arguments: Arguments, axes: Arguments) -> None:
    """Without requests there are no tokens."""
    del arguments
    if axes["request"] == 0 and axes["num_tokens"] != 0:
        raise _reject(Reason.NOT_DIVISIBLE, "num_tokens", axes["num_tokens"], "0", "the batch is empty")


def verify_tree_greedy(arguments: Arguments, axes: Arguments) -> None:
    """Links point forwards, so that every walk ends; a node's global number is its own request's."""
    node = np.arange(axes["node"])[None, :]
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        backwards = (arguments[name] >= 0) & (arguments[name] <= node)
        for request, place in np.argwhere(backwards)[:1]:
            raise _reject(
                Reason.CYCLIC_TREE,
                f"{name}[{request}, {place}]",
                arguments[name][request, place],
                f"-1 or above {place}",
                "children and later siblings have larger node numbers",
            )
    own = np.arange(axes["request"])[:, None] * axes["node"] + node
    for request, place in np.argwhere(arguments["retrieve_index"] != own)[:1]:
        raise _reject(
            Reason.NODE_OUT_OF_RANGE,
            f"retrieve_index[{request}, {place}]",
            arguments["retrieve_index"][request, place],
            str(own[request, place]),
            "a request owns one block of nodes",
        )


def gather_accept_tokens(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def fill_accept_out_cache_loc(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def compact_accepted_to_front(arguments: Arguments, axes: Arguments) -> None:
    """Accepted paths are paths."""
    check_accept_index(arguments["accept_index"], axes["node"])


def move_kv_cache(arguments: Arguments, axes: Arguments) -> None:
    """Sources and targets pair up; no slot but the dump is written twice."""
    del axes
    targets = arguments["target_slots"]
    slots, counts = np.unique(targets[targets != 0], return_counts=True)
    for slot in slots[counts > 1][:1]:
        raise _reject(
            Reason.DUPLICATE_SLOT,
            "target_slots",
            int(slot),
            "each slot at most once",
            "two sources cannot share a slot",
        )


def assign_req_to_token_pool(arguments: Arguments, axes: Arguments) -> None:
    """Ranges ascend, use up the flat slots, and lie in distinct rows."""
    lengths = _range_lengths(arguments)
    _check_total(int(lengths.sum()), axes["location"], "out_cache_loc.shape[0]")
    rows, counts = np.unique(arguments["req_pool_indices"][lengths > 0], return_counts=True)
    for row in rows[counts > 1][:1]:
        raise _reject(Reason.DUPLICATE_ROW, "req_pool_indices", int(row), "distinct rows", "a row has one owner")


def assign_extend_cache_locs(arguments: Arguments, axes: Arguments) -> None:
    """Ranges ascend and fill the flat slots."""
    _check_total(int(_range_lengths(arguments).sum()), axes["location"], "num_locations")


def rotate_prefill_input_ids(arguments: Arguments, axes: Arguments) -> None:
    """The prompts fill the flat ids."""
    _check_total(int(np.sum(arguments["extend_lens"])), axes["token"], "input_ids.shape[0]")


def target_forward(arguments: Arguments, axes: Arguments) -> None:
    """Queries are the last keys of their request."""
    _check_queries(arguments, axes)
    if arguments["tree_mask"] is not None and axes["request"]:
        widths = np.diff(arguments["cu_seqlens_q"])
        if (widths != axes["token"] // axes["request"]).any():
            raise _reject(
                Reason.INCONSISTENT_LENGTHS,
                "cu_seqlens_q",
                widths.tolist(),
                "one width for all requests",
                "a tree mask has one square of the same size a request",
            )


def draft_extend_forward(arguments: Arguments, axes: Arguments) -> None:
    """Queries are the last keys of their request."""
    _check_queries(arguments, axes)


def draft_decode_forward(arguments: Arguments, axes: Arguments) -> None:
    """Offsets start at 0 and ascend."""
    _check_offsets(arguments["kv_indptr"], int(arguments["kv_indptr"][-1]), "kv_indptr")
    del axes


STRUCTURE: dict[str, Callable[[Arguments, Arguments], None]] = {
    rule.__name__: rule
    for rule in (
        select_top_k_tokens,
        generate_draft_decode_kv_indices,
        build_tree,
        reconstruct_indices_from_tree_mask,
        target_verify_metadata,
        verify_tree_greedy,
        gather_accept_tokens,
        fill_accept_out_cache_loc,
        compact_accepted_to_front,
        move_kv_cache,
        assign_req_to_token_pool,
        assign_extend_cache_locs,
        rotate_prefill_input_ids,
        target_forward,
        draft_extend_forward,
        draft_decode_forward,
    )
}


def check_structure(name: str, arguments: Arguments, axes: Arguments) -> None:
    """Check the structural rules of an operation, if it has any."""
    if name in STRUCTURE:
        STRUCTURE[name](arguments, axes)


def check_accept_index(accept_index: NDArray[np.int32], num_nodes: int) -> None:
    """Check that rows start at the root, ascend inside the request's block and end in sentinels."""
    for request, row in enumerate(accept_index.tolist()):
        previous = request * num_nodes - 1
        ended = False
        for place, node in enumerate(row):
            what = f"accept_index[{request}, {place}]"
            if node < 0:
                ended = True
            elif ended:
                raise _reject(Reason.MALFORMED_PATH, what, node, "-1", "valid entries form a prefix of the row")
            elif node >= (request + 1) * num_nodes or node < request * num_nodes:
                block = f"{request * num_nodes} to {(request + 1) * num_nodes - 1}"
                raise _reject(Reason.NODE_OUT_OF_RANGE, what, node, block, "a path stays in its own request")
            elif node <= previous:
                raise _reject(Reason.MALFORMED_PATH, what, node, f"above {previous}", "accepted nodes ascend")
            elif place == 0 and node != request * num_nodes:
                raise _reject(Reason.MALFORMED_PATH, what, node, str(request * num_nodes), "a path starts at the root")
            previous = node


def _check_queries(arguments: Arguments, axes: Arguments) -> None:
    _check_offsets(arguments["cu_seqlens_q"], axes["token"], "cu_seqlens_q")
    short = np.flatnonzero(arguments["cache_seqlens"] < np.diff(arguments["cu_seqlens_q"]))
    for request in short[:1]:
        raise _reject(
            Reason.INCONSISTENT_LENGTHS,
            f"cache_seqlens[{request}]",
            int(arguments["cache_seqlens"][request]),
            f"at least {int(np.diff(arguments['cu_seqlens_q'])[request])}",
            "the queries are the last keys",
        )
    table, page_size = arguments["page_table"].astype(np.int64), axes["page_size"]
    last_keys = arguments["cache_seqlens"].astype(np.int64)[:, None] - 1 - np.arange(table.shape[1]) * page_size
    last_slots = table * page_size + np.minimum(last_keys, page_size - 1)
    for request, page in np.argwhere((last_keys >= 0) & ((table < 0) | (last_slots >= axes["slot"])))[:1]:
        raise _reject(
            Reason.SLOT_OUT_OF_RANGE,
            f"page_table[{request}, {page}]",
            int(table[request, page]),
            f"a page below slot {axes['slot']}",
            "every key has a slot in the pool",
        )


def _check_offsets(offsets: NDArray[Any], total: int, what: str) -> None:
    if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise _reject(
            Reason.INCONSISTENT_LENGTHS, what, offsets.tolist(), f"ascending from 0 to {total}", "they cut a flat array"
        )


def _range_lengths(arguments: Arguments) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.asarray(arguments["end_offsets"], dtype=np.int64) - arguments["start_offsets"]
    for request in np.flatnonzero(lengths < 0)[:1]:
        raise _reject(
            Reason.INCONSISTENT_LENGTHS,
            f"end_offsets[{request}]",
            int(arguments["end_offsets"][request]),
            f"at least {int(arguments['start_offsets'][request])}",
            "a range does not end before it starts",
        )
    return lengths


def _check_total(got: int, expected: int, what: str) -> None:
    if got != expected:
        raise _reject(Reason.INCONSISTENT_LENGTHS, what, expected, str(got), "the ranges add up to it")


def _reject(reason: Reason, what: str, got: object, expected: str, because: str) -> SpecRejection:
    return SpecRejection(reason, what=what, got=got, expected=expected, because=because)
