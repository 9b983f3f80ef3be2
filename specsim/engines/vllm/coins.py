"""What takes the place of vLLM's two generators, so that its kernels decide by the coins of a call.

A kernel hands its generators a seed and the position of a token; here the position holds what they return. vLLM's own
positions are ordinary numbers, and its own generators run where a sampler has no coins.
"""

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def tl_rand32(seed: Any, offset: Any, includes_zero: tl.constexpr) -> Any:
    """Return the coin whose bits are the lower half of a position."""
    return (offset & 0xFFFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)


@triton.jit
def murmur3_uniform32(seed: Any, pos: Any, offset: Any) -> Any:
    """Return a number that wins the race for the token in the upper half of a position, and 1 for any other.

    The winner is 88 nats ahead: it wins unless the kernel takes it for impossible, or for that much less likely.
    """
    return tl.where(offset == (pos >> 32), 1e-37, 1.0)


def positions(coins: "torch.Tensor", tokens: "torch.Tensor") -> "torch.Tensor":
    """Return positions that hold coins of single precision and the tokens that are to win, entry by entry."""
    import torch

    return (tokens.long() << 32) | coins.contiguous().view(torch.int32).long()
