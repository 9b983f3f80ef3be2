"""A kernel that writes past its buffer: memcheck must report it, or its silence about the others means nothing."""

import torch
import triton
import triton.language as tl


@triton.jit
def _write_past_the_end_kernel(target_ptr, length):
    tl.store(target_ptr + length + tl.arange(0, 16), 1)


if __name__ == "__main__":
    _write_past_the_end_kernel[(1,)](torch.zeros(16, dtype=torch.int64, device="cuda"), 1 << 22)
    torch.cuda.synchronize()
