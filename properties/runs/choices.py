"""What a request of a run may bring beside its prompt: a processor of logits, and a grammar."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.host.grammar import TableGrammar


@dataclass(frozen=True)
class Shifted:
    """A processor that gives every token the logits of an earlier one, on any arrays."""

    count: int

    def __call__(self, rows: Any) -> Any:
        """Return the rows, their columns turned."""
        vocab_size = rows.shape[1]
        return rows[:, [(token - self.count) % vocab_size for token in range(vocab_size)]]


@dataclass(frozen=True)
class Automaton:
    """A grammar whose every state but the last goes on; from each state the next ones are drawn from a seed.

    ``density`` is the share of tokens that a state allows; one in ``one_in`` of them leads to the last state, in which
    the text is complete.
    """

    vocab_size: int
    num_states: int
    density: float
    one_in: int
    seed: int

    def tables(self) -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.bool_]]]:
        """Return transitions int32 [state, vocab] and the states in which the text is complete."""
        random = np.random.default_rng(self.seed)
        shape, end = (self.num_states, self.vocab_size), self.num_states - 1
        following = random.integers(0, end, shape).astype(np.int32)
        following[random.integers(0, self.one_in, shape) == 0] = end
        is_allowed = random.random(shape) < self.density
        is_allowed[np.arange(self.num_states), random.integers(0, self.vocab_size, self.num_states)] = True
        return np.where(is_allowed, following, np.int32(-1)), np.arange(self.num_states) == end

    def start(self) -> TableGrammar:
        """Return a matcher that has read nothing."""
        return TableGrammar(*self.tables(), 0)


@dataclass(frozen=True)
class OfLength:
    """A grammar of texts of so many tokens, whatever they are."""

    vocab_size: int
    num_tokens: int

    def start(self) -> TableGrammar:
        """Return a matcher that has read nothing."""
        states = np.arange(self.num_tokens + 1)
        following = np.minimum(states + 1, self.num_tokens).astype(np.int32)
        return TableGrammar(np.repeat(following[:, None], self.vocab_size, axis=1), states == self.num_tokens, 0)
