"""Grammars: matchers that a tree is walked with, and the packed mask of the tokens that they allow."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BITS_PER_WORD = 32
"""Tokens of one int32 word of a mask (semantics B.5)."""

EVERYTHING = -1
"""A word of a mask that allows all of its tokens."""


class Grammar(Protocol):
    """A matcher with a state that committed tokens advance."""

    def accept(self, token: int) -> None:
        """Advance by one token, which the state allows."""

    def rollback(self, count: int) -> None:
        """Take the last ``count`` tokens back."""

    def is_terminated(self) -> bool:
        """Return whether the text is complete; a terminated matcher is asked for no mask."""

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the allowed tokens: bit ``v mod 32`` of word ``v // 32`` is 1 for an allowed token v, else 0."""


class TableGrammar:
    """A matcher that is a finite automaton.

    Parameters
    ----------
    transitions : int32 [state, vocab]
        The state after each token, -1 where the token is not allowed.
    terminated : bool [state]
        Whether the text is complete.
    state : int
        Where the matcher stands.
    """

    def __init__(self, transitions: NDArray[np.int32], terminated: NDArray[np.bool_], state: int) -> None:
        self.transitions = transitions
        self.terminated = terminated
        self.history = [state]

    @property
    def state(self) -> int:
        """Where the matcher stands."""
        return self.history[-1]

    def accept(self, token: int) -> None:
        """Advance by one token.

        Raises
        ------
        ValueError
            The state does not allow the token.
        """
        following = int(self.transitions[self.state, token])
        if following < 0:
            raise ValueError(f"token {token} is not allowed in state {self.state}")
        self.history.append(following)

    def rollback(self, count: int) -> None:
        """Take the last ``count`` tokens back."""
        del self.history[len(self.history) - count :]

    def is_terminated(self) -> bool:
        """Return whether the text is complete."""
        return bool(self.terminated[self.state])

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the allowed tokens.

        Raises
        ------
        ValueError
            The matcher is terminated.
        """
        if self.is_terminated():
            raise ValueError(f"state {self.state} is terminated, and has no mask")
        row[:] = 0
        for token in np.flatnonzero(self.transitions[self.state] >= 0).tolist():
            row[token // BITS_PER_WORD] |= np.uint32(1 << (token % BITS_PER_WORD)).astype(np.int32)


def allow_everything(num_rows: int, vocab_size: int) -> NDArray[np.int32]:
    """Return packed rows int32 [row, word] that allow every token."""
    return np.full((num_rows, -(-vocab_size // BITS_PER_WORD)), EVERYTHING, dtype=np.int32)


def is_allowed(row: NDArray[np.int32], token: int) -> bool:
    """Return whether a row of a mask allows a token."""
    return bool((int(row[token // BITS_PER_WORD]) >> (token % BITS_PER_WORD)) & 1)


def traverse_tree(
    next_token: Sequence[int],
    next_sibling: Sequence[int],
    tokens: Sequence[int],
    grammar: Grammar,
    bitmask: NDArray[np.int32],
    vocab_size: int,
) -> None:
    """Walk a tree depth first with a matcher and write the mask row of every node that it reaches.

    Parameters
    ----------
    next_token, next_sibling : sequence of int
        First child and next sibling of each node, -1 if none.
    tokens : sequence of int
        Token of each node; the root's was committed before.
    grammar : Grammar
        The matcher after the root's token; its state is the same afterwards.
    bitmask : int32 [node, ceil(vocab_size/32)]
        Rows that allow everything; a node that is not reached, or that completes the text, keeps its row.
    vocab_size : int
        Tokens; a token beyond is never allowed.

    Notes
    -----
    Source: semantics B.5. A stack takes the place of recursion, so that depth does not matter.
    """
    # NOTE: a pair (node, parent) is to be visited; (ENDED, 0) takes back the token of the subtree that has ended.
    ended = -1
    stack = [(0, ended)]
    while stack:
        node, parent = stack.pop()
        if node == ended:
            grammar.rollback(1)
            continue
        if next_sibling[node] >= 0:
            stack.append((next_sibling[node], parent))
        is_root = parent == ended
        if not is_root and not (tokens[node] < vocab_size and is_allowed(bitmask[parent], tokens[node])):
            continue
        if not is_root:
            grammar.accept(tokens[node])
            stack.append((ended, 0))
        if not grammar.is_terminated():
            grammar.fill_bitmask(bitmask[node])
            if next_token[node] >= 0:
                stack.append((next_token[node], node))


AdvanceGrammar = Callable[[Grammar, Sequence[int]], int | None]
"""As ``advance_grammar``."""


def advance_grammar(grammar: Grammar, tokens: Sequence[int]) -> int | None:
    """Advance a matcher by tokens that were committed, one after another.

    Parameters
    ----------
    grammar : Grammar
        The matcher; it is left after the token that completes the text, or after the last one.
    tokens : sequence of int
        Committed tokens; one that ended the request already is not among them.

    Returns
    -------
    num_tokens : int or None
        How many tokens complete the text; None if it goes on.

    Raises
    ------
    ValueError
        The matcher does not allow a token: it was committed in spite of the mask.

    Notes
    -----
    Source: semantics B.11.
    """
    for place, token in enumerate(tokens):
        grammar.accept(token)
        if grammar.is_terminated():
            return place + 1
    return None
