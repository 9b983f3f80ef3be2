"""Faults in the walk along the target's choices, and in the metadata of its forward."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, edits_of, given, mutants_by_operation, returning, with_outputs
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages
from specsim.topology import Topology


def children_of(next_token: Any, next_sibling: Any) -> Any:
    """Return the children of every node of a tree, in the order of its links."""
    return Topology.from_links(next_token, next_sibling).children


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


def _among(children: str, **names: Any) -> Callable[[Function], Function]:
    """Inject a search among other children than those below the last node."""
    search = f"""
    below = children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]
    chosen = target_predict[request, last]
    node = next((child for child in {children} if candidates[request, child] == chosen), -1)
    """
    return edited(SEARCH, search, children_of=children_of, **names)


def _accepting(is_other: str) -> Callable[[Function], Function]:
    """Inject another test of a child, and the accepted drafts as output."""
    return edited(_IS_OTHER, is_other, *TOKENS_ARE_OUTPUT)


_keyed_by_the_child = edited(_OUTPUT_AND_COUNT, _OUTPUT_AND_COUNT.replace("last]] =", "node]] ="))
_bonus_of_the_root = edited(*TOKENS_ARE_OUTPUT, BONUS, f"{BONUS.removesuffix('last]')}0]")
_link_to_a_smaller = _among("[child for before, child in zip([last, *below], below) if child > before]")
_larger_ends = _among("takewhile(lambda one: candidates[request, one] <= chosen, below)", takewhile=takewhile)
_keys_of_the_next = with_outputs(cu_seqlens_k=lambda offsets: np.append(offsets[1:], offsets[-1:]))
_by_its_own_row = _accepting(_IS_OTHER.replace("last", "node"))
_bonus_counted = with_outputs(num_accepted_drafts=lambda counts: counts + np.int32(1))

DIFFS = """
    @@ verify_tree_greedy
    V22 Rows of single nodes are looked up by request number.
      num_requests = axes["request"]
    + target_predict = target_predict.reshape(-1)[np.add.outer(range(num_requests), range(axes["node"]))]
    M05 Every matching node counts as accepted.
    - if node == -1:
    -     break
    + if node == -1:
    +     pairs = enumerate(children_of(retrieve_next_token[request], retrieve_next_sibling[request]))
    +     matches = sum((candidates[request, [*below]] == target_predict[request, one]).sum() for one, below in pairs)
    +     num_accepted_drafts[request] = max(min(matches, num_steps), num_accepted_drafts[request])
    +     break
    OWN-50 The walk ends one step early.
    - range(num_steps) => range(num_steps - 1)
    OWN-51 Accepted nodes are numbered within the request.
    - retrieve_index[request, 0] => 0
    - accept_index[request, num_accepted_drafts[request]] = retrieve_index[request, node]
    + accept_index[request, num_accepted_drafts[request]] = node
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

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, children_of=children_of),
    verify_tree_greedy=(
        ("OWN-48", "Of equal siblings the higher wins.", _among("below[::-1]")),
        ("OWN-391", "Siblings are tried by ascending number.", _among("sorted(below)")),
        ("OWN-49", "Only the first child is tried.", _among("below[:1]")),
        ("OWN-392", "A link to a smaller number is taken for the end.", _link_to_a_smaller),
        ("OWN-397", "A sibling with a larger token ends the search.", _larger_ends),
        ("V16", "The first draft is accepted unverified.", _accepting(f"last and {_IS_OTHER}")),
        ("V03", "A child is tested against its own row, not its parent's.", _by_its_own_row),
        ("OWN-53", "Output is keyed by the child that follows.", _keyed_by_the_child),
        ("OWN-54", "The bonus token comes from the root's row.", _bonus_of_the_root),
        ("PV05", "The count of drafts is counted up in place by the bonus.", _bonus_counted),
        ("OWN-52", "Rows are padded with node 0.", with_outputs(accept_index=lambda index: np.maximum(index, 0))),
    ),
    target_verify_metadata=(
        ("G09", "The longest of no requests is asked for.", given(lambda asked: max(asked["seq_lens"].tolist()))),
        ("OWN-58", "Key offsets start after the first request.", _keys_of_the_next),
        ("OWN-59", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-60", "Every position is read as a page of its own.", returning(every_position_a_page)),
        ("OWN-61", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
)
