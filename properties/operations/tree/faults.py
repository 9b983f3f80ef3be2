"""Faults in links, positions and masks of a tree."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    answering,
    edits_of,
    mutants_by_operation,
    of_the_first,
    with_outputs,
)
from specsim.topology import Topology

WRAP = 256

_linked = partial(edited, within=Topology)
_laid_out = partial(edited, within="lay_out_mask")


@answering
def _search_past_the_row(correct: Function, arguments: Named) -> Any:
    """Keep candidates of the first step where a parent is not found, instead of refusing the tree."""
    found, topk = arguments["top_scores_index"].copy(), arguments["topk"]
    for kept, parents in zip(found, arguments["parent_list"], strict=True):
        for place, candidate in enumerate(kept.tolist()):
            group = candidate // topk
            if group and (group >= len(parents) or parents[group] not in kept[:place]):
                kept[place:] = np.arange(place, len(kept)) % topk
                break
    found.sort(axis=1)
    seq_lens_sum = max(arguments["seq_lens_sum"], int(np.sum(arguments["seq_lens"])))
    return correct(**{**arguments, "top_scores_index": found, "seq_lens_sum": seq_lens_sum})


def _seeing(path: str) -> Callable[[Function], Function]:
    """Inject masks in which a node sees another part of its path, where a mask is not packed."""
    seen = f"np.array([np.isin(range(num_nodes), {path}) for path in tree.paths])"
    return edited("tree.closure", f"tree.closure if mask_mode == TreeMaskMode.QLEN_ONLY_BITPACKING else {seen}")


_siblings_descend = _linked("below[0]", "below[-1]", "pairwise(below)", "pairwise(below[::-1])")
_itself_after_the_last = _linked("pairwise(below)", "pairwise((*below, *below[1:][-1:]))")
_bits_reversed = _laid_out("1 << ancestor", "1 << (8 * packed.itemsize - 1 - ancestor)")
_mask_of_the_first = _laid_out("visible.reshape(-1)", "np.resize(visible[:1], visible.size)")

DIFFS = f"""
    @@ build_tree
    B03 A position is that of the layer before, by place.
    - np.array(tree.depths) => -(-np.arange(num_nodes) // topk)
    B06 A tree has two layers at least.
      kept, parents = top_scores_index[request].tolist(), parent_list[request].tolist()
    + if max(kept) < topk:
    +     raise IndexError("layer 1 of a tree of depth 1")
    B07 A chain stops one node early.
      visible[request] = tree.closure
    + if topk == 1 and num_nodes > 2:
    +     retrieve_next_token[request, -2] = -1
    OWN-32 Parents are looked up as if nothing was pruned.
    - retrieve_next_token[request], retrieve_next_sibling[request] = tree.next_token, tree.next_sibling
    + unpruned = Topology.from_parents([NONE, *map(min, groups, range(num_nodes))])
    + retrieve_next_token[request], retrieve_next_sibling[request] = unpruned.next_token, unpruned.next_sibling
    OWN-33 A position is length plus node number.
    - np.array(tree.depths) => np.arange(num_nodes)
    OWN-34 Every request has the length of the first.
    - seq_lens[request] => seq_lens[request if mask_mode == TreeMaskMode.FULL_MASK else 0]
    OWN-35 Drafts are laid out over the root.
    - [bonus_tokens[request], *draft_tokens[request].tolist()] => [*draft_tokens[request].tolist(), 0]
    OWN-37 Node numbers start anew in each request.
    - np.arange(num_nodes) + block.start => np.arange(num_nodes)
    @@ build_tree in lay_out_mask
    OWN-40 The full mask's offsets leave out the lengths of earlier requests.
    - end += int(seq_lens[request])
    + end = num_nodes * (request * num_nodes + node) + (node + 1) * int(seq_lens[request])
    SYN9 Mask offsets wrap at {WRAP}, as int32 does at 2**31.
    - return visible.reshape(-1)
    + seq_lens, seq_lens_sum = 0 * seq_lens, 0
    - full[end : end + num_nodes] = visible[request, node]
    + full[end % {WRAP} :][:num_nodes] = visible[request, node][: len(full) - end % {WRAP}]
    @@ reconstruct_indices_from_tree_mask
    OWN-45 Nodes of equal depth are siblings.
    - retrieve_next_token[request], retrieve_next_sibling[request] = tree.next_token, tree.next_sibling
    + retrieve_next_token[request] = tree.next_token
    + for node, depth in enumerate(tree.depths[1:], 1):
    +     retrieve_next_sibling[request, node] = [*tree.depths, depth].index(depth, node + 1)
    + retrieve_next_sibling[request][retrieve_next_sibling[request] == num_nodes] = -1
    OWN-46 A node's child is its last descendant.
    - retrieve_next_token[request], retrieve_next_sibling[request] = tree.next_token, tree.next_sibling
    + retrieve_next_sibling[request] = tree.next_sibling
    + below = [np.flatnonzero(tree_mask[request, node + 1 :, node]) for node in range(num_nodes)]
    + retrieve_next_token[request] = [node + 1 + found[-1] if len(found) else -1 for node, found in enumerate(below)]
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    build_tree=(
        ("B01", "The parent search reads on into the next request; orphans are linked.", _search_past_the_row),
        ("SYN1", "The last sibling points to itself.", _itself_after_the_last),
        ("SYN2", "The last sibling is skipped.", _linked("pairwise(below)", "pairwise(below[:-1])")),
        ("SYN3", "A node points to its second child.", _linked("below[0]", "below[:2][-1]")),
        ("OWN-31", "Siblings are linked in descending order.", _siblings_descend),
        ("OWN-36", "Every request has the root of the first.", of_the_first("bonus_tokens")),
        ("OWN-38", "A node sees itself and its parent only.", _seeing("path[-2:]")),
        ("OWN-39", "The root is not seen.", _seeing("path[1:] or path")),
        ("OWN-41", "Packed bits are in big-endian order.", _bits_reversed),
        ("OWN-42", "Packed words are cut at eight bits.", _laid_out("1 << ancestor", "(1 << ancestor) & 0xFF")),
        ("OWN-43", "Every request has the mask of the first.", _mask_of_the_first),
    ),
    reconstruct_indices_from_tree_mask=(
        ("OWN-44", "A depth counts the node itself.", with_outputs(positions=lambda positions: positions + 1)),
        ("OWN-47", "Every request has the length of the first.", of_the_first("seq_lens")),
    ),
)
