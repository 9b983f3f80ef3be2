"""Faults in the tree sampler, in coins, and in simulated acceptance."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import edits_of, mutants_by_operation, of_the_first, with_arguments
from specsim.reference.walks import walk_tree


def _first(is_beyond: Any) -> int:
    """Return the first token of those, or the last of all."""
    return int([*np.flatnonzero(is_beyond)[:1], len(is_beyond) - 1][0])


DIFFS = """
    @@ tree_speculative_sampling_target_only in walk_tree
    SYN8 The prefix sums lose their last digits, and a large coin falls off.
    - decide.draw(rest, coins.final) => first(np.floor(np.cumsum(rest) * 16) / 16 > coins.final * rest.sum())
    OWN-254 The last coin is not scaled by the mass that is left.
    - decide.draw(rest, coins.final) => first(np.cumsum(rest) > coins.final)
    OWN-255 A prefix sum that the last coin only reaches is taken.
    - decide.draw(rest, coins.final) => first(np.cumsum(rest) >= coins.final * rest.sum())
    OWN-259 Children beyond the longest path leave its last row.
    - rest[[token for node, token in rejected if node == path[-1]]] = 0.0
    + written, longer = rejected, DraftTree(tree.topology, tree.tokens, tree.num_steps + 1, tree.skip_duplicates)
    + rejected = right(longer, coins, row_of, acceptance).rejected
    + rest[[token for node, token in rejected if node == path[-1]]] = 0.0
    + rejected = written
    V01 The coin that rejected the last draft draws the last token.
    - coins.final => coins.each[path[-1]]
    V04 The array of tried siblings holds 32.
    - rejected.append((node, token))
    + if [before for before, _ in rejected].count(node) < 32:
    +     rejected.append((node, token))
    SYN5 The mass is not reset on the next level.
    - row, is_stuck = row_of(0), False => row, is_stuck, mass = row_of(0), False, 0.0
    - node, mass, is_stuck = path[-1], 0.0, True => node, is_stuck = path[-1], True
    SYN6 Rejected siblings stay in the last token's distribution.
    - rest[[token for node, token in rejected if node == path[-1]]] = 0.0
    OWN-250 Every child has a coin of its own.
    - float(coins.each[node]) => coins.each[child]
    OWN-251 The coin is that of the depth.
    - float(coins.each[node]) => coins.each[len(path) - 1]
    OWN-252 A child is tested against its own row.
    - mass += float(row[token]) => mass += row_of(child)[token]
    - float(row[token]) => row_of(child)[token]
    OWN-253 Siblings before a child do not add to its mass.
    - mass += float(row[token]) => mass = float(row[token])
    OWN-261 The last token comes from the root's row.
    - row.astype(np.float64) => row_of(0).astype(np.float64)
    OWN-275 The final coin tests the drafts too.
    - float(coins.each[node]) => coins.final
    @@ tree_speculative_sampling_target_only
    R17 One relaxed request relaxes all.
    - float(threshold_single[request]) => float(threshold_single.min())
    - float(threshold_acc[request]) => float(threshold_acc.min())
    SYN7 The two thresholds are swapped.
    - Acceptance(float(threshold_single[request]), float(threshold_acc[request]), bool(strict))
    + Acceptance(float(threshold_acc[request]), float(threshold_single[request]), bool(strict))
    OWN-257 Rejected children are not written down.
    - walk.rejected => []
    OWN-258 Accepted children are written down too.
    - walk.rejected => [*walk.rejected, *zip(walk.path, walk.tokens[:-1])]
    OWN-263 The bonus counts as a draft.
    - count_drafts(len(walk.tokens)) => len(walk.tokens)
    @@ tree_speculative_sampling_target_only in Acceptance.accepts
    OWN-256 A probability at the single threshold is not accepted.
    - decide.is_enough(probability, self.threshold_single) => probability > self.threshold_single
    @@ tree_speculative_sampling_target_only in DraftTree.drafts_after
    OWN-393 Siblings are tried by ascending number.
    - self.topology.children[node] => sorted(self.topology.children[node])
    OWN-260 Siblings are tried from the last.
    - self.topology.children[node] => self.topology.children[node][::-1]
    @@ generate_coins in coin
    OWN-265 Coins have 12 bits.
    - digest([seed, seq_len, column]) => digest([seed, seq_len, column]) >> 20 << 20
    @@ generate_coins
    OWN-266 The last coin stands in the next column.
    - FINAL_COLUMN => num_draft_tokens
    @@ generate_simulated_accept_index
    OWN-267 Tokens are counted as drafts.
    - count_drafts(simulated_num_tokens) => simulated_num_tokens
    OWN-268 The nodes are those of the real path.
    - accept_index[request, 0] + place => accept_index[request, place]
    OWN-269 Every request keeps its own length.
    - count_drafts(simulated_num_tokens)
    + min(count_drafts(simulated_num_tokens), (accept_index[request] >= 0).sum() - 1)
"""

_one_stream = with_arguments(seeds=lambda seeds: (seeds[:1].sum() + np.arange(len(seeds))) % 2**32)

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, first=_first, right=walk_tree),
    tree_speculative_sampling_target_only=(
        ("V02", "A coin at the boundary accepts, also at probability 0.", with_arguments(strict=False)),
        ("V28", "Every coin of a node is 0.", with_arguments(uniform_samples=np.zeros_like)),
        ("SYN12", "Every request has the thresholds of the first.", of_the_first("threshold_single", "threshold_acc")),
        ("OWN-262", "The lenient rule is not there.", with_arguments(strict=True)),
    ),
    generate_coins=(
        ("V18", "All requests draw from one stream.", _one_stream),
        ("OWN-264", "The length is left out.", with_arguments(seq_lens=np.zeros_like)),
    ),
)
