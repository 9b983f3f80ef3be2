"""Faults in grammar masks, and in the walk that makes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from specsim.host.grammar import Grammar, is_allowed
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    given,
    instead,
    of_the_first,
    returning,
    unchecked,
)
from specsim.topology import Topology

Array = Any


def _terminated_unasked(arguments: Named) -> None:
    arguments["is_terminated"] = np.zeros_like(arguments["is_terminated"])


def _flag_of_the_root(outputs: Named, arguments: Named) -> None:
    transitions, width = arguments["transitions"], arguments["candidates"].shape[1]
    for request, first in enumerate(arguments["grammar_state"].tolist()):
        if first >= 0 and (transitions[first] >= 0).all():
            outputs["vocab_mask"][request * width : (request + 1) * width] = -1


def _tree(arguments: Named, request: int) -> Topology:
    return Topology.from_links(*(arguments[f"retrieve_next_{name}"][request] for name in ("token", "sibling")))


def _masked(state_of: Callable[[Named, int, Topology], list[int]]) -> Callable[..., Array]:
    """Return an operation that asks for each node in which state its mask is taken; -1 allows everything."""

    def call(**arguments: Any) -> Array:
        transitions, width = arguments["transitions"], arguments["candidates"].shape[1]
        vocab = transitions.shape[1]
        words = -(-vocab // 32)
        mask = np.full((arguments["candidates"].size, words), -1, dtype=np.int32)
        for request in range(len(arguments["grammar_state"])):
            for node, state in enumerate(state_of(arguments, request, _tree(arguments, request))):
                if state >= 0 and not arguments["is_terminated"][state]:
                    allowed = np.zeros(words * 32, dtype=np.uint8)
                    allowed[:vocab] = transitions[state] >= 0
                    mask[request * width + node] = np.packbits(allowed, bitorder="little").view(np.int32)
        return mask

    return call


def _step(arguments: Named, state: int, token: int) -> int:
    transitions = arguments["transitions"]
    if state < 0 or arguments["is_terminated"][state] or token >= transitions.shape[1]:
        return -1
    return int(transitions[state, token])


def _by_the_book(arguments: Named, request: int, tree: Topology) -> list[int]:
    tokens, first = arguments["candidates"][request].tolist(), int(arguments["grammar_state"][request])
    paths = [tree.path_to(node)[1:] for node in range(len(tree))]
    return [reduce(partial(_step, arguments), [tokens[node] for node in path], first) for path in paths]


def _last_token_only(arguments: Named, request: int, tree: Topology) -> list[int]:
    first, tokens = int(arguments["grammar_state"][request]), arguments["candidates"][request].tolist()
    reached = _by_the_book(arguments, request, tree)
    alone = [_step(arguments, first, token) for token in tokens]
    return [first, *(alone[node] if reached[node] >= 0 else -1 for node in range(1, len(tokens)))]


def _elder_sibling_not_taken_back(arguments: Named, request: int, tree: Topology) -> list[int]:
    tokens, states, waiting = arguments["candidates"][request].tolist(), [-1] * len(tree), [0]
    states[0] = int(arguments["grammar_state"][request])
    for node in waiting:
        before = states[node]
        for child in tree.children[node]:
            states[child] = _step(arguments, before, tokens[child])
            before = states[child] if states[child] >= 0 else before
        waiting += tree.children[node]
    return states


def _one_token_late(arguments: Named, request: int, tree: Topology) -> list[int]:
    states = _by_the_book(arguments, request, tree)
    return [states[0], *(states[tree.parents[node]] if states[node] >= 0 else -1 for node in range(1, len(states)))]


def _one_pass_by_number(arguments: Named, request: int, tree: Topology) -> list[int]:
    tokens, states = arguments["candidates"][request].tolist(), [int(arguments["grammar_state"][request])]
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        states.append(_step(arguments, states[parent], tokens[node]) if parent < node else -1)
    return states


def _nothing_without_grammar(outputs: Named, arguments: Named) -> None:
    width = arguments["candidates"].shape[1]
    has_none = np.repeat(arguments["grammar_state"] < 0, width)
    outputs["vocab_mask"] = np.where(has_none[:, None], np.int32(0), outputs["vocab_mask"])


def _padding_allowed(outputs: Named, arguments: Named) -> None:
    past = arguments["transitions"].shape[1] % 32
    if past:
        outputs["vocab_mask"][:, -1] |= np.int32(-1) << np.int32(past)


def _tokens_wrap(arguments: Named) -> None:
    arguments["candidates"] = arguments["candidates"] % arguments["transitions"].shape[1]


@dataclass(frozen=True)
class Faults:
    """A recursive walk by the book, but for the faults that are switched on."""

    never_taken_back: bool = False
    asks_when_complete: bool = False
    stops_at_a_rejected_sibling: bool = False
    root_taken_back: bool = False
    root_alone: bool = False


def _traversed(faults: Faults) -> Callable[[Function], Function]:
    def traverse(
        next_token: Sequence[int],
        next_sibling: Sequence[int],
        tokens: Sequence[int],
        grammar: Grammar,
        bitmask: Array,
        vocab_size: int,
    ) -> None:
        def visit(node: int, parent: int) -> None:
            is_reached = node == 0 or (tokens[node] < vocab_size and is_allowed(bitmask[parent], tokens[node]))
            if is_reached:
                if node > 0:
                    grammar.accept(tokens[node])
                if faults.asks_when_complete or not grammar.is_terminated():
                    grammar.fill_bitmask(bitmask[node])
                    if next_token[node] >= 0 and not faults.root_alone:
                        visit(next_token[node], node)
                if (node > 0 and not faults.never_taken_back) or (node == 0 and faults.root_taken_back):
                    grammar.rollback(1)
            if next_sibling[node] >= 0 and (is_reached or not faults.stops_at_a_rejected_sibling):
                visit(next_sibling[node], parent)

        visit(0, -1)

    return unchecked(traverse)


_MASK = "generate_token_bitmask"
_TRAVERSE = "traverse_tree"

MUTANTS = (
    Mutant("R12", _MASK, "A root without constraint frees all nodes.", returning(_flag_of_the_root)),
    Mutant("R14", _MASK, "A complete text is asked for a mask.", given(_terminated_unasked)),
    Mutant("OWN-357", _MASK, "The grammar reads the last token of a path only.", instead(_masked(_last_token_only))),
    Mutant("S12", _MASK, "Masks are one token late.", instead(_masked(_one_token_late))),
    Mutant(
        "OWN-394",
        _MASK,
        "States are computed in one pass by number, in which a parent comes before its children.",
        instead(_masked(_one_pass_by_number)),
    ),
    Mutant(
        "OWN-398",
        _MASK,
        "A sibling's token is not taken back before the next one is read.",
        instead(_masked(_elder_sibling_not_taken_back)),
    ),
    Mutant("OWN-329", _MASK, "Every request has the grammar of the first.", of_the_first("grammar_state")),
    Mutant("OWN-330", _MASK, "Without a grammar nothing is allowed.", returning(_nothing_without_grammar)),
    Mutant("OWN-331", _MASK, "Bits past the vocabulary are set.", returning(_padding_allowed)),
    Mutant("OWN-332", _MASK, "Tokens beyond the vocabulary wrap.", given(_tokens_wrap)),
    Mutant("OWN-333", _TRAVERSE, "Tokens are never taken back.", _traversed(Faults(never_taken_back=True))),
    Mutant("OWN-334", _TRAVERSE, "A complete text is asked for a mask.", _traversed(Faults(asks_when_complete=True))),
    Mutant(
        "OWN-335",
        _TRAVERSE,
        "Siblings after a rejected one are not visited.",
        _traversed(Faults(stops_at_a_rejected_sibling=True)),
    ),
    Mutant("OWN-450", _TRAVERSE, "Only the root gets a mask.", _traversed(Faults(root_alone=True))),
    Mutant("OWN-336", _TRAVERSE, "The root's token is taken back.", _traversed(Faults(root_taken_back=True))),
)
