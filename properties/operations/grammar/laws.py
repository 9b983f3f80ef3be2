"""Laws of grammar masks: a node's row is that of a fresh grammar which read the path to it."""

from collections.abc import Callable, Sequence

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.grammar import TableGrammar
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, require_one_by_one, states
from specsim.properties.laws.links import parents_of
from specsim.properties.operations.grammar import strategy as grammar_strategies
from specsim.properties.operations.probabilities.laws import allowed_tokens

_MASK = "generate_token_bitmask"


class WatchedGrammar(TableGrammar):
    """An automaton that is asked for nothing once its text is complete, and gives back only what it took."""

    def accept(self, token: int) -> None:
        """Advance by one token."""
        require(not self.is_terminated(), "a token after the end of the text", token, "none")
        super().accept(token)

    def rollback(self, count: int) -> None:
        """Take tokens back."""
        require(count < len(self.history), "tokens taken back", count, f"at most {len(self.history) - 1}")
        super().rollback(count)


def rows_are_those_of_a_fresh_grammar(backend: Backend, case: Case) -> None:
    """A row allows what the automaton allows after the path to its node; a row that it does not reach allows all."""
    mask = outputs_of(backend, _MASK, case)["vocab_mask"]
    expected = expected_mask(case)
    vocab = case["transitions"].shape[1]
    require_equal("the allowed tokens", allowed_tokens(mask, vocab), expected[:, :vocab])
    require_equal("the bits past the vocabulary", allowed_tokens(mask, mask.shape[1] * 32), expected)


def masks_are_made_one_by_one(backend: Backend, case: Case) -> None:
    """A request's rows are the same alone, and in any order of the batch."""
    require_one_by_one(backend, _MASK, case, ["vocab_mask"])


def rows_follow_their_nodes(backend: Backend, case: Case) -> None:
    """With the nodes below the root numbered backwards, each node has the row that it had."""
    count, num_nodes = len(case["grammar_state"]), case["candidates"].shape[1]
    number = np.array([0, *range(num_nodes - 1, 0, -1)])
    renumbered = {**case, "candidates": case["candidates"][:, number]}
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        links = case[name][:, number]
        renumbered[name] = np.where(links < 0, links, number[links])
    whole = outputs_of(backend, _MASK, case)["vocab_mask"]
    rows = whole.reshape(count, num_nodes, whole.shape[1])[:, number]
    got = outputs_of(backend, _MASK, renumbered)["vocab_mask"]
    require_equal("vocab_mask of the renumbered trees", got, rows.reshape(whole.shape))


def walks_leave_the_grammar_as_it_is(backend: Backend, case: Case) -> None:
    """A walk of a tree gives back every token that it took, and asks nothing of a complete text."""
    traverse: Callable[..., None] = backend.host("traverse_tree")
    expected = expected_mask(case)
    vocab, num_nodes = case["transitions"].shape[1], case["candidates"].shape[1]
    for request, first in enumerate(case["grammar_state"].tolist()):
        if first < 0:
            continue
        watched = WatchedGrammar(case["transitions"], case["is_terminated"], first)
        rows = np.full((num_nodes, -(-vocab // 32)), -1, dtype=np.int32)
        links = [case[name][request].tolist() for name in ("retrieve_next_token", "retrieve_next_sibling")]
        traverse(*links, case["candidates"][request].tolist(), watched, rows, vocab)
        require_equal("the tokens that were not taken back", watched.history, [first])
        wanted = expected[request * num_nodes : (request + 1) * num_nodes, :vocab]
        require_equal(f"the rows of request {request}", allowed_tokens(rows, vocab), wanted)


def expected_mask(case: Case) -> Array:
    """Return what each row allows, bool [row, 32 * words], by reading the path to every node afresh."""
    vocab, num_nodes = case["transitions"].shape[1], case["candidates"].shape[1]
    expected = np.ones((case["candidates"].size, -(-vocab // 32) * 32), dtype=np.bool_)
    for request, first in enumerate(case["grammar_state"].tolist()):
        parents = parents_of(case, request)
        for node in range(num_nodes):
            reached = state_after(case, first, path_to(parents, node), case["candidates"][request].tolist())
            if reached >= 0 and not case["is_terminated"][reached]:
                expected[request * num_nodes + node] = False
                expected[request * num_nodes + node, :vocab] = case["transitions"][reached] >= 0
    return expected


def path_to(parents: Sequence[int], node: int) -> list[int]:
    """Return the nodes below the root on the way to a node."""
    path: list[int] = []
    while node > 0:
        path.insert(0, node)
        node = parents[node]
    return path


def state_after(case: Case, first: int, path: Sequence[int], tokens: Sequence[int]) -> int:
    """Return the state after a path, or -1 where a token is not allowed or comes after the end of the text."""
    for node in path:
        token = tokens[node]
        if first < 0 or case["is_terminated"][first] or token >= case["transitions"].shape[1]:
            return -1
        first = int(case["transitions"][first, token])
    return first


_calls = grammar_strategies.generate_token_bitmask
PROPERTIES = states(
    "grammar",
    (rows_are_those_of_a_fresh_grammar, _MASK, "P53"),
    (masks_are_made_one_by_one, _MASK, "P31"),
    (rows_follow_their_nodes, _MASK, "P53"),
    (walks_leave_the_grammar_as_it_is, _calls, "traverse_tree", "P53"),
)
