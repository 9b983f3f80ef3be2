"""Latencies by CUDA-graph replay: single operations at production shapes, and whole decode iterations.

Nothing here decides whether the operations are right; ``specsim bench`` checks agreement first and only then measures.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.config import TreeMaskMode
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.decode import measure_iterations
from specsim.gpu.bench.from_logits import NUM_STEPS, VOCAB, from_logits_cases, measure_compositions
from specsim.gpu.bench.memory import memory_cases
from specsim.gpu.bench.timing import CALLS_PER_GRAPH, Case, Latency, measure

__all__ = ["Case", "Latency", "measure", "measure_compositions", "measure_iterations", "operation_cases"]

NUM_LAYERS = 32
KV_ENTRY = (8, 128)


def operation_cases() -> tuple[Case, ...]:
    """Return the shapes for which the figures of today's engines are known."""
    trees = [
        Case(
            "build_tree",
            f"{batch} requests, {nodes} nodes, {mode.name}, length {length}",
            partial(tree_inputs, batch, topk, nodes, mode, length),
            today,
        )
        for batch, topk, nodes, mode, length, today in (
            (1, 4, 16, TreeMaskMode.QLEN_ONLY, 1000, "-"),
            (8, 4, 16, TreeMaskMode.QLEN_ONLY, 1000, "-"),
            (64, 4, 16, TreeMaskMode.QLEN_ONLY, 1000, "16"),
            (64, 8, 32, TreeMaskMode.QLEN_ONLY, 1000, "32"),
            (64, 16, 64, TreeMaskMode.QLEN_ONLY, 1000, "61"),
            (256, 16, 64, TreeMaskMode.QLEN_ONLY, 1000, "-"),
            (512, 16, 64, TreeMaskMode.FULL_MASK, 1000, "101"),
        )
    ]
    walks = [
        Case(
            "verify_tree_greedy",
            f"{batch} requests, {nodes} nodes",
            partial(verify_inputs, batch, topk, nodes),
            "1.7 to 4.7",
        )
        for batch, topk, nodes in ((1, 4, 16), (8, 4, 16), (64, 4, 16), (64, 16, 64), (256, 16, 64), (512, 16, 64))
    ]
    moves = [
        Case(
            "move_kv_cache",
            f"{NUM_LAYERS} layers, K and V, 8 x 128 bf16, {pairs} slots",
            partial(move_inputs, pairs),
            today,
        )
        for pairs, today in ((4, "272"), (256, "386"), (1024, "615"))
    ]
    rows = [
        Case(
            "target_probabilities",
            f"{number} rows of {VOCAB:,}, float32, temperature alone",
            partial(row_inputs, number),
            today,
            num_inputs=num_inputs,
        )
        for number, today, num_inputs in ((16, "22", CALLS_PER_GRAPH), (256, "116", 2), (1024, "441", 2))
    ]
    return (*trees, *walks, *moves, *rows, *memory_cases(), *from_logits_cases())


def tree_inputs(batch: int, topk: int, nodes: int, mode: TreeMaskMode, length: int) -> dict[str, Any]:
    """Draft random trees of five levels and return the arguments of ``build_tree``."""
    parent_list, top_scores_index, draft_tokens = gpu.organize_draft_results(
        **drafted_blocks(batch, topk), num_draft_tokens=nodes
    )
    return {
        "bonus_tokens": torch.zeros(batch, dtype=torch.int32, device=DEVICE),
        "parent_list": parent_list,
        "top_scores_index": top_scores_index,
        "draft_tokens": draft_tokens,
        "seq_lens": torch.full((batch,), length, dtype=torch.int64, device=DEVICE),
        "topk": topk,
        "num_steps": NUM_STEPS,
        "num_draft_tokens": nodes,
        "mask_mode": mode.value,
        "seq_lens_sum": batch * length,
    }


def drafted_blocks(batch: int, topk: int) -> dict[str, list[Tensor]]:
    """Draft five levels of random beams and return the blocks that ``organize_draft_results`` takes."""
    generator = torch.Generator(device=DEVICE).manual_seed(batch * topk)
    scores: Tensor | None = None
    blocks = []
    for step in range(NUM_STEPS):
        rows = batch if step == 0 else batch * topk
        topk_p = torch.rand((rows, topk), generator=generator, device=DEVICE).sort(dim=1, descending=True).values
        topk_index = torch.randint(0, VOCAB, (rows, topk), generator=generator, device=DEVICE)
        _, _, scores, *block = gpu.select_top_k_tokens(step, topk_p, topk_index, None, scores, topk)
        blocks.append(block)
    names = ("score_list", "token_list", "parents_list")
    return {name: list(column) for name, column in zip(names, zip(*blocks, strict=True), strict=True)}


def verify_inputs(batch: int, topk: int, nodes: int) -> dict[str, Any]:
    """Build random trees and a target that agrees with about half of the first children."""
    trees = gpu.build_tree(**tree_inputs(batch, topk, nodes, TreeMaskMode.QLEN_ONLY, 1000))
    candidates, links = trees[0].view(batch, nodes), trees[1:4]
    children = links[1].clamp(min=0)
    agrees = torch.rand((batch, nodes), device=DEVICE) < 0.7
    target_predict = torch.where(agrees & (links[1] >= 0), candidates.gather(1, children), 128_255)
    return {
        "candidates": candidates,
        "retrieve_index": links[0],
        "retrieve_next_token": links[1],
        "retrieve_next_sibling": links[2],
        "target_predict": target_predict,
        "num_steps": 5,
    }


def row_inputs(num_rows: int) -> dict[str, Any]:
    """Return random logits of requests with a temperature and without filters."""
    ones = torch.ones(num_rows, device=DEVICE)
    return {
        "logits": torch.randn((num_rows, VOCAB), device=DEVICE) * 3,
        "temperature": ones * 0.8,
        "top_k": torch.full((num_rows,), 2**31 - 1, dtype=torch.int32, device=DEVICE),
        "top_p": ones,
        "min_p": ones * 0,
        "num_draft_tokens": 1,
    }


def move_inputs(pairs: int) -> dict[str, Any]:
    """Return a pool of K and V buffers and disjoint random slots."""
    num_slots = 4 * pairs + 1024
    buffers = [torch.randn((num_slots, *KV_ENTRY), device=DEVICE).bfloat16() for _ in range(2 * NUM_LAYERS)]
    slots = torch.randperm(num_slots - 1, device=DEVICE)[: 2 * pairs] + 1
    return {
        "kv_buffers": gpu.KVBuffers(buffers),
        "target_slots": slots[:pairs].contiguous(),
        "source_slots": slots[pairs:].contiguous(),
    }
