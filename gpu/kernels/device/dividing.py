"""Division that rounds once, as IEEE 754 wants it, of many numbers by few."""

import triton
import triton.language as tl
from triton import knobs

LEAST_PLAIN, MOST_PLAIN = tl.constexpr(2.0**-100), tl.constexpr(2.0**100)
"""Dividends whose quotients by 2**-20 to 2**20, and the remainders on the way there, neither overflow nor round off."""


@triton.constexpr_function
def _fuses():
    return not knobs.runtime.interpret


@triton.jit
def divide_plain(dividend, divisor, inverse):
    """Return a quotient, correctly rounded, by the correctly rounded inverse of the divisor, from 2**-20 to 2**20.

    The first correction brings the quotient within one unit in the last place; from there the second one rounds
    correctly (Markstein). A dividend beyond ``LEAST_PLAIN`` or ``MOST_PLAIN`` may have any quotient.
    """
    # NOTE: the interpreter has no fused operation.
    if not _fuses():
        return tl.math.div_rn(dividend, divisor)
    quotient = dividend * inverse
    quotient = tl.fma(tl.fma(-divisor, quotient, dividend), inverse, quotient)
    return tl.fma(tl.fma(-divisor, quotient, dividend), inverse, quotient)
