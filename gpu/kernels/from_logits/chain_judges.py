"""Drafts of chains, judged by what is known of their rows; a ``walk`` and a ``source`` are as in ``chain_rows``.

``record_ptrs`` point to what a walk has come to: integers (accepted drafts, the rejected draft or -1, the token of a
greedy request or -1), numbers in float64 (largest logit and weight of the target's row, then of the draft's), and the
least logit that filters keep.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN
from specsim.gpu.kernels.from_logits.thresholds import weigh

LEAST_GOAL = tl.constexpr(1e-300)
"""What a logarithm is taken of where its argument is 0, and the logarithm is not used."""


@triton.jit
def join_blocks(
    known_ptrs, row, is_row, num_blocks, temperature, is_greedy, PRECISE: tl.constexpr, BLOCKS: tl.constexpr
):
    """Return the largest logit, the weight and the choice of each row of a tile, from what is known of its blocks."""
    max_ptr, mass_ptr, choice_ptr = known_ptrs
    block = tl.arange(0, BLOCKS)[None, :]
    place = row[:, None] * num_blocks + block
    is_block = is_row[:, None] & (block < num_blocks)
    # NOTE: programs of the same launch may have written them, so that no old copy will do.
    block_max = tl.load(max_ptr + place, mask=is_block, other=float("-inf"), volatile=True)
    largest = tl.max(block_max, axis=1)
    base = tl.where(largest > float("-inf"), largest, 0.0)
    total = tl.zeros_like(base).to(tl.float64)
    choice = tl.zeros_like(base).to(tl.int32) - 1
    if is_greedy:
        block_choice = tl.load(choice_ptr + place, mask=is_block, other=NO_TOKEN, volatile=True)
        choice = tl.min(tl.where(block_max == largest[:, None], block_choice, NO_TOKEN), axis=1)
    else:
        block_mass = tl.load(mass_ptr + place, mask=is_block, other=0.0, volatile=True)
        weight = weigh(block_max, base[:, None], temperature, PRECISE).to(tl.float64)
        total = tl.sum(tl.where(is_block, block_mass * weight, 0.0), axis=1)
    return base, total, choice


@triton.jit
def accepts(logit, largest, total, temperature, draft_logit, draft_law, draft_temperature, is_drawn, coin):
    """Return whether drafts are accepted: whether log p lies above the logarithm of the coin and log q, in float64.

    ``draft_law`` is the largest logit and the weight of the draft's row. A draft that is not drawn is certain.
    """
    warmth = tl.where(draft_temperature == 0, 1.0, draft_temperature).to(tl.float64)
    is_possible = (draft_logit > float("-inf")) | (is_drawn == 0)
    offered = tl.where(is_drawn & is_possible, draft_logit, draft_law[0]).to(tl.float64) - draft_law[0].to(tl.float64)
    wanted = (logit.to(tl.float64) - largest.to(tl.float64)) / temperature.to(tl.float64)
    goal = coin.to(tl.float64) * total / tl.where(is_drawn, draft_law[1], 1.0)
    goal = tl.where(goal > 0, tl.log(tl.maximum(goal, LEAST_GOAL)), float("-inf"))
    return is_possible & (wanted - offered / warmth > goal)


@triton.jit
def judge(
    first_level,
    walk,
    source,
    draft_ptrs,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Judge the drafts of some levels, and return the first level whose draft is not accepted, and how the walk ends.

    That is the level after them all if each is accepted. A walk ends with the draft rejected there, -1 if there is
    none; the choice of a greedy request, otherwise -1; and of both rows the largest logit and the weight. Pointers of
    drafts are to tokens and to coins.
    """
    request, start, length, temperature, draft_temperature = walk
    target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes = source
    num_blocks, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = (
        row_sizes
    )
    level = first_level + tl.arange(0, LEVELS)
    is_draft = level < length
    token = tl.load(draft_ptrs[0] + start + level, mask=is_draft, other=-1)
    is_token = (token >= 0) & (token < vocab)
    coin = tl.load(draft_ptrs[1] + start + level, mask=is_draft, other=0.0)
    row = start + request + level
    logit_ptr = target_logits_ptr + row * target_row_stride + token * target_column_stride
    logit = tl.load(logit_ptr, mask=is_token, other=float("-inf")).to(tl.float32)
    is_greedy = temperature == 0
    warmth = tl.where(is_greedy, 1.0, temperature)
    known_ptrs = (statistic_ptrs[0], statistic_ptrs[1], statistic_ptrs[2])
    largest, total, choice = join_blocks(
        known_ptrs, row, level <= length, num_blocks, warmth, is_greedy, PRECISE, BLOCKS
    )
    draft_logit = tl.zeros_like(largest)
    draft_largest = tl.zeros_like(largest)
    draft_total = tl.zeros_like(total) + 1.0
    is_drawn = (is_greedy == 0) & (draft_temperature > 0) & HAS_DRAFT
    if HAS_DRAFT:
        draft_row = start + level
        if is_drawn:
            draft_ptr = draft_logits_ptr + draft_row * draft_row_stride + token * draft_column_stride
            is_inside = is_token & (token < draft_vocab)
            draft_logit = tl.load(draft_ptr, mask=is_inside, other=float("-inf")).to(tl.float32)
            known_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
            draft_largest, draft_total, _ = join_blocks(
                known_ptrs, draft_row, is_draft, num_blocks, draft_temperature, False, PRECISE, BLOCKS
            )
            draft_total = tl.where(is_draft, draft_total, 1.0)
    draft_law = (draft_largest, draft_total)
    is_accepted = accepts(
        logit, largest, total, warmth, draft_logit, draft_law, draft_temperature, is_drawn & is_token, coin
    )
    is_accepted = is_token & tl.where(is_greedy, token == choice, is_accepted)
    last = tl.min(tl.where(is_accepted, first_level + LEVELS, level), axis=0)
    is_last = level == last
    rejected = tl.max(tl.where(is_last & is_token, token, -1), axis=0).to(tl.int32)
    chosen = tl.where(is_greedy, tl.max(tl.where(is_last, choice, -1), axis=0), -1)
    laws = (
        tl.sum(tl.where(is_last, largest, 0.0), axis=0).to(tl.float64),
        tl.sum(tl.where(is_last, total, 0.0), axis=0),
        tl.sum(tl.where(is_last, draft_largest, 0.0), axis=0).to(tl.float64),
        tl.sum(tl.where(is_last, draft_total, 0.0), axis=0),
    )
    return last, rejected, chosen, laws


@triton.jit
def write_record(record_ptrs, request, last, rejected, chosen, laws):
    """Write down where a walk ends."""
    record_ptr, law_ptr = record_ptrs[0] + request * 4, record_ptrs[1] + request * 4
    tl.store(record_ptr, last)
    tl.store(record_ptr + 1, rejected)
    tl.store(record_ptr + 2, chosen)
    tl.store(law_ptr, laws[0])
    tl.store(law_ptr + 1, laws[1])
    tl.store(law_ptr + 2, laws[2])
    tl.store(law_ptr + 3, laws[3])


@triton.jit
def read_record(record_ptrs, request):
    """Return what ``write_record`` has written, also when that was in the same launch."""
    record_ptr, law_ptr = record_ptrs[0] + request * 4, record_ptrs[1] + request * 4
    last = tl.load(record_ptr, volatile=True)
    rejected = tl.load(record_ptr + 1, volatile=True)
    chosen = tl.load(record_ptr + 2, volatile=True)
    laws = (
        tl.load(law_ptr, volatile=True),
        tl.load(law_ptr + 1, volatile=True),
        tl.load(law_ptr + 2, volatile=True),
        tl.load(law_ptr + 3, volatile=True),
    )
    return last, rejected, chosen, laws


@triton.jit
def write_drafts(output_ptrs, draft_tokens_ptr, walk, last, max_num_drafts, WIDTH: tl.constexpr):
    """Write the accepted drafts of a request, and -1 after the token that follows them, which is not written."""
    request, start, length = walk[0], walk[1], walk[2]
    place = tl.arange(0, WIDTH)
    token = tl.load(draft_tokens_ptr + start + place, mask=place < length, other=-1)
    output = tl.where(place < last, token, -1).to(tl.int32)
    is_written = (place <= max_num_drafts) & (place != last)
    tl.store(output_ptrs[0] + request * (max_num_drafts + 1) + place, output, mask=is_written)
    tl.store(output_ptrs[1] + request, last)
