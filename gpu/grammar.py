"""Grammar: which tokens each node of a tree may be followed by."""

import torch

from specsim.gpu.kernels import grammar as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare

_BITS_PER_WORD = 32
_TILE = 1024


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
    axes, (vocab_mask,) = prepare("generate_token_bitmask", locals())
    num_requests, num_nodes, vocab = axes["request"], axes["node"], axes["vocab"]
    num_rows, num_words = vocab_mask.shape
    if num_rows == 0:
        return vocab_mask
    is_terminated = is_terminated.contiguous()
    parent, state = torch.empty((2, num_requests, num_nodes), dtype=torch.int32, device=vocab_mask.device)
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // nodes))
    kernels._reach_nodes_kernel[(ceil_div(num_requests, requests),)](
        transitions,
        is_terminated,
        candidates.contiguous(),
        retrieve_next_token.contiguous(),
        retrieve_next_sibling.contiguous(),
        grammar_state.contiguous(),
        parent,
        state,
        num_requests,
        num_nodes,
        axes["state"],
        vocab,
        transitions.stride(0),
        transitions.stride(1),
        REQUESTS=requests,
        NODES=nodes,
        num_warps=max(1, min(8, nodes // 32)),
    )
    words = choose_block(num_words, _TILE // _BITS_PER_WORD, LARGEST_TILE // _BITS_PER_WORD)
    tokens = words * _BITS_PER_WORD
    rows = choose_block(num_rows, max(1, _TILE // tokens), max(1, LARGEST_TILE // tokens))
    kernels._fill_bitmask_kernel[(ceil_div(num_rows, rows), ceil_div(num_words, words))](
        transitions,
        is_terminated,
        state,
        vocab_mask,
        num_rows,
        vocab,
        num_words,
        transitions.stride(0),
        transitions.stride(1),
        ROWS=rows,
        WORDS=words,
    )
    return vocab_mask
