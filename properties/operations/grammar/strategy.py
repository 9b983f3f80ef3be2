"""Strategies of grammars: finite automata, and trees that follow them or leave them."""

import numpy as np
from hypothesis import strategies as st

from specsim.host.grammar import TableGrammar
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly
from specsim.properties.strategies.trees import Tree, trees

VOCABULARIES = (31, 32, 33, 63, 64, 65, 257)
DENSITIES = (1.0, 0.75, 0.75, 0.75, 0.4, 0.4)
WAYS = ("follow", "skip", "skip", "follow", "leave")
"""A tree follows its automaton, or has siblings after one that is not allowed, or takes no notice of it."""
NO_GRAMMAR = -1


@composite
def generate_token_bitmask(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw an automaton, trees that follow it or may leave it or the vocabulary, and requests without a grammar."""
    vocab = draw(mostly(st.integers(1, 6), st.sampled_from(VOCABULARIES), one_in=3))
    num_states = draw(mostly(st.integers(2, 6), st.just(1), one_in=8))
    source = draw(bulk())
    tokens = vocab + draw(st.sampled_from((0, 0, 0, 2, 40)))
    states = mostly(st.integers(0, num_states - 1), st.just(NO_GRAMMAR), one_in=6)
    drawn = draw(trees(st.tuples(states, st.sampled_from(WAYS)), max_requests, tokens))
    is_terminated = source.integers(num_states, 0, draw(st.sampled_from((2, 4, 9)))) == 1
    is_terminated[0] &= num_states == 1
    automaton = TableGrammar(
        _transitions(source, num_states, vocab, draw(st.sampled_from(DENSITIES))), is_terminated, NO_GRAMMAR
    )
    for tree, (first, way) in zip(drawn.requests, drawn.others, strict=True):
        if way != "leave" and first != NO_GRAMMAR:
            _follow(tree, first, automaton, source)
        if way == "skip":
            _forbid_an_elder(tree, vocab)
    arguments = drawn.arguments()
    del arguments["num_steps"]
    return {
        "transitions": automaton.transitions,
        "is_terminated": automaton.terminated,
        "candidates": arguments["candidates"],
        "retrieve_next_token": arguments["retrieve_next_token"],
        "retrieve_next_sibling": arguments["retrieve_next_sibling"],
        "grammar_state": np.array([first for first, _ in drawn.others], dtype=np.int32),
    }


def _follow(tree: Tree, first: int, automaton: TableGrammar, source: Bulk) -> None:
    """Give every node a token that the state after its parent allows, where it allows any."""
    state, choices = [first] * len(tree.tokens), source.integers(len(tree.tokens), 0, 2**31).tolist()
    allowed = [np.flatnonzero(following >= 0).tolist() for following in automaton.transitions]
    for node in sorted(range(1, len(state)), key=tree.topology.depths.__getitem__):
        above = state[tree.topology.parents[node]]
        if allowed[above]:
            tree.tokens[node] = allowed[above][choices[node] % len(allowed[above])]
            state[node] = int(automaton.transitions[above, tree.tokens[node]])


def _forbid_an_elder(tree: Tree, vocab: int) -> None:
    """Give one of several siblings, not the last and with few children, a token that no state allows."""
    for siblings in tree.children:
        if len(siblings) > 1:
            tree.tokens[min(siblings[:-1], key=lambda node: len(tree.topology.children[node]))] = vocab


def _transitions(source: Bulk, num_states: int, vocab: int, density: float) -> Array:
    following = source.integers((num_states, vocab), 0, num_states - 1, np.int32)
    return np.where(source.integers((num_states, vocab), 0, 99) < density * 100, following, np.int32(-1))
