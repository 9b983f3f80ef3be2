"""Faults in links, positions and masks of a tree."""

from typing import Any

import numpy as np

from specsim.config import TreeMaskMode
from specsim.properties.mutants.record import Function, Mutant, Named, given, of_the_first, returning
from specsim.topology import Topology

Array = Any
WRAP = 256


def _children_of(outputs: Named, request: int) -> tuple[tuple[int, ...], ...]:
    return Topology.from_links(*(outputs[f"retrieve_next_{name}"][request] for name in ("token", "sibling"))).children


def _last_sibling_points_to_itself(outputs: Named, arguments: Named) -> None:
    for request in range(len(outputs["retrieve_index"])):
        for siblings in _children_of(outputs, request):
            if len(siblings) > 1:
                outputs["retrieve_next_sibling"][request, siblings[-1]] = siblings[-1]


def _last_sibling_skipped(outputs: Named, arguments: Named) -> None:
    for request in range(len(outputs["retrieve_index"])):
        for siblings in _children_of(outputs, request):
            if len(siblings) > 1:
                outputs["retrieve_next_sibling"][request, siblings[-2]] = -1


def _second_child_first(outputs: Named, arguments: Named) -> None:
    for request in range(len(outputs["retrieve_index"])):
        for node, siblings in enumerate(_children_of(outputs, request)):
            if len(siblings) > 1:
                outputs["retrieve_next_token"][request, node] = siblings[1]


def _siblings_descend(outputs: Named, arguments: Named) -> None:
    for request in range(len(outputs["retrieve_index"])):
        for node, siblings in enumerate(_children_of(outputs, request)):
            for before, after in zip(siblings, [-1, *siblings], strict=False):
                outputs["retrieve_next_sibling"][request, before] = after
            outputs["retrieve_next_token"][request, node] = siblings[-1] if siblings else -1


def _chain_stops_early(outputs: Named, arguments: Named) -> None:
    if arguments["topk"] == 1 and arguments["num_draft_tokens"] > 2:
        outputs["retrieve_next_token"][:, -2] = -1


def _two_layers_assumed(arguments: Named) -> None:
    depth_two = (arguments["top_scores_index"] >= arguments["topk"]).any(axis=1)
    if not depth_two.all():
        raise IndexError("layer 1 of a tree of depth 1")


def _search_past_the_row(correct: Function) -> Function:
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
    ) -> tuple[Array, ...]:
        num_requests, num_nodes = len(seq_lens), num_draft_tokens
        found = np.array(top_scores_index)
        flat = np.append(found.reshape(-1), -1)
        parents = np.array(parent_list)
        for request in range(num_requests):
            for place, candidate in enumerate(found[request].tolist()):
                start = request * (num_nodes - 1)
                searched = flat[start : start + num_nodes].tolist()
                group = candidate // topk
                if group and (group >= parents.shape[1] or parents[request, group] not in searched[:place]):
                    found[request, place:] = np.arange(place, num_nodes - 1) % topk
                    break
        sizes = (topk, num_steps, num_nodes, mask_mode, max(seq_lens_sum, int(np.sum(seq_lens))))
        found.sort(axis=1)
        built: tuple[Array, ...] = correct(bonus_tokens, parents, found, draft_tokens, seq_lens, *sizes)
        return built

    return build_tree


def _parent_is_the_group(outputs: Named, arguments: Named) -> None:
    """Positions and links as if nothing had been pruned: the parent is the node with the group's number."""
    kept, topk = arguments["top_scores_index"], arguments["topk"]
    outputs["retrieve_next_token"][:] = -1
    outputs["retrieve_next_sibling"][:] = -1
    for request in range(len(kept)):
        for node in range(kept.shape[1], 0, -1):
            parent = min(int(kept[request, node - 1]) // topk, node - 1)
            outputs["retrieve_next_sibling"][request, node] = outputs["retrieve_next_token"][request, parent]
            outputs["retrieve_next_token"][request, parent] = node


def _positions_by_slot_order(outputs: Named, arguments: Named) -> None:
    positions = outputs["positions"].reshape(-1, arguments["num_draft_tokens"])
    for node in range(1, positions.shape[1]):
        before = positions[:, max(node - arguments["topk"], 0)]
        positions[:, node] = before + 1


def _positions_by_node(outputs: Named, arguments: Named) -> None:
    nodes = np.arange(arguments["num_draft_tokens"])
    lengths = np.asarray(arguments["seq_lens"], dtype=np.int64)
    outputs["positions"] = (lengths[:, None] + nodes).reshape(-1)


def _lengths_of_the_first(arguments: Named) -> None:
    lengths = arguments["seq_lens"]
    if len(lengths) and arguments["mask_mode"] != TreeMaskMode.FULL_MASK:
        arguments["seq_lens"] = np.full_like(lengths, lengths[0])


def _roots_left_out(outputs: Named, arguments: Named) -> None:
    tokens = outputs["draft_token"].reshape(-1, arguments["num_draft_tokens"])
    tokens[:, 1:], tokens[:, 0] = tokens[:, :-1].copy(), arguments["bonus_tokens"]
    tokens[:, :-1] = tokens[:, 1:].copy()


def _numbers_within_the_request(outputs: Named, arguments: Named) -> None:
    outputs["retrieve_index"] = outputs["retrieve_index"] % arguments["num_draft_tokens"]


def _rows(outputs: Named, arguments: Named) -> tuple[Array, list[tuple[int, int, int]]]:
    """Return the mask and (request, node, offset of the square's row) of a mask that is not packed."""
    num_nodes, places, offset = arguments["num_draft_tokens"], [], 0
    is_full = arguments["mask_mode"] == TreeMaskMode.FULL_MASK
    for request, length in enumerate(arguments["seq_lens"].tolist()):
        for node in range(num_nodes):
            offset += length if is_full else 0
            places.append((request, node, offset))
            offset += num_nodes
    return outputs["tree_mask"], places


def _is_packed(arguments: Named) -> bool:
    return bool(arguments["mask_mode"] == TreeMaskMode.QLEN_ONLY_BITPACKING)


def _grandparents_unseen(outputs: Named, arguments: Named) -> None:
    if _is_packed(arguments):
        return
    mask, places = _rows(outputs, arguments)
    num_nodes = arguments["num_draft_tokens"]
    for _, node, offset in places:
        seen = [other for other in np.flatnonzero(mask[offset : offset + num_nodes]).tolist() if other != node]
        for ancestor in seen[:-1]:
            mask[offset + ancestor] = False


def _root_unseen(outputs: Named, arguments: Named) -> None:
    if not _is_packed(arguments):
        mask, places = _rows(outputs, arguments)
        for _, node, offset in places:
            mask[offset] = node == 0


def _full_mask_without_earlier_lengths(outputs: Named, arguments: Named) -> None:
    if arguments["mask_mode"] != TreeMaskMode.FULL_MASK:
        return
    mask, places = _rows(outputs, arguments)
    squares = {
        (request, node): mask[offset : offset + arguments["num_draft_tokens"]].copy()
        for request, node, offset in places
    }
    mask[:] = True
    num_nodes, start = arguments["num_draft_tokens"], 0
    for request, length in enumerate(arguments["seq_lens"].tolist()):
        for node in range(num_nodes):
            offset = start + node * (length + num_nodes) + length
            mask[offset : offset + num_nodes] = squares[request, node]
        start += num_nodes * num_nodes


def _offsets_wrap(outputs: Named, arguments: Named) -> None:
    if _is_packed(arguments):
        return
    mask, places = _rows(outputs, arguments)
    num_nodes = arguments["num_draft_tokens"]
    squares = [(offset, mask[offset : offset + num_nodes].copy()) for _, _, offset in places]
    mask[:] = True
    for offset, square in squares:
        wrapped = offset % WRAP
        room = mask[wrapped : wrapped + num_nodes]
        room[:] = square[: len(room)]


def _bits_reversed(outputs: Named, arguments: Named) -> None:
    if _is_packed(arguments):
        width = outputs["tree_mask"].dtype.itemsize * 8
        words = [int(f"{word:0{width}b}"[::-1], 2) for word in outputs["tree_mask"].tolist()]
        outputs["tree_mask"] = np.array(words, dtype=outputs["tree_mask"].dtype)


def _bits_cut_at_a_byte(outputs: Named, arguments: Named) -> None:
    if _is_packed(arguments):
        outputs["tree_mask"] = outputs["tree_mask"] & outputs["tree_mask"].dtype.type(0xFF)


def _mask_of_the_first_request(outputs: Named, arguments: Named) -> None:
    if arguments["mask_mode"] == TreeMaskMode.QLEN_ONLY and len(arguments["seq_lens"]):
        size = arguments["num_draft_tokens"] ** 2
        outputs["tree_mask"] = np.resize(outputs["tree_mask"][:size], outputs["tree_mask"].shape)


def _depth_counts_the_node(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = outputs["positions"] + 1


def _siblings_by_depth(outputs: Named, arguments: Named) -> None:
    depths = arguments["tree_mask"].sum(axis=-1)
    for request, row in enumerate(depths.tolist()):
        for node in range(1, len(row)):
            later = [other for other in range(node + 1, len(row)) if row[other] == row[node]]
            outputs["retrieve_next_sibling"][request, node] = later[0] if later else -1


def _deepest_descendant_first(outputs: Named, arguments: Named) -> None:
    for request, square in enumerate(arguments["tree_mask"]):
        for node in range(len(square)):
            below = [other for other in range(node + 1, len(square)) if square[other, node]]
            outputs["retrieve_next_token"][request, node] = below[-1] if below else -1


_BUILD = "build_tree"
_RECONSTRUCT = "reconstruct_indices_from_tree_mask"

MUTANTS = (
    Mutant(
        "B01", _BUILD, "The parent search reads on into the next request; orphans are linked.", _search_past_the_row
    ),
    Mutant("B03", _BUILD, "A position is that of the layer before, by place.", returning(_positions_by_slot_order)),
    Mutant("B06", _BUILD, "A tree has two layers at least.", given(_two_layers_assumed)),
    Mutant("B07", _BUILD, "A chain stops one node early.", returning(_chain_stops_early)),
    Mutant("SYN1", _BUILD, "The last sibling points to itself.", returning(_last_sibling_points_to_itself)),
    Mutant("SYN2", _BUILD, "The last sibling is skipped.", returning(_last_sibling_skipped)),
    Mutant("SYN3", _BUILD, "A node points to its second child.", returning(_second_child_first)),
    Mutant("SYN9", _BUILD, f"Mask offsets wrap at {WRAP}, as int32 does at 2**31.", returning(_offsets_wrap)),
    Mutant("OWN-31", _BUILD, "Siblings are linked in descending order.", returning(_siblings_descend)),
    Mutant("OWN-32", _BUILD, "Parents are looked up as if nothing was pruned.", returning(_parent_is_the_group)),
    Mutant("OWN-33", _BUILD, "A position is length plus node number.", returning(_positions_by_node)),
    Mutant("OWN-34", _BUILD, "Every request has the length of the first.", given(_lengths_of_the_first)),
    Mutant("OWN-35", _BUILD, "Drafts are laid out over the root.", returning(_roots_left_out)),
    Mutant("OWN-36", _BUILD, "Every request has the root of the first.", of_the_first("bonus_tokens")),
    Mutant("OWN-37", _BUILD, "Node numbers start anew in each request.", returning(_numbers_within_the_request)),
    Mutant("OWN-38", _BUILD, "A node sees itself and its parent only.", returning(_grandparents_unseen)),
    Mutant("OWN-39", _BUILD, "The root is not seen.", returning(_root_unseen)),
    Mutant(
        "OWN-40",
        _BUILD,
        "The full mask's offsets leave out the lengths of earlier requests.",
        returning(_full_mask_without_earlier_lengths),
    ),
    Mutant("OWN-41", _BUILD, "Packed bits are in big-endian order.", returning(_bits_reversed)),
    Mutant("OWN-42", _BUILD, "Packed words are cut at eight bits.", returning(_bits_cut_at_a_byte)),
    Mutant("OWN-43", _BUILD, "Every request has the mask of the first.", returning(_mask_of_the_first_request)),
    Mutant("OWN-44", _RECONSTRUCT, "A depth counts the node itself.", returning(_depth_counts_the_node)),
    Mutant("OWN-45", _RECONSTRUCT, "Nodes of equal depth are siblings.", returning(_siblings_by_depth)),
    Mutant("OWN-46", _RECONSTRUCT, "A node's child is its last descendant.", returning(_deepest_descendant_first)),
    Mutant(
        "OWN-47",
        _RECONSTRUCT,
        "Every request has the length of the first.",
        of_the_first("seq_lens"),
    ),
)
