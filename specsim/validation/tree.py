"""Structural rules of tree operations."""

import numpy as np

from specsim.config import TreeMaskMode
from specsim.rejection import Reason
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.UNSORTED_CANDIDATES, "node order is flat-id order, so parents precede children")
def _candidates_ascend(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Rows of `top_scores_index` ascend."""
    del axes
    index = arguments["top_scores_index"]
    for request, place in np.argwhere(index[:, 1:] <= index[:, :-1])[:1]:
        what = f"top_scores_index[{request}, {place + 1}]"
        return Fault(what, index[request, place + 1], f"above {index[request, place]}")
    return None


@rule(Reason.ORPHAN_NODE, "a draft is verified after its parent")
def _parents_are_kept(arguments: Arguments, axes: Arguments) -> Fault | None:
    """The parent that `parent_list` names for a kept candidate is kept before it."""
    parents, topk = arguments["parent_list"], axes["topk"]
    for request, row in enumerate(arguments["top_scores_index"].tolist()):
        for place, candidate in enumerate(row):
            parent = int(parents[request, candidate // topk]) if candidate >= topk else None
            if parent is not None and parent not in row[:place]:
                what = f"top_scores_index[{request}, {place}]"
                return Fault(what, candidate, f"a candidate whose parent {parent} is kept before it")
    return None


@rule(Reason.INCONSISTENT_LENGTHS, "it sizes the prefix columns of the full mask")
def _sum_sizes_the_full_mask(arguments: Arguments, axes: Arguments) -> Fault | None:
    """For the full mask `seq_lens_sum` is at least the sum of `seq_lens`."""
    lengths = int(np.sum(arguments["seq_lens"]))
    if axes["mask_mode"] != TreeMaskMode.FULL_MASK or axes["seq_lens_sum"] >= lengths:
        return None
    return Fault("seq_lens_sum", axes["seq_lens_sum"], f"at least {lengths}")


@rule(Reason.MALFORMED_MASK, "a node sees itself and what its parent sees")
def _mask_is_a_closure(arguments: Arguments, axes: Arguments) -> Fault | None:
    """A row of `tree_mask` is the row of its nearest ancestor and the node itself; ancestors have smaller numbers."""
    masks = arguments["tree_mask"]
    for request in range(axes["request"]):
        for node in range(axes["node"]):
            row = masks[request, node]
            ancestors = np.flatnonzero(row[:node])
            expected = masks[request, ancestors[-1]].copy() if len(ancestors) else np.zeros_like(row)
            expected[node] = True
            if not np.array_equal(row, expected):
                words = str(expected.astype(int).tolist())
                return Fault(f"tree_mask[{request}, {node}]", row.astype(int).tolist(), words)
    return None


RULES = {
    "build_tree": (_candidates_ascend, _parents_are_kept, _sum_sizes_the_full_mask),
    "reconstruct_indices_from_tree_mask": (_mask_is_a_closure,),
}
