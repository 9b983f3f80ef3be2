"""Compact on the GPU: ids, slots and node-indexed rows. Moving KV stands in ``move.py``."""

import torch

from specsim.counts import path_width
from specsim.gpu.kernels.compact import (
    _compact_accepted_to_front_kernel,
    _fill_accept_out_cache_loc_kernel,
    _fill_accept_target_cache_loc_kernel,
    _fill_bonus_tokens_kernel,
    _gather_accept_tokens_kernel,
)
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.pointers import words_of
from specsim.gpu.move import move_kv_cache

__all__ = [
    "compact_accepted_to_front",
    "fill_accept_out_cache_loc",
    "fill_accept_target_cache_loc",
    "fill_bonus_tokens",
    "gather_accept_tokens",
    "move_kv_cache",
]


def gather_accept_tokens(predict: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Read the output tokens along each accepted path; a program owns a block of flat entries."""
    _, (accept_tokens,) = prepare("gather_accept_tokens", locals())
    num_entries = accept_index.numel()
    if num_entries:
        block = choose_block(num_entries, 256)
        _gather_accept_tokens_kernel[(ceil_div(num_entries, block),)](
            predict.contiguous(), accept_index.contiguous(), accept_tokens, num_entries, BLOCK=block
        )
    return accept_tokens


def fill_bonus_tokens(accept_tokens: torch.Tensor, num_accepted_tokens: torch.Tensor) -> torch.Tensor:
    """Pick the last output token of each request; a program owns a block of requests."""
    axes, (bonus_tokens,) = prepare("fill_bonus_tokens", locals())
    num_requests = axes["request"]
    if num_requests:
        block = choose_block(num_requests, 128)
        _fill_bonus_tokens_kernel[(ceil_div(num_requests, block),)](
            accept_tokens.contiguous(),
            num_accepted_tokens.contiguous(),
            bonus_tokens,
            num_requests,
            accept_tokens.shape[1],
            BLOCK=block,
        )
    return bonus_tokens


def fill_accept_out_cache_loc(accept_index: torch.Tensor, out_cache_loc: torch.Tensor) -> torch.Tensor:
    """List the slots of the accepted nodes; a program packs a block of entries and counts those before it."""
    _, (source_slots,) = prepare("fill_accept_out_cache_loc", locals())
    num_entries = accept_index.numel()
    if num_entries:
        block = choose_block(num_entries, 1024)
        _fill_accept_out_cache_loc_kernel[(ceil_div(num_entries, block),)](
            accept_index.contiguous(), out_cache_loc.contiguous(), source_slots, num_entries, BLOCK=block
        )
    return source_slots


def fill_accept_target_cache_loc(
    num_accepted_tokens: torch.Tensor, out_cache_loc: torch.Tensor, num_steps: int
) -> torch.Tensor:
    """List the slots that the accepted nodes move to; a program packs a block of entries and counts those before it."""
    axes, (target_slots,) = prepare("fill_accept_target_cache_loc", locals())
    num_entries = target_slots.shape[0]
    if num_entries:
        block = choose_block(num_entries, 1024)
        _fill_accept_target_cache_loc_kernel[(ceil_div(num_entries, block),)](
            num_accepted_tokens.contiguous(),
            out_cache_loc.contiguous(),
            target_slots,
            num_entries,
            path_width(num_steps),
            axes["node"],
            BLOCK=block,
        )
    return target_slots


def compact_accepted_to_front(values: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Bring the entries of the accepted path to the front of each request's block, out of place, as plain bytes.

    A program owns a tile of rows and words. Past the path a row is a copy of global node 0 up to the row width, of
    itself after it, as in the reference.
    """
    axes, (compacted,) = prepare("compact_accepted_to_front", locals())
    if values.numel() == 0:
        return compacted
    source, target = words_of(values.contiguous()), words_of(compacted)
    word = source.dtype if source.element_size() <= target.element_size() else target.dtype
    source, target = source.view(word), target.view(word)
    num_rows, num_words = source.shape
    words = choose_block(num_words, 512, 1 << 12)
    rows = choose_block(num_rows, max(1, 1024 // words), LARGEST_TILE // words)
    _compact_accepted_to_front_kernel[(ceil_div(num_rows, rows), ceil_div(num_words, words))](
        source,
        accept_index.contiguous(),
        target,
        num_rows,
        axes["node"],
        accept_index.shape[1],
        num_words,
        ROWS=rows,
        WORDS=words,
    )
    return compacted
