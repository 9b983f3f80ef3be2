"""Kernel of the preparation of logits; those of filters stand in ``filtering``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit(do_not_specialize=["num_rows", "num_nodes"])
def _prepare_logits_kernel(
    logits_ptr,
    scaling_penalty_ptr,
    additive_penalty_ptr,
    logit_bias_ptr,
    vocab_mask_ptr,
    prepared_logits_ptr,
    num_rows,
    num_nodes,
    vocab,
    num_words,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Prepare a tile. Every operation rounds once: launch it without fusion of products and sums."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < num_rows) & (token < vocab)
    of_request = row // num_nodes * vocab + token
    logit = tl.load(logits_ptr + row * row_stride + token.to(tl.int64) * column_stride, mask=inside, other=0.0)
    logit = logit.to(tl.float32)
    if additive_penalty_ptr is not None:
        logit += tl.load(additive_penalty_ptr + of_request, mask=inside, other=0.0)
    if scaling_penalty_ptr is not None:
        scale = tl.load(scaling_penalty_ptr + of_request, mask=inside, other=1.0)
        logit = tl.where(logit > 0, tl.math.div_rn(logit, scale), logit * scale)
    if logit_bias_ptr is not None:
        logit += tl.load(logit_bias_ptr + of_request, mask=inside, other=0.0)
    if vocab_mask_ptr is not None:
        word = tl.load(vocab_mask_ptr + row * num_words + token // 32, mask=inside, other=0)
        logit = tl.where((word >> (token % 32)) & 1 == 1, logit, float("-inf"))
    tl.store(prepared_logits_ptr + row * vocab + token, logit, mask=inside)
