"""Padding of one forward, and what is put back after it.

Which fields grow, and with what, stands in one table, so that no field is padded and then forgotten.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import lcm
from typing import Any

import numpy as np

from specsim.counts import ceil_to
from specsim.phases.forward import FIELDS, Along, ForwardBatch, ForwardOutput
from specsim.phases.tags import ForwardMode
from specsim.rejection import Reason, SpecRejection, check_multiple, check_range

Pad = Callable[[Any, int, int, Any], Any]
"""Puts so many entries of a value after an array, along an axis."""

_COUNTS = ("num_accepted_drafts", "num_accepted_tokens")
_LENGTHS = ("seq_lens", "seq_lens_cpu")
_EXTENDS = ("extend_seq_lens", "extend_seq_lens_cpu")


def numpy_pad(values: Any, axis: int, count: int, fill: Any) -> Any:
    """Put so many entries of a value after a NumPy array, along an axis."""
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, count)
    return np.pad(values, widths, constant_values=fill)


def pad_inputs_to_size(
    batch: ForwardBatch,
    num_tokens: int,
    seq_len_fill_value: int = 1,
    count_fill_value: int = 0,
    pad: Pad | None = None,
) -> ForwardBatch:
    """Put rows after a batch that read and write the dump alone, up to a number of tokens.

    Parameters
    ----------
    batch : ForwardBatch
        What the forward of the live requests reads; it is left as it is, and is what is put back.
    num_tokens : int
        Rows of the padded forward, a multiple of the rows of a request.
    seq_len_fill_value : int
        Length of a request of padding, which the attention backend chooses.
    count_fill_value : int
        Both counts of a request of padding: 0 in a forward that is launched, the rows of a request in a captured one.
    pad : callable or None
        Makes a longer array of an array, an axis, a number of entries and their value; None for NumPy's.

    Returns
    -------
    padded : ForwardBatch
        The tokens of the batch and then zeros; as many requests as its tokens come to, those of padding with row 0.
        An extend keeps its requests. What is None stays None.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: fewer tokens or requests than there are; NOT_DIVISIBLE: a request would have some of its
        rows only.

    Notes
    -----
    Source: semantics D.9, E.1.
    """
    num_requests = _padded_requests(batch, num_tokens)
    grown = {Along.TOKEN: num_tokens - batch.num_tokens, Along.REQUEST: num_requests - batch.num_requests}
    fills: dict[str, Any] = {
        **dict.fromkeys(_LENGTHS, seq_len_fill_value),
        **dict.fromkeys(_COUNTS, count_fill_value),
        **dict.fromkeys(_EXTENDS, _extend_length_of_padding(batch)),
        "lora_ids": None,
        "room_ids": -1,
    }
    changed: dict[str, Any] = {"num_live_tokens": batch.num_tokens}
    for name, along in FIELDS.items():
        value = getattr(batch, name)
        if isinstance(value, tuple):
            changed[name] = value + (fills.get(name, 0),) * grown[along]
        elif value is not None:
            changed[name] = (pad or numpy_pad)(value, _axis_of(name, value), grown[along], fills.get(name, 0))
    if batch.seq_lens_sum is not None:
        changed["seq_lens_sum"] = batch.seq_lens_sum + seq_len_fill_value * grown[Along.REQUEST]
    if batch.extend_num_tokens is not None:
        changed["extend_num_tokens"] = num_tokens
    return replace(batch, **changed)


def post_forward_mlp_sync_batch(
    padded: ForwardBatch, before: ForwardBatch, output: ForwardOutput
) -> tuple[ForwardBatch, ForwardOutput]:
    """Take the padding off a batch and off what its forward returned.

    Parameters
    ----------
    padded : ForwardBatch
        What the forward read.
    before : ForwardBatch
        What was padded.
    output : ForwardOutput
        Logits and hidden states, with the rows of padding after those of live requests.

    Returns
    -------
    batch : ForwardBatch
        Every field as it was before, the mode, the sum of lengths and both counts included.
    output : ForwardOutput
        The rows of the live requests: every row of a draft, a verify or an extend of fixed width, otherwise one a
        request; each token's hidden state where an extend returns these.

    Notes
    -----
    Source: semantics D.9.
    """
    kept = rows_with_logits(before)
    every_row = before.captures_every_row and before.mode is ForwardMode.EXTEND
    num_hidden = before.num_tokens if every_row else kept
    restored = {name: getattr(before, name) for name in (*FIELDS, "mode", "seq_lens_sum", "extend_num_tokens")}
    return replace(padded, **restored, num_live_tokens=before.num_live_tokens), ForwardOutput(
        None if output.logits is None else output.logits[:kept],
        None if output.hidden_states is None else output.hidden_states[:num_hidden],
    )


def rows_with_logits(batch: ForwardBatch) -> int:
    """Return how many rows of a forward yield logits: all of a verify, and one a request of an extend.

    Notes
    -----
    Source: semantics D.9.
    """
    if batch.mode in (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2):
        return batch.num_tokens
    return batch.num_requests


def as_one_token_extend(batch: ForwardBatch) -> ForwardBatch:
    """Return a decode as an extend of one token a request, which ranks run in a round with prompts.

    Raises
    ------
    SpecRejection
        NOT_DIVISIBLE: a request has another number of tokens.

    Notes
    -----
    Source: semantics D.9.
    """
    if batch.num_tokens != batch.num_requests:
        expected, because = str(batch.num_requests), "beside prompts a request decodes one token"
        raise SpecRejection(Reason.NOT_DIVISIBLE, "ForwardBatch.input_ids length", batch.num_tokens, expected, because)
    prefixes = None if batch.seq_lens_cpu is None else tuple(length - 1 for length in batch.seq_lens_cpu)
    return replace(
        batch,
        mode=ForwardMode.EXTEND,
        extend_num_tokens=batch.num_requests,
        extend_seq_lens=batch.seq_lens * 0 + 1,
        extend_prefix_lens=batch.seq_lens - 1,
        extend_seq_lens_cpu=None if prefixes is None else (1,) * len(prefixes),
        extend_prefix_lens_cpu=prefixes,
    )


def _padded_requests(batch: ForwardBatch, num_tokens: int) -> int:
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_tokens", num_tokens, "so many rows are live", batch.num_tokens)
    if batch.mode is ForwardMode.EXTEND:
        return batch.num_requests
    width = batch.num_tokens_per_req or 1
    check_multiple("num_tokens", num_tokens, width, "every request of padding has all of its rows")
    because = f"{batch.num_requests} requests have {width} rows each"
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_tokens", num_tokens, because, batch.num_requests * width)
    return num_tokens // width


def _extend_length_of_padding(batch: ForwardBatch) -> int:
    """Return the new tokens of a request of padding: its rows in an extend of fixed width, none in a ragged one."""
    return batch.num_tokens_per_req or 0 if batch.mode is ForwardMode.DRAFT_EXTEND_V2 else 0


def _axis_of(name: str, value: Any) -> int:
    return value.ndim - 1 if name == "mrope_positions" else 0


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
        check_multiple(what, count, width, "a request has so many rows")
    num_ranks = len(global_num_tokens)
    rows = tuple(ceil_to(count, lcm(width, attn_tp_size, attn_cp_size)) for count in global_num_tokens)
    longest, total = max(rows), sum(rows)
    if (is_extend_in_batch and num_ranks > 1) or 2 * total < longest * num_ranks:
        return SyncPlan(PaddingMode.SUM_LEN, rows, total)
    return SyncPlan(PaddingMode.MAX_LEN, (longest,) * num_ranks, longest * num_ranks, is_extend_in_batch)
