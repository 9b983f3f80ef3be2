"""How many rows each rank runs in a forward that all ranks take part in."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import lcm

from specsim.counts import ceil_to
from specsim.rejection import Reason, SpecRejection, check_range


class PaddingMode(StrEnum):
    """Whether every rank runs as many rows as the busiest one, or its own, side by side in one buffer."""

    MAX_LEN = "MAX_LEN"
    SUM_LEN = "SUM_LEN"


@dataclass(frozen=True)
class SyncPlan:
    """The rows of every rank, and of the buffer that holds them all.

    ``turns_into_extend`` says that decodes run as extends of one token, because the round has prompts in it.
    """

    mode: PaddingMode
    num_tokens: tuple[int, ...]
    buffer_len: int
    turns_into_extend: bool = False

    def offset_of(self, rank: int) -> int:
        """Return where the rows of a rank begin in the buffer."""
        return sum(self.num_tokens[:rank])


def plan_mlp_sync_batch(
    global_num_tokens: Sequence[int],
    num_tokens_per_req: int | None = None,
    attn_tp_size: int = 1,
    attn_cp_size: int = 1,
    is_extend_in_batch: bool = False,
) -> SyncPlan:
    """Decide how many rows each rank runs.

    Parameters
    ----------
    global_num_tokens : sequence of int
        Rows of every rank, as ``get_spec_adjusted_global_num_tokens`` returns them; 0 for a rank without requests.
    num_tokens_per_req : int or None
        Rows of a request; None where nothing says so, as in a round with prompts.
    attn_tp_size, attn_cp_size : int
        Ranks that share the rows of an attention group.
    is_extend_in_batch : bool
        Whether some rank runs prompts.

    Returns
    -------
    plan : SyncPlan
        Rows rounded up so that a group can share them and no request is cut; the largest number for all, unless that
        more than doubles the rows or prompts run beside other ranks.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no rank, or a size below 1; COUNT_OUT_OF_RANGE: a negative number of rows; NOT_DIVISIBLE:
        rows that are no whole requests.

    Notes
    -----
    Source: semantics D.9.
    """
    width = 1 if num_tokens_per_req is None else num_tokens_per_req
    sizes = {
        "ranks": len(global_num_tokens),
        "num_tokens_per_req": width,
        "attn_tp_size": attn_tp_size,
        "attn_cp_size": attn_cp_size,
    }
    for name, size in sizes.items():
        check_range(Reason.SCALAR_OUT_OF_RANGE, name, size, "rows are shared among them", 1)
    for rank, count in enumerate(global_num_tokens):
        what = f"global_num_tokens[{rank}]"
        check_range(Reason.COUNT_OUT_OF_RANGE, what, count, "it counts rows", 0)
        if count % width:
            raise SpecRejection(
                Reason.NOT_DIVISIBLE, what, count, f"a multiple of {width}", "a request has so many rows"
            )
    num_ranks = len(global_num_tokens)
    rows = tuple(ceil_to(count, lcm(width, attn_tp_size, attn_cp_size)) for count in global_num_tokens)
    longest, total = max(rows), sum(rows)
    if (is_extend_in_batch and num_ranks > 1) or 2 * total < longest * num_ranks:
        return SyncPlan(PaddingMode.SUM_LEN, rows, total)
    return SyncPlan(PaddingMode.MAX_LEN, (longest,) * num_ranks, longest * num_ranks, is_extend_in_batch)
