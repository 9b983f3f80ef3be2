import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.host.grammar import TableGrammar, is_allowed, traverse_tree


@pytest.fixture
def automaton(i32):
    """Return states 0 → a or b, 1 (after a) → b, 2 (after b) complete."""
    return i32([[1, 2, -1], [-1, 2, -1], [0, 0, 0]]), np.array([False, False, True])


def test_rows_follow_the_path(automaton, equal, i32, i64):
    transitions, terminated = automaton
    # Nodes: root → 1 (a), 3 (c, forbidden); 1 → 2 (b, complete); 3 → 4 (a).
    got = reference.generate_token_bitmask(
        transitions,
        terminated,
        i64([[0, 0, 1, 2, 0], [0, 0, 1, 2, 0]]),
        i64([[1, 2, -1, 4, -1]] * 2),
        i64([[-1, 3, -1, -1, -1]] * 2),
        i32([0, -1]),
    )
    equal(got, i32([[0b011], [0b010], [-1], [-1], [-1], [-1], [-1], [-1], [-1], [-1]]))


def test_a_token_beyond_the_vocabulary_is_not_allowed(automaton, equal, i32, i64):
    transitions, terminated = automaton
    got = reference.generate_token_bitmask(
        transitions, terminated, i64([[0, 32]]), i64([[1, -1]]), i64([[-1, -1]]), i32([0])
    )
    equal(got, i32([[0b011], [-1]]))


def test_a_complete_root_has_no_mask(automaton, equal, i32, i64):
    transitions, terminated = automaton
    got = reference.generate_token_bitmask(
        transitions, terminated, i64([[0, 0]]), i64([[1, -1]]), i64([[-1, -1]]), i32([2])
    )
    equal(got, i32([[-1], [-1]]))


def test_bits_past_the_vocabulary_are_zero(equal, i32, i64):
    transitions = np.zeros((1, 33), dtype=np.int32)
    terminated = np.array([False])
    got = reference.generate_token_bitmask(transitions, terminated, i64([[0]]), i64([[-1]]), i64([[-1]]), i32([0]))
    equal(got, i32([[-1, 1]]))


def test_a_deep_chain_needs_no_recursion(i32):
    depth = 5000
    grammar = TableGrammar(np.zeros((1, 2), dtype=np.int32), np.array([False]), 0)
    bitmask = np.full((depth, 1), -1, dtype=np.int32)
    traverse_tree([*range(1, depth), -1], [-1] * depth, [1] * depth, grammar, bitmask, 2)
    assert (bitmask == 0b11).all()
    assert grammar.history == [0]


def test_bits_are_read_from_the_right_word(i32):
    row = i32([-(2**31), 2])
    assert [token for token in range(64) if is_allowed(row, token)] == [31, 33]


def test_an_automaton_refuses_what_it_does_not_allow(automaton):
    grammar = TableGrammar(*automaton, 1)
    with pytest.raises(ValueError, match="token 0 is not allowed in state 1"):
        grammar.accept(0)
    grammar.accept(1)
    with pytest.raises(ValueError, match="state 2 is terminated"):
        grammar.fill_bitmask(np.zeros(1, dtype=np.int32))
    grammar.rollback(1)
    assert grammar.state == 1


@pytest.mark.parametrize(("state", "link", "reason"), [(3, -1, Reason.STATE_OUT_OF_RANGE), (0, 0, Reason.CYCLIC_TREE)])
def test_rejections(state, link, reason, automaton, i32, i64):
    transitions, terminated = automaton
    with pytest.raises(SpecRejection) as caught:
        reference.generate_token_bitmask(transitions, terminated, i64([[0]]), i64([[link]]), i64([[-1]]), i32([state]))
    assert caught.value.reason is reason
