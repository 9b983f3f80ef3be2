"""Lengths of an extend of fixed width, on the host or on the device alone."""

from dataclasses import dataclass
from typing import Any

from specsim.phases.form import library_of
from specsim.rejection import Reason, SpecRejection, check_length, check_range


@dataclass(frozen=True)
class ExtendLens:
    """What every request has in front of an extend, and how many rows it has in it.

    ``prefix_lens`` and ``extend_lens`` are tuples of the host, or int32 [request] of the device; ``extend_lens_cpu`` is
    the host's either way, because every request has as many. ``forward_lens_cpu`` and ``forward_lens_sum`` count what
    the forward sees, and are None where the host does not know the lengths.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: one of the two is a tuple and the other is none, or numbers of requests differ.
    """

    prefix_lens: Any
    extend_lens: Any
    extend_lens_cpu: tuple[int, ...]
    forward_lens_cpu: tuple[int, ...] | None
    forward_lens_sum: int | None

    def __post_init__(self) -> None:
        are_known = isinstance(self.prefix_lens, tuple)
        for name, value in (("extend_lens", self.extend_lens), ("forward_lens_cpu", self.forward_lens_cpu)):
            if isinstance(value, tuple) != are_known:
                kind, because = "a tuple" if are_known else "no tuple", "the host knows all lengths or none"
                raise SpecRejection(Reason.INCONSISTENT_LENGTHS, name, type(value).__name__, kind, because)
        for name in ("extend_lens", "extend_lens_cpu"):
            because = "every request has a prefix and an extend"
            check_length(name, len(getattr(self, name)), len(self.prefix_lens), because)


def get_draft_extend_lens(seq_lens: Any, seq_lens_cpu: tuple[int, ...] | None, num_draft_tokens: int) -> ExtendLens:
    """Return the lengths of the extend after a verify, without waiting for the device.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Lengths before the verify, on the device.
    seq_lens_cpu : tuple of int or None
        The same on the host; None where they were never copied.
    num_draft_tokens : int
        Rows of every request.

    Returns
    -------
    lens : ExtendLens
        Everything on the host if the lengths are there, else nothing but the width, which is known anyway.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the host knows the lengths of another number of requests; SCALAR_OUT_OF_RANGE: no row.

    Notes
    -----
    Source: semantics D.6.
    """
    check_range(Reason.SCALAR_OUT_OF_RANGE, "num_draft_tokens", num_draft_tokens, "the root is extended", 1)
    widths = (num_draft_tokens,) * len(seq_lens)
    if seq_lens_cpu is None:
        library = library_of(seq_lens)
        prefix_lens = library.empty_like(seq_lens, dtype=library.int32)
        prefix_lens[...] = seq_lens
        return ExtendLens(prefix_lens, library.full_like(prefix_lens, num_draft_tokens), widths, None, None)
    check_length("seq_lens_cpu", len(seq_lens_cpu), len(seq_lens), "it is a copy of seq_lens")
    forward_lens = tuple(length + num_draft_tokens for length in seq_lens_cpu)
    return ExtendLens(tuple(seq_lens_cpu), widths, widths, forward_lens, sum(forward_lens))
