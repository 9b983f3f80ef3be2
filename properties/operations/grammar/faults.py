"""Faults in grammar masks, and in the walk that makes them."""

from typing import Any

from specsim.host.grammar import TableGrammar
from specsim.properties.mutants.record import edits_of


def _write(grammar: TableGrammar, state: int, row: Any) -> None:
    """Write the mask of another state than the one that a grammar is in, if that has any."""
    if state >= 0 and not grammar.terminated[state]:
        TableGrammar(grammar.transitions, grammar.terminated, state).fill_bitmask(row)


DIFFS = """
    @@ generate_token_bitmask
    R14 A complete text is asked for a mask.
    - is_terminated => np.zeros_like(is_terminated)
    OWN-329 Every request has the grammar of the first.
    - grammar_state[request] >= 0 => grammar_state[0] >= 0
    - int(grammar_state[request]) => int(grammar_state[0])
    R12 A root without constraint frees all nodes.
    - grammar_state[request] >= 0
    + grammar_state[request] >= 0 and (transitions[grammar_state[request]] < 0).any()
    OWN-330 Without a grammar nothing is allowed.
      vocab_mask = allow_everything(axes["request"] * num_nodes, vocab)
    + vocab_mask[np.repeat(grammar_state < 0, num_nodes)] = 0
    OWN-331 Bits past the vocabulary are set.
    - return vocab_mask
    + vocab_mask[:, -1] |= np.int32(-1) << np.int32(vocab % 32) if vocab % 32 else 0
    + return vocab_mask
    OWN-332 Tokens beyond the vocabulary wrap.
    - candidates[request].tolist() => (candidates[request] % vocab).tolist()
    @@ generate_token_bitmask in traverse_tree
    OWN-357 The grammar reads the last token of a path only.
    - is_allowed(bitmask[parent], tokens[node]) => grammar.transitions[grammar.state, tokens[node]] >= 0
    - grammar.fill_bitmask(bitmask[node])
    + alone = grammar.transitions[grammar.history[0], tokens[node]] if node else grammar.state
    + write(grammar, alone, bitmask[node])
    S12 Masks are one token late.
    - is_allowed(bitmask[parent], tokens[node]) => grammar.transitions[grammar.state, tokens[node]] >= 0
    - grammar.fill_bitmask(bitmask[node]) => write(grammar, grammar.history[-2:][0], bitmask[node])
    OWN-394 States are computed in one pass by number, in which a parent comes before its children.
    - is_allowed(bitmask[parent], tokens[node]) => parent < node and is_allowed(bitmask[parent], tokens[node])
    OWN-398 A sibling's token is not taken back before the next one is read.
    - is_allowed(bitmask[parent], tokens[node]) => grammar.transitions[grammar.state, tokens[node]] >= 0
    - stack.append((ended, 0))
    + if next_sibling[node] < 0:
    +     stack.append((ended, 0))
    @@ traverse_tree
    OWN-333 Tokens are never taken back.
    - grammar.rollback(1)
    OWN-334 A complete text is asked for a mask.
    - not grammar.is_terminated() => True
    OWN-335 Siblings after a rejected one are not visited.
    - if next_sibling[node] >= 0:
    -     stack.append((next_sibling[node], parent))
    ...
    - if not is_root:
    -     grammar.accept(tokens[node])
    -     stack.append((ended, 0))
    + if next_sibling[node] >= 0:
    +     stack.append((next_sibling[node], parent))
    + if not is_root:
    +     grammar.accept(tokens[node])
    +     stack.append((ended, 0))
    OWN-450 Only the root gets a mask.
    - next_token[node] >= 0 => False
    OWN-336 The root's token is taken back.
    - stack = [(0, ended)] => stack = [(ended, 0), (0, ended)]
"""

MUTANTS = edits_of(DIFFS, write=_write)
