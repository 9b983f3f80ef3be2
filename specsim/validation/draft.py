"""Structural rules of draft and tree operations."""

import numpy as np

from specsim.config import TreeMaskMode
from specsim.rejection import Reason
from specsim.validation.common import Arguments, reject


def select_top_k_tokens(arguments: Arguments, axes: Arguments) -> None:
    """Steps after the first need the scores of the step before."""
    if axes["step_index"] > 0 and arguments["scores"] is None:
        raise reject(Reason.MISSING_ARGUMENT, "scores", None, "an array", "a later step multiplies the path's score")


def generate_draft_decode_kv_indices(arguments: Arguments, axes: Arguments) -> None:
    """Positions are the committed lengths, one copy a beam, before any step advanced them."""
    expected = np.repeat(arguments["seq_lens"], axes["topk"])
    for place in np.flatnonzero(arguments["positions"] != expected)[:1]:
        raise reject(
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
                raise reject(
                    Reason.CYCLIC_TREE,
                    f"top_scores_index[{request}, {place}]",
                    candidate,
                    f"above {index[request, place - 1]}",
                    "node order is flat-id order, so parents precede children",
                )
            if candidate // topk > 0:
                parent = int(parents[request, candidate // topk])
                if parent not in kept:
                    raise reject(
                        Reason.ORPHAN_NODE,
                        f"top_scores_index[{request}, {place}]",
                        candidate,
                        f"a candidate whose parent {parent} is kept before it",
                        "a draft is verified after its parent",
                    )
            kept[candidate] = place + 1
    lengths = int(np.sum(arguments["seq_lens"]))
    if axes["mask_mode"] == TreeMaskMode.FULL_MASK and axes["seq_lens_sum"] < lengths:
        raise reject(
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
                raise reject(
                    Reason.MALFORMED_MASK,
                    f"tree_mask[{request}, {node}]",
                    row.astype(int).tolist(),
                    str(expected.astype(int).tolist()),
                    "a node sees itself and what its parent sees",
                )
