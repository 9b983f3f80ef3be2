"""Tree: from kept candidates to the arrays that verification walks."""

import numpy as np

from specsim.config import TreeMaskMode
from specsim.conformance.arrays import Array
from specsim.operations.outputs import BuildTreeOutputs, ReconstructIndicesFromTreeMaskOutputs
from specsim.topology import NONE, Topology
from specsim.validation.checking import check_call


def build_tree(
    bonus_tokens: Array,
    parent_list: Array,
    top_scores_index: Array,
    draft_tokens: Array,
    seq_lens: Array,
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    mask_mode: int = TreeMaskMode.QLEN_ONLY,
    seq_lens_sum: int = 0,
) -> BuildTreeOutputs[Array]:
    """Turn kept candidates into draft tokens, child and sibling links, positions and the visibility mask.

    Parameters
    ----------
    bonus_tokens : int32 or int64 [request]
        Root token of each request.
    parent_list : int64 [request, topk*(step-1)+1]
        Flat id of each beam of each step; not read for a single step.
    top_scores_index : int64 [request, node-1]
        Flat ids of the kept candidates, ascending.
    draft_tokens : int64 [request, node-1]
        Their tokens.
    seq_lens : int64 or int32 [request]
        Committed lengths.
    topk, num_steps, num_draft_tokens : int
        Beams, depth, and nodes (root included).
    mask_mode : int
        A ``TreeMaskMode``.
    seq_lens_sum : int
        Sum of the committed lengths or a bound on it; only sizes the full mask.

    Returns
    -------
    draft_token : int64 [request*node]
        Token of each node.
    retrieve_index : int64 [request, node]
        Global number of each node.
    retrieve_next_token : int64 [request, node]
        First child, -1 if none.
    retrieve_next_sibling : int64 [request, node]
        Next sibling, -1 if none.
    positions : int64 [request*node]
        Committed length plus depth.
    tree_mask : bool or packed [depends on mask_mode]
        Which nodes see which: every node sees itself and its ancestors.

    Raises
    ------
    SpecRejection
        ORPHAN_NODE: a kept candidate's parent was not kept; UNSORTED_CANDIDATES: candidates do not ascend;
        INCONSISTENT_LENGTHS: the full mask is too small; SCALAR_OUT_OF_RANGE: more than 32 nodes for a packed mask.

    Notes
    -----
    Source: semantics A.7, A.8.
    """
    axes = check_call("build_tree", locals())
    topk, num_draft_tokens, mask_mode, seq_lens_sum = (
        axes[name] for name in ("topk", "num_draft_tokens", "mask_mode", "seq_lens_sum")
    )
    num_requests, num_nodes = axes["request"], num_draft_tokens
    draft_token = np.zeros(num_requests * num_nodes, dtype=np.int64)
    retrieve_index = np.zeros((num_requests, num_nodes), dtype=np.int64)
    retrieve_next_token = np.full((num_requests, num_nodes), -1, dtype=np.int64)
    retrieve_next_sibling = np.full((num_requests, num_nodes), -1, dtype=np.int64)
    positions = np.zeros(num_requests * num_nodes, dtype=np.int64)
    visible = np.zeros((num_requests, num_nodes, num_nodes), dtype=np.bool_)

    for request in range(num_requests):
        kept, parents = top_scores_index[request].tolist(), parent_list[request].tolist()
        groups = [candidate // topk for candidate in kept]
        above = [0 if group == 0 else 1 + kept.index(parents[group]) for group in groups]
        tree = Topology.from_parents([NONE, *above])
        block = slice(request * num_nodes, (request + 1) * num_nodes)
        draft_token[block] = [bonus_tokens[request], *draft_tokens[request].tolist()]
        retrieve_index[request] = np.arange(num_nodes) + block.start
        retrieve_next_token[request], retrieve_next_sibling[request] = tree.next_token, tree.next_sibling
        positions[block] = seq_lens[request] + np.array(tree.depths)
        visible[request] = tree.closure

    tree_mask = lay_out_mask(visible, seq_lens, TreeMaskMode(mask_mode), seq_lens_sum)
    return BuildTreeOutputs(
        draft_token, retrieve_index, retrieve_next_token, retrieve_next_sibling, positions, tree_mask
    )


def lay_out_mask(visible: Array, seq_lens: Array, mask_mode: TreeMaskMode, seq_lens_sum: int) -> Array:
    """Write the visibility squares in the layout of a mask mode (semantics A.8)."""
    num_requests, num_nodes, _ = visible.shape
    if mask_mode is TreeMaskMode.QLEN_ONLY:
        return visible.reshape(-1)
    if mask_mode is TreeMaskMode.QLEN_ONLY_BITPACKING:
        dtype = np.uint8 if num_nodes <= 8 else np.uint16 if num_nodes <= 16 else np.uint32
        packed = np.zeros(num_requests * num_nodes, dtype=dtype)
        for request in range(num_requests):
            for node in range(num_nodes):
                word = sum(1 << ancestor for ancestor in np.flatnonzero(visible[request, node]).tolist())
                packed[request * num_nodes + node] = word
        return packed
    full = np.ones(num_nodes * seq_lens_sum + num_nodes * num_nodes * num_requests, dtype=np.bool_)
    end = 0
    for request in range(num_requests):
        for node in range(num_nodes):
            end += int(seq_lens[request])
            full[end : end + num_nodes] = visible[request, node]
            end += num_nodes
    return full


def reconstruct_indices_from_tree_mask(
    tree_mask: Array, seq_lens: Array
) -> ReconstructIndicesFromTreeMaskOutputs[Array]:
    """Recover positions and links from an ancestor matrix.

    Parameters
    ----------
    tree_mask : bool [request, node, node]
        True where the column is the row's node or an ancestor of it.
    seq_lens : int64 or int32 [request]
        Committed lengths.

    Returns
    -------
    positions : int64 [request*node]
        Committed length plus depth.
    retrieve_index : int64 [request, node]
        Global number of each node.
    retrieve_next_token : int64 [request, node]
        First child, -1 if none.
    retrieve_next_sibling : int64 [request, node]
        Next sibling, -1 if none.

    Raises
    ------
    SpecRejection
        MALFORMED_MASK: the matrix is not the ancestor closure of a tree in topological order.

    Notes
    -----
    Source: semantics A.13.
    """
    axes = check_call("reconstruct_indices_from_tree_mask", locals())
    num_requests, num_nodes = axes["request"], axes["node"]
    positions = np.zeros(num_requests * num_nodes, dtype=np.int64)
    retrieve_index = np.zeros((num_requests, num_nodes), dtype=np.int64)
    retrieve_next_token = np.full((num_requests, num_nodes), -1, dtype=np.int64)
    retrieve_next_sibling = np.full((num_requests, num_nodes), -1, dtype=np.int64)
    for request in range(num_requests):
        ancestors = [np.flatnonzero(tree_mask[request, node, :node]) for node in range(num_nodes)]
        tree = Topology.from_parents([int(above[-1]) if len(above) else NONE for above in ancestors])
        block = slice(request * num_nodes, (request + 1) * num_nodes)
        positions[block] = seq_lens[request] + np.array([len(above) for above in ancestors])
        retrieve_index[request] = np.arange(num_nodes) + block.start
        retrieve_next_token[request], retrieve_next_sibling[request] = tree.next_token, tree.next_sibling
    return ReconstructIndicesFromTreeMaskOutputs(positions, retrieve_index, retrieve_next_token, retrieve_next_sibling)
