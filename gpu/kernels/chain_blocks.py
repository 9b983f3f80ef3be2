"""Kernels of chains whose drafts are judged together, as a block; shares and masses are in float64."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.chains import load_chain, start_of_chain
from specsim.gpu.kernels.device.drawing import pick, weights_of
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _rest_of_front(
    count,
    num_drafts,
    excluded,
    share,
    request,
    start,
    draft_probs_ptr,
    target_probs_ptr,
    draft_strides,
    target_strides,
    HAS_DRAFT: tl.constexpr,
):
    """Return what so many drafts of a request leave: their share of the target's row less the next draft's law.

    After all drafts that is the target's row.
    """
    draft_row_stride, draft_token_stride = draft_strides
    target_row_stride, target_token_stride = target_strides
    row_ptr = target_probs_ptr + (start + count + request) * target_row_stride
    other_ptr = row_ptr
    if HAS_DRAFT:
        other_ptr = draft_probs_ptr + (start + count) * draft_row_stride
    is_followed = count < num_drafts
    scale = tl.where(is_followed, share, 1.0)
    return row_ptr, target_token_stride, other_ptr, draft_token_stride, is_followed, excluded, scale


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "units_per_program"])
def _weigh_fronts_kernel(
    draft_tokens_ptr,
    cu_num_drafts_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    front_share_ptr,
    block_mass_ptr,
    num_drafted,
    vocab,
    max_num_drafts,
    draft_strides,
    target_strides,
    units_per_program,
    HAS_DRAFT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Multiply up the shares of one request's fronts, and add up some blocks of what each front leaves.

    Every program of a request has all its shares, from two probabilities a draft. A unit of its work is a block of a
    row; rows follow each other. The row after all drafts is added up too: what it holds matters if it is drawn from.
    """
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, WIDTH)
    start, _, token, is_token, target, proposal = load_chain(
        draft_tokens_ptr,
        cu_num_drafts_ptr,
        draft_probs_ptr,
        target_probs_ptr,
        request,
        num_drafted,
        vocab,
        max_num_drafts,
        draft_strides,
        target_strides,
        HAS_DRAFT,
        WIDTH,
    )
    num_drafts = tl.min(tl.where(is_token, WIDTH, place), 0)
    share = tl.full([], 1.0, dtype=tl.float64)
    shares = tl.where(place == 0, share, -1.0)
    for judged in range(0, num_drafts):
        wanted = tl.sum(tl.where(place == judged, target, 0.0), 0)
        offered = tl.sum(tl.where(place == judged, proposal, 0.0), 0)
        ratio = share * wanted / tl.where(offered > 0, offered, 1.0)
        share = tl.where(offered > 0, tl.minimum(ratio, 1.0), 0.0)
        shares = tl.where(place == judged + 1, share, shares)
    if tl.program_id(1) == 0:
        tl.store(front_share_ptr + request * (max_num_drafts + 1) + place, shares, mask=place <= max_num_drafts)

    num_blocks = tl.cdiv(vocab, BLOCK)
    mass_ptr = block_mass_ptr + request * (max_num_drafts + 1) * num_blocks
    first = tl.program_id(1) * units_per_program
    for unit in range(first, tl.minimum(first + units_per_program, (num_drafts + 1) * num_blocks)):
        count = unit // num_blocks
        lane = (unit % num_blocks) * BLOCK + tl.arange(0, BLOCK)
        rest = _rest_of_front(
            count,
            num_drafts,
            tl.max(tl.where(place == count, token, -1), 0),
            tl.sum(tl.where(place == count, shares, 0.0), 0),
            request,
            start,
            draft_probs_ptr,
            target_probs_ptr,
            draft_strides,
            target_strides,
            HAS_DRAFT,
        )
        tl.store(mass_ptr + unit, tl.sum(weights_of(rest, lane, lane < vocab, HAS_DRAFT), 0))


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts"])
def _draw_after_fronts_kernel(
    draft_tokens_ptr,
    cu_num_drafts_ptr,
    uniform_samples_ptr,
    uniform_samples_for_final_sampling_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    front_share_ptr,
    block_mass_ptr,
    output_tokens_ptr,
    num_accepted_drafts_ptr,
    num_drafted,
    vocab,
    max_num_drafts,
    draft_strides,
    target_strides,
    HAS_DRAFT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    PART: tl.constexpr,
):
    """Keep one request's longest front whose coin says so, all coins at once, and draw the token after it."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, WIDTH)
    row = request * (max_num_drafts + 1)
    start = start_of_chain(cu_num_drafts_ptr, request, num_drafted)
    share = tl.load(front_share_ptr + row + place, mask=place <= max_num_drafts, other=-1.0)
    num_drafts = tl.max(tl.where(share >= 0, place, 0), 0)
    num_blocks = tl.cdiv(vocab, BLOCK)
    mass_ptr = block_mass_ptr + row * num_blocks
    is_inner = (place > 0) & (place < num_drafts) & (share > 0) & (share < 1)
    mass = tl.zeros([WIDTH], dtype=tl.float64)
    for first in range(0, num_blocks, PART):
        block = first + tl.arange(0, PART)
        is_summed = is_inner[:, None] & (block < num_blocks)[None, :]
        part = tl.load(mass_ptr + place[:, None] * num_blocks + block[None, :], mask=is_summed, other=0.0)
        mass += tl.sum(part, 1)
    chance = tl.where(is_inner, mass / tl.where(is_inner, mass + 1 - share, 1.0), share)
    is_front = (place > 0) & (place <= num_drafts)
    coin = tl.load(uniform_samples_ptr + start + place - 1, mask=is_front, other=1.0).to(tl.float64)
    kept = tl.max(tl.where(is_front & (coin < chance), place, 0), 0)

    token = tl.load(draft_tokens_ptr + start + place, mask=place < num_drafts, other=-1)
    rest = _rest_of_front(
        kept,
        num_drafts,
        tl.max(tl.where(place == kept, token, -1), 0),
        tl.sum(tl.where(place == kept, share, 0.0), 0),
        request,
        start,
        draft_probs_ptr,
        target_probs_ptr,
        draft_strides,
        target_strides,
        HAS_DRAFT,
    )
    block = tl.arange(0, BLOCKS)
    drawn = pick(
        tl.load(mass_ptr + kept * num_blocks + block, mask=block < num_blocks, other=0.0),
        rest,
        tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64),
        vocab,
        HAS_DRAFT,
        BLOCK,
        BLOCKS,
    )
    output = tl.where(place < kept, token.to(tl.int32), tl.where(place == kept, drawn, -1))
    tl.store(output_tokens_ptr + row + place, output, mask=place <= max_num_drafts)
    tl.store(num_accepted_drafts_ptr + request, kept)
