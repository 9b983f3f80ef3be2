"""Faults in the walk along the target's choices, and in the metadata of its forward."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, edits_of, given, mutants_of, returning, with_outputs
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages
from specsim.topology import Topology

Array = Any
TILE = 8


def children_of(next_token: Any, next_sibling: Any) -> Any:
    """Return the children of every node of a tree, in the order of its links."""
    return Topology.from_links(next_token, next_sibling).children


def _among(children: str, **names: Any) -> Callable[[Function], Function]:
    """Inject a search among other children than those below the last node."""
    search = f"""
    below = children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]
    chosen = target_predict[request, last]
    node = next((child for child in {children} if candidates[request, child] == chosen), -1)
    """
    return edited(SEARCH, search, children_of=children_of, **names)


def _rows_by_request_number(arguments: Named) -> None:
    target = arguments["target_predict"]
    flat, width = target.reshape(-1), target.shape[1]
    rows = [flat[request : request + width] for request in range(len(target))]
    arguments["target_predict"] = np.array(rows, dtype=target.dtype).reshape(target.shape)


def _all_matches_counted(outputs: Named, arguments: Named) -> None:
    for request, tokens in enumerate(arguments["candidates"].tolist()):
        chosen = arguments["target_predict"][request]
        links = (arguments[f"retrieve_next_{name}"][request] for name in ("token", "sibling"))
        pairs = [(node, child) for node, below in enumerate(children_of(*links)) for child in below]
        matches = sum(tokens[child] == chosen[node] for node, child in pairs)
        most = arguments["num_steps"]
        outputs["num_accepted_drafts"][request] = max(min(matches, most), outputs["num_accepted_drafts"][request])


def _largest_of_nothing(arguments: Named) -> None:
    max(arguments["seq_lens"].tolist())


_IS_OTHER = "candidates[request, node] != target_predict[request, last]"
SEARCH = f"""
node = retrieve_next_token[request, last]
while node != -1 and {_IS_OTHER}:
    node = retrieve_next_sibling[request, node]
"""
BONUS = "predict[retrieve_index[request, last]] = target_predict[request, last]"
_OUTPUT_AND_COUNT = f"{BONUS}\nnum_accepted_drafts[request] += 1"
TOKENS_ARE_OUTPUT = (
    _OUTPUT_AND_COUNT,
    _OUTPUT_AND_COUNT.replace("target_predict[request, last]", "candidates[request, node]"),
)
"""What outputs the accepted drafts themselves, where they need not be the target's choices."""


DIFFS = """
    @@ verify_tree_greedy
    OWN-48 Of equal siblings the higher wins.
    - node = retrieve_next_token[request, last]
    - while node != -1 and candidates[request, node] != target_predict[request, last]:
    -     node = retrieve_next_sibling[request, node]
    + below = children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]
    + chosen = target_predict[request, last]
    + node = next((child for child in below[::-1] if candidates[request, child] == chosen), -1)
    OWN-391 Siblings are tried by ascending number.
    - node = retrieve_next_token[request, last]
    - while node != -1 and candidates[request, node] != target_predict[request, last]:
    -     node = retrieve_next_sibling[request, node]
    + below = children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]
    + chosen = target_predict[request, last]
    + node = next((child for child in sorted(below) if candidates[request, child] == chosen), -1)
    OWN-49 Only the first child is tried.
    - node = retrieve_next_token[request, last]
    - while node != -1 and candidates[request, node] != target_predict[request, last]:
    -     node = retrieve_next_sibling[request, node]
    + below = children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]
    + chosen = target_predict[request, last]
    + node = next((child for child in below[:1] if candidates[request, child] == chosen), -1)
    V16 The first draft is accepted unverified.
    - candidates[request, node] != target_predict[request, last]
    + last and candidates[request, node] != target_predict[request, last]
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    - num_accepted_drafts[request] += 1
    + predict[retrieve_index[request, last]] = candidates[request, node]
    + num_accepted_drafts[request] += 1
    V03 A child is tested against its own row, not its parent's.
    - candidates[request, node] != target_predict[request, last]
    + candidates[request, node] != target_predict[request, node]
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    - num_accepted_drafts[request] += 1
    + predict[retrieve_index[request, last]] = candidates[request, node]
    + num_accepted_drafts[request] += 1
    OWN-50 The walk ends one step early.
    - range(num_steps) => range(num_steps - 1)
    OWN-51 Accepted nodes are numbered within the request.
    - retrieve_index[request, 0] => 0
    - accept_index[request, num_accepted_drafts[request]] = retrieve_index[request, node]
    + accept_index[request, num_accepted_drafts[request]] = node
    OWN-53 Output is keyed by the child that follows.
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    - num_accepted_drafts[request] += 1
    + predict[retrieve_index[request, node]] = target_predict[request, last]
    + num_accepted_drafts[request] += 1
    OWN-54 The bonus token comes from the root's row.
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    - num_accepted_drafts[request] += 1
    + predict[retrieve_index[request, last]] = candidates[request, node]
    + num_accepted_drafts[request] += 1
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    + predict[retrieve_index[request, last]] = target_predict[request, 0]
    @@ argmax_target_predict
    V30 The best block's local index is kept.
    - logits[row].argmax() => logits[row].argmax() % 8
    V19 Row offsets wrap at 32, as int32 does at 2**31.
    - logits[row] => logits.reshape(-1)[row * logits.shape[1] % 32 :][: logits.shape[1]]
    OWN-55 Ties go to the higher id.
    - logits[row].argmax() => logits.shape[1] - 1 - logits[row, ::-1].argmax()
    @@ target_verify_metadata
    G10 Tokens per request are the configured tree width.
    - axes["tokens_per_request"] => 4
    @@ target_verify_metadata in lay_out_verify
    OWN-56 Query offsets keep the configured stride.
    - cu_seqlens_q[request] + num_queries[request] => cu_seqlens_q[request] + 4
    PV12 A verify adds one position, however many tokens it holds.
    - seq_lens[request] + num_queries[request] => seq_lens[request] + 1
    OWN-57 Lengths have already advanced.
    - seq_lens[request] + num_queries[request] => seq_lens[request] + num_queries[request] + num_queries[request]
"""

MUTANTS = (
    *mutants_of(
        "verify_tree_greedy",
        ("V22", "Rows of single nodes are looked up by request number.", given(_rows_by_request_number)),
        ("M05", "Every matching node counts as accepted.", returning(_all_matches_counted)),
        (
            "PV05",
            "The count of drafts is counted up in place by the bonus.",
            with_outputs(num_accepted_drafts=lambda counts: counts + np.int32(1)),
        ),
        (
            "OWN-392",
            "A link to a smaller number is taken for the end.",
            _among("[child for before, child in zip([last, *below], below) if child > before]"),
        ),
        (
            "OWN-397",
            "A sibling with a larger token ends the search.",
            _among("takewhile(lambda one: candidates[request, one] <= chosen, below)", takewhile=takewhile),
        ),
        ("OWN-52", "Rows are padded with node 0.", with_outputs(accept_index=lambda index: np.maximum(index, 0))),
    ),
    *mutants_of(
        "target_verify_metadata",
        ("G09", "The longest of no requests is asked for.", given(_largest_of_nothing)),
        (
            "OWN-58",
            "Key offsets start after the first request.",
            with_outputs(cu_seqlens_k=lambda offsets: np.append(offsets[1:], offsets[-1:])),
        ),
        ("OWN-59", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-60", "Every position is read as a page of its own.", returning(every_position_a_page)),
        ("OWN-61", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
    *edits_of(DIFFS, children_of=children_of),
)
