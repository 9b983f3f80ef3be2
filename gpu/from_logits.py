"""Acceptance straight from raw logits: a walk reads the rows that it visits, each once, and no others."""

import torch

from specsim.counts import path_width
from specsim.gpu.kernels import from_logits as kernels
from specsim.gpu.kernels import greedy_from_logits as greedy
from specsim.gpu.kernels import row_statistics
from specsim.gpu.launching.blocks import ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare

CHUNK = 16384
GREEDY_CHUNK = 8192
LEAST_CHUNK = 256
UNIT = 8
SLOTS = 128
WAYS = 8
ROW_WAYS = 8
NUM_WARPS = 8
BLOCK = 4096
MOST_CHUNKS = 32
MOST_GREEDY_CHUNKS = 256
PROGRAMS_TO_FILL = 1024
LARGEST_PRECISE = 4096


def chunk_of(vocab: int) -> int:
    """Return how many logits one program reads."""
    most = max(CHUNK, power_of_two(ceil_div(vocab, MOST_CHUNKS)))
    return max(LEAST_CHUNK, choose_block(vocab, most))


def greedy_chunk_of(vocab: int, num_requests: int) -> int:
    """Return how many logits one program of the greedy walk reads: fewer where requests alone do not fill a GPU."""
    share = power_of_two(ceil_div(num_requests * vocab, PROGRAMS_TO_FILL))
    return choose_block(vocab, max(min(share, GREEDY_CHUNK), power_of_two(ceil_div(vocab, MOST_GREEDY_CHUNKS))))


def verify_tree_greedy_from_logits(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    logits: torch.Tensor,
    num_steps: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Accept greedily from raw logits; one launch a level of the tree and one more, over chunks of a row."""
    axes, outputs = prepare("verify_tree_greedy_from_logits", locals())
    predict, accept_index, num_accepted_drafts = outputs
    num_requests, num_nodes, vocab = axes["request"], axes["node"], axes["vocab"]
    if num_requests == 0:
        return predict, accept_index, num_accepted_drafts
    chunk = greedy_chunk_of(vocab, num_requests)
    num_chunks = ceil_div(vocab, chunk)
    num_levels = min(path_width(num_steps), num_nodes)
    reached = logits.new_empty((num_levels + 1, num_requests), dtype=torch.int32)
    chunk_max = logits.new_empty((num_levels, num_requests, num_chunks), dtype=torch.float32)
    chunk_token = torch.empty_like(chunk_max, dtype=torch.int32)
    tree = [part.contiguous() for part in (candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling)]
    for level in range(num_levels + 1):
        greedy._walk_greedy_kernel[(num_requests, num_chunks if level < num_levels else 1)](
            *tree,
            logits,
            reached,
            chunk_max,
            chunk_token,
            predict,
            accept_index,
            num_accepted_drafts,
            num_nodes,
            num_steps,
            level,
            num_levels,
            num_chunks,
            vocab,
            logits.stride(0),
            logits.stride(1),
            NODES=power_of_two(num_nodes),
            STEPS=power_of_two(path_width(num_steps)),
            CHUNKS=power_of_two(num_chunks),
            CHUNK=chunk,
            num_warps=max(1, min(NUM_WARPS, chunk // 256)),
        )
    return predict, accept_index, num_accepted_drafts


def verify_tree_sampled_from_logits(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    threshold_single: torch.Tensor,
    threshold_acc: torch.Tensor,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Accept by chance from raw logits; two launches a level of the tree, over chunks of a row and over requests.

    The first reads the row of the node that each request has reached; the second decides by the lists of its largest
    logits, or reads the row again where they do not suffice.
    """
    axes, outputs = prepare("verify_tree_sampled_from_logits", locals())
    predict, accept_index, num_accepted_drafts = outputs
    num_requests, num_nodes, vocab = axes["request"], axes["node"], axes["vocab"]
    if num_requests == 0:
        return predict, accept_index, num_accepted_drafts
    chunk = chunk_of(vocab)
    num_chunks = ceil_div(vocab, chunk)
    shares = (num_requests, num_chunks)
    current = logits.new_empty(num_requests, dtype=torch.int32)
    statistics = logits.new_empty((2, *shares), dtype=torch.float32)
    chunk_mass = logits.new_empty(shares, dtype=torch.float64)
    listed_logits = logits.new_empty((*shares, SLOTS), dtype=torch.float32)
    listed_tokens = logits.new_empty((*shares, SLOTS), dtype=torch.int32)
    lists = (statistics[0], chunk_mass, statistics[1], listed_logits, listed_tokens)
    temperature, top_k = temperature.contiguous(), top_k.contiguous()
    tree = [part.contiguous() for part in (candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling)]
    coins = (uniform_samples.contiguous(), uniform_samples_for_final_sampling.contiguous())
    filters = (temperature, top_k, top_p.contiguous(), min_p.contiguous())
    thresholds = (threshold_single.contiguous(), threshold_acc.contiguous())
    shift, is_precise = (16 if logits.dtype is torch.bfloat16 else 0), vocab <= LARGEST_PRECISE
    unit = min(UNIT, chunk // LEAST_CHUNK)
    num_levels = min(path_width(num_steps), num_nodes)
    for level in range(num_levels):
        row_statistics._row_statistics_kernel[shares](
            logits,
            current,
            temperature,
            top_k,
            *lists,
            num_nodes,
            level,
            vocab,
            logits.stride(0),
            logits.stride(1),
            UNITS=chunk // unit,
            UNIT=unit,
            SLOTS=SLOTS,
            SHIFT=shift,
            PRECISE=is_precise,
            num_warps=NUM_WARPS,
        )
        kernels._walk_sampled_kernel[(num_requests,)](
            *tree,
            *coins,
            logits,
            *filters,
            *thresholds,
            current,
            *lists,
            predict,
            accept_index,
            num_accepted_drafts,
            num_nodes,
            num_steps,
            level,
            num_levels,
            num_chunks,
            chunk,
            vocab,
            logits.stride(0),
            logits.stride(1),
            int(strict),
            int(skip_duplicates),
            NODES=power_of_two(num_nodes),
            STEPS=power_of_two(path_width(num_steps)),
            CHUNKS=power_of_two(num_chunks),
            SLOTS=SLOTS,
            SHIFT=shift,
            WAYS=WAYS,
            ROW_WAYS=ROW_WAYS,
            BLOCK=min(chunk, choose_block(vocab, BLOCK)),
            PRECISE=is_precise,
            num_warps=NUM_WARPS,
        )
    return predict, accept_index, num_accepted_drafts
