"""Faults in grammar masks, and in the walk that makes them."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Mutant,
    Named,
    given,
    instead,
    mutants_of,
    of_the_first,
    returning,
    with_arguments,
)
from specsim.topology import Topology

Array = Any


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


_MASK = "generate_token_bitmask"
_SIBLING = """
if next_sibling[node] >= 0:
    stack.append((next_sibling[node], parent))
"""
_READ = """
if not is_root:
    grammar.accept(tokens[node])
    stack.append((ended, 0))
"""

MUTANTS = (
    Mutant("R12", _MASK, "A root without constraint frees all nodes.", returning(_flag_of_the_root)),
    Mutant("R14", _MASK, "A complete text is asked for a mask.", with_arguments(is_terminated=np.zeros_like)),
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
    *mutants_of(
        "traverse_tree",
        ("OWN-333", "Tokens are never taken back.", edited("grammar.rollback(1)", "")),
        ("OWN-334", "A complete text is asked for a mask.", edited("not grammar.is_terminated()", "True")),
        (
            "OWN-335",
            "Siblings after a rejected one are not visited.",
            edited(_SIBLING, "", _READ, f"{_SIBLING}\n{_READ}"),
        ),
        ("OWN-450", "Only the root gets a mask.", edited("next_token[node] >= 0", "False")),
        (
            "OWN-336",
            "The root's token is taken back.",
            edited("stack = [(0, ended)]", "stack = [(ended, 0), (0, ended)]"),
        ),
    ),
)
