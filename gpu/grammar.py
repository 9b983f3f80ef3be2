"""Grammar: which tokens each node of a tree may be followed by."""

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


@operation
def generate_token_bitmask(call: Call) -> list[Launch]:
    """Walk each tree with its request's grammar and pack the tokens that may follow; two launches.

    The first takes a round a level of the deepest tree; the second reads one row of transitions a reached node.
    """
    axes, transitions = call.axes, call.arguments["transitions"]
    num_requests, num_nodes, vocab = axes["request"], axes["node"], axes["vocab"]
    if num_requests == 0:
        return []
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // nodes))
    strides = strides_of(transitions, "state", "token")
    reach = Plan(
        kernels._reach_nodes_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={
            "num_requests": num_requests,
            "num_nodes": num_nodes,
            "num_states": axes["state"],
            "vocab": vocab,
            **strides,
        },
        constants={"NODES": nodes},
        tunables={"REQUESTS": requests},
        num_warps=max(1, min(8, nodes // 32)),
    )
    num_rows, num_words = num_requests * num_nodes, ceil_div(vocab, BITS_PER_WORD)
    words = choose_block(num_words, TOKENS // BITS_PER_WORD, LARGEST_TILE // BITS_PER_WORD)
    tokens = words * BITS_PER_WORD
    rows = choose_block(num_rows, max(1, TOKENS // tokens), max(1, LARGEST_TILE // tokens))
    fill = Plan(
        kernels._fill_bitmask_kernel,
        grid=(ceil_div(num_rows, rows), ceil_div(num_words, words)),
        sizes={"num_rows": num_rows, "vocab": vocab, "num_words": num_words, **strides},
        tunables={"ROWS": rows, "WORDS": words},
    )
    inputs = {
        "transitions": transitions,
        **call.contiguous(
            "is_terminated", "candidates", "retrieve_next_token", "retrieve_next_sibling", "grammar_state"
        ),
    }
    scratch = {name: call.scratch(num_requests, num_nodes, dtype=torch.int32) for name in ("parent", "state")}
    outputs = call.returned()
    return [Launch(plan, inputs, outputs, scratch) for plan in (reach, fill)]
