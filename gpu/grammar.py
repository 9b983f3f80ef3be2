"""Grammar: which tokens each node of a tree may be followed by."""

import torch

from specsim.gpu.kernels import grammar as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.host.grammar import BITS_PER_WORD

TOKENS = 1024
"""Transitions that a program reads at a time: eight a thread of four warps."""


def generate_token_bitmask(
    transitions: torch.Tensor,
    is_terminated: torch.Tensor,
    candidates: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    grammar_state: torch.Tensor,
) -> torch.Tensor:
    """Walk each tree with its request's grammar and pack the tokens that may follow; two launches.

    The first takes a round a level of the deepest tree; the second reads one row of transitions a reached node.
    """
    return run("generate_token_bitmask", launch_generate_token_bitmask, locals())


def launch_generate_token_bitmask(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes, vocab_mask, transitions = call.axes, call.outputs, call.arguments["transitions"]
    num_requests, num_nodes = axes["request"], axes["node"]
    if num_requests == 0:
        return vocab_mask
    launch(
        *_plan_bitmask(num_requests, num_nodes, axes["state"], axes["vocab"], *transitions.stride()),
        inputs={
            "transitions": transitions,
            **call.contiguous(
                "is_terminated", "candidates", "retrieve_next_token", "retrieve_next_sibling", "grammar_state"
            ),
        },
        outputs={"vocab_mask": vocab_mask},
        scratch={
            "parent": call.scratch(num_requests, num_nodes, dtype=torch.int32),
            "state": call.scratch(num_requests, num_nodes, dtype=torch.int32),
        },
    )
    return vocab_mask


@planned
def _plan_bitmask(
    num_requests: int, num_nodes: int, num_states: int, vocab: int, state_stride: int, token_stride: int
) -> tuple[Plan, Plan]:
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // nodes))
    strides = {"state_stride": state_stride, "token_stride": token_stride}
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
    return reach, fill
