"""Inputs of what moves, frees and tells: pages, indexers, recurrent states, penalties and log-probabilities."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.config import INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.counts import ceil_to
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.timing import Case

VOCAB = 128_256
LENGTH = 1000
NUM_STEPS = 5

PAGE_SIZE = 64
INDEXER_LAYERS = 60
INDEXER_KEY_BYTES = 128
STATE = (32, 128, 128)
STATE_LAYERS = 4
CHAIN_NODES = 4


def memory_cases() -> Iterator[Case]:
    """Yield one or two shapes of each; engines have no figure for them."""
    for batch in (16, 64):
        yield Case(
            "gather_output_logprobs", f"{batch} requests, 16 nodes, top 5", partial(reported_inputs, batch, 16), "-"
        )
        yield Case("apply_penalties", f"{batch} requests, 16 nodes", partial(penalty_inputs, batch, 16), "-")
    for batch in (1, 16, 64):
        shape = f"{batch} requests, 16 nodes, top-k 50, bf16"
        yield Case("keep_top_k_exactly", shape, partial(top_k_inputs, batch, 16), "-")
    for pairs in (4, 256):
        shape = f"{INDEXER_LAYERS} layers, keys of {INDEXER_KEY_BYTES} bytes, {pairs} slots"
        yield Case("move_indexer_cache", shape, partial(indexer_inputs, pairs), "-")
    shape = f"64 requests, {STATE_LAYERS} layers of 1 MiB, bf16, chains of {CHAIN_NODES}"
    yield Case("commit_recurrent_states", shape, partial(state_inputs, 64), "-")
    for page_size in (1, PAGE_SIZE):
        shape = f"64 requests, topk 4, 5 steps, pages of {page_size}, length about {LENGTH}"
        yield Case("assign_draft_cache_locs", shape, partial(location_inputs, 64, page_size), "-")
        yield Case("generate_draft_decode_kv_indices", shape, partial(draft_key_inputs, 64, page_size), "-")


def reported_inputs(batch: int, nodes: int) -> dict[str, Any]:
    """Return logits of every node, and paths of three tokens that start at the root."""
    accept_index = torch.full((batch, NUM_STEPS + 1), -1, dtype=torch.int32, device=DEVICE)
    accept_index[:, :3] = torch.arange(batch, device=DEVICE)[:, None] * nodes + torch.arange(3, device=DEVICE)
    return {
        "logits": torch.randn((batch * nodes, VOCAB), device=DEVICE).bfloat16(),
        "accept_index": accept_index,
        "predict": torch.randint(0, VOCAB, (batch * nodes,), dtype=torch.int32, device=DEVICE),
        "temperature": torch.full((batch,), 0.8, device=DEVICE),
        "token_ids": torch.zeros((batch, 0), dtype=torch.int64, device=DEVICE),
        "num_top": 5,
    }


def top_k_inputs(batch: int, nodes: int) -> dict[str, Any]:
    """Return logits of every node, and one top-k for all requests."""
    return {
        "logits": torch.randn((batch * nodes, VOCAB), device=DEVICE).bfloat16(),
        "top_k": torch.full((batch,), 50, dtype=torch.int32, device=DEVICE),
        "num_draft_tokens": nodes,
    }


def penalty_inputs(batch: int, nodes: int) -> dict[str, Any]:
    """Return logits of chains, and counts of outputs of which every hundredth token of the vocabulary was said."""
    causal = torch.ones((nodes, nodes), dtype=torch.bool, device=DEVICE).tril()
    token_counts = (torch.rand((batch, VOCAB), device=DEVICE) < 0.01).int()
    return {
        "logits": torch.randn((batch * nodes, VOCAB), device=DEVICE).bfloat16(),
        "token_counts": token_counts,
        "draft_token": torch.randint(0, VOCAB, (batch * nodes,), device=DEVICE),
        "tree_mask": causal.repeat(batch, 1, 1).reshape(-1),
        "frequency_penalty": torch.full((batch,), 0.1, device=DEVICE),
        "presence_penalty": torch.full((batch,), 0.2, device=DEVICE),
        "repetition_penalty": torch.full((batch,), 1.1, device=DEVICE),
        "num_draft_tokens": nodes,
    }


def indexer_inputs(pairs: int) -> dict[str, Any]:
    """Return pages of keys and scales, and disjoint random slots."""
    num_pages = (4 * pairs + 1024) // INDEXER_PAGE_KEYS
    page_bytes = INDEXER_PAGE_KEYS * (INDEXER_KEY_BYTES + INDEXER_SCALE_BYTES)
    pages = [torch.zeros((num_pages, page_bytes), dtype=torch.uint8, device=DEVICE) for _ in range(INDEXER_LAYERS)]
    target_slots, source_slots = _disjoint_slots(pairs, INDEXER_PAGE_KEYS * num_pages)
    return {
        "indexer_buffers": gpu.KVBuffers.of_indexer(pages, INDEXER_KEY_BYTES),
        "target_slots": target_slots,
        "source_slots": source_slots,
        "head_dim": INDEXER_KEY_BYTES,
    }


def state_inputs(batch: int) -> dict[str, Any]:
    """Return states of requests and of the nodes of their chains, of which two drafts were accepted."""
    rows = torch.arange(1, batch + 1, device=DEVICE)
    return {
        "state_buffers": gpu.KVBuffers(_states(batch + 1) for _ in range(STATE_LAYERS)),
        "step_buffers": gpu.KVBuffers.of_steps(_states(batch, CHAIN_NODES) for _ in range(STATE_LAYERS)),
        "state_slots": rows,
        "commit_step": torch.full((batch,), 2, dtype=torch.int64, device=DEVICE),
        "snapshot_slots": torch.full((batch,), -1, dtype=torch.int64, device=DEVICE),
        "snapshot_step": torch.full((batch,), -1, dtype=torch.int64, device=DEVICE),
    }


def location_inputs(batch: int, page_size: int) -> dict[str, Any]:
    """Return a map of lengths that end anywhere in a page."""
    topk = 4
    seq_lens = _lengths(batch)
    reserve = topk * (ceil_to(NUM_STEPS + page_size, page_size)) + page_size
    return {
        "req_pool_indices": torch.arange(1, batch + 1, device=DEVICE),
        "req_to_token": page_map(batch + 1, LENGTH + batch + reserve, page_size),
        "seq_lens": seq_lens,
        "topk": topk,
        "num_steps": NUM_STEPS,
        "page_size": page_size,
        "num_copies": (topk - 1) * int((seq_lens % page_size).sum()),
    }


def draft_key_inputs(batch: int, page_size: int) -> dict[str, Any]:
    """Return the same map, for what every beam reads at every step."""
    inputs = location_inputs(batch, page_size)
    del inputs["num_copies"]
    return {**inputs, "positions": inputs["seq_lens"].repeat_interleave(inputs["topk"])}


def _lengths(batch: int) -> Tensor:
    return LENGTH + torch.arange(batch, dtype=torch.int64, device=DEVICE)


def page_map(rows: int, width: int, page_size: int) -> Tensor:
    """Return a map whose rows have whole pages of their own, in random order."""
    pages_a_row = ceil_to(width, page_size) // page_size
    pages = torch.randperm(rows * pages_a_row, device=DEVICE).view(rows, pages_a_row, 1) + 1
    slots = pages * page_size + torch.arange(page_size, device=DEVICE)
    return slots.view(rows, -1).int()


def _disjoint_slots(pairs: int, num_slots: int) -> tuple[Tensor, Tensor]:
    slots = torch.randperm(num_slots - 1, device=DEVICE)[: 2 * pairs] + 1
    return slots[:pairs].contiguous(), slots[pairs:].contiguous()


def _states(*places: int) -> Tensor:
    return torch.zeros((*places, *STATE), dtype=torch.bfloat16, device=DEVICE)
