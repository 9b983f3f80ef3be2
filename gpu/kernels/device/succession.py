"""How a kernel follows the one before it on its stream."""

from functools import cache

import torch
import triton
import triton.language as tl
from triton import knobs
from triton.language.target_info import cuda_capability_geq

EARLIEST = 9
"""Compute capability from which on a kernel may start before the one before it has ended."""


@cache
def starts_early(device: int) -> bool:
    """Return whether kernels of a device start before the one before them has ended, and wait for its end."""
    return torch.cuda.get_device_capability(device)[0] >= EARLIEST


@triton.constexpr_function
def _waits():
    return not knobs.runtime.interpret and cuda_capability_geq(EARLIEST)


@triton.jit
def follow_previous():
    """Wait until the kernel before has ended and its writes are seen; from now on the next kernel may start to wait.

    Every kernel calls this before anything else: what starts early may read and write nothing before. As all programs
    of a kernel wait, the end of one implies that of all kernels before it.
    """
    if _waits():
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def arrive(count_ptr):
    """Count a program whose threads have stored what others wait for, and return how many were counted before it."""
    tl.debug_barrier()
    return tl.atomic_add(count_ptr, 1, sem="acq_rel")
