"""What vLLM's kernels call of libdevice, which Triton's interpreter lacks."""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def log1p(x: Any) -> Any:
    """Return ln(1 + x), as exactly as that of libdevice: what rounding adds to x in the sum is divided out again."""
    shifted = 1.0 + x
    return tl.where(shifted == 1.0, x, tl.log(shifted) * (x / (shifted - 1.0)))
