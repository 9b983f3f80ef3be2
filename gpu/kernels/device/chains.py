"""Reading the drafts of one request of a ragged batch."""

import triton
import triton.language as tl


@triton.jit
def start_of_chain(cu_num_drafts_ptr, request, num_drafted):
    """Return where a request's drafts start; an offset outside of all drafts counts as their nearest end."""
    start = tl.load(cu_num_drafts_ptr + request).to(tl.int64)
    return tl.minimum(tl.maximum(start, 0), num_drafted)


@triton.jit
def load_chain(
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
    HAS_DRAFT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Return where a request's drafts start, and by place: whether there is one, its token, and what is known of it.

    That is whether the token is one, -1 is none, and its probability on the target's side and on that of the draft,
    1 where drafts are certain. Offsets that do not cut the drafts leave none of them.
    """
    draft_row_stride, draft_token_stride = draft_strides
    target_row_stride, target_token_stride = target_strides
    start = start_of_chain(cu_num_drafts_ptr, request, num_drafted)
    end = tl.minimum(tl.load(cu_num_drafts_ptr + request + 1).to(tl.int64), num_drafted)
    length = tl.maximum(tl.minimum(end - start, max_num_drafts), 0).to(tl.int32)
    place = tl.arange(0, WIDTH)
    draft = start + place
    is_draft = place < length
    token = tl.load(draft_tokens_ptr + draft, mask=is_draft, other=-1)
    is_token = (token >= 0) & (token < vocab)
    target_row = (draft + request) * target_row_stride
    target = tl.load(target_probs_ptr + target_row + token * target_token_stride, mask=is_token, other=0.0)
    proposal = tl.full([WIDTH], 1.0, dtype=tl.float32)
    if HAS_DRAFT:
        draft_row = draft * draft_row_stride
        proposal = tl.load(draft_probs_ptr + draft_row + token * draft_token_stride, mask=is_token, other=0.0)
    return start, is_draft, token, is_token, target.to(tl.float64), proposal.to(tl.float64)
