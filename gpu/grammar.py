"""Grammar: which tokens each node of a tree may be followed by."""

from math import gcd

import torch

from specsim.gpu.kernels import grammar as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
from specsim.host.grammar import BITS_PER_WORD

TOKENS = 1024
"""Transitions that a program reads at a time: eight a thread of four warps."""

COPIED_WORDS = 4096
"""Words of a state's mask that a program copies at a time: eight vectors a thread of four warps."""

VECTOR = 4
"""Words that a thread moves at once."""


@operation
def generate_token_bitmask(call: Call) -> list[Launch]:
    """Walk each tree with its request's grammar and pack the tokens that may follow; two or three launches.

    The first takes a round a level of the deepest tree. Where there are fewer states than nodes, the second reads the
    transitions of each reached state once, for the row that leads it, and the third copies that row to the others;
    elsewhere the second reads one row of transitions a reached node.
    """
    axes, transitions = call.axes, call.arguments["transitions"]
    num_requests, num_nodes, num_states, vocab = axes["request"], axes["node"], axes["state"], axes["vocab"]
    if num_requests == 0:
        return []
    num_rows, num_words = num_requests * num_nodes, ceil_div(vocab, BITS_PER_WORD)
    has_leaders = num_states < num_rows
    led: dict[str, None] = {} if has_leaders else {"leader_ptr": None}
    strides = strides_of(transitions, "state", "token")
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // nodes))
    reach = Plan(
        kernels._reach_nodes_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={
            "num_requests": num_requests,
            "num_nodes": num_nodes,
            "num_states": num_states,
            "vocab": vocab,
            **strides,
        },
        constants={"NODES": nodes, **led},
        tunables={"REQUESTS": requests},
        num_warps=max(1, min(8, nodes // 32)),
    )
    num_items = num_states if has_leaders else num_rows
    rows, words = _tile(num_items, num_words, TOKENS // BITS_PER_WORD, LARGEST_TILE // BITS_PER_WORD)
    fill = Plan(
        kernels._fill_bitmask_kernel,
        grid=(ceil_div(num_items, rows), ceil_div(num_words, words)),
        sizes={"num_items": num_items, "num_rows": num_rows, "vocab": vocab, "num_words": num_words, **strides},
        constants=led,
        tunables={"ROWS": rows, "WORDS": words},
    )
    plans = [reach, fill]
    scratch = {name: call.scratch(num_requests, num_nodes, dtype=torch.int32) for name in ("link", "state")}
    if has_leaders:
        scratch["leader"] = call.scratch(num_states, dtype=torch.int32)
        rows, words = _tile(num_rows, num_words, COPIED_WORDS, LARGEST_TILE)
        vector = gcd(num_words, VECTOR)
        copy = Plan(
            kernels._copy_bitmask_kernel,
            grid=(ceil_div(num_rows, rows), ceil_div(num_words, words)),
            sizes={"num_rows": num_rows, "num_vectors": num_words // vector},
            constants={"VECTOR": vector},
            tunables={"ROWS": rows, "WORDS": words},
        )
        plans.append(copy)
    inputs = {
        "transitions": transitions,
        **call.contiguous(
            "is_terminated", "candidates", "retrieve_next_token", "retrieve_next_sibling", "grammar_state"
        ),
    }
    outputs = call.returned()
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


def _tile(num_rows: int, num_words: int, most: int, interpreted: int) -> tuple[int, int]:
    """Return the rows and the words of a program that takes so many words at most."""
    words = choose_block(num_words, most, interpreted)
    return choose_block(num_rows, max(1, most // words), max(1, interpreted // words)), words
