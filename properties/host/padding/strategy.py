"""Strategies of forwards that are padded: one batch of every mode, with the fields that its phase carries."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.phases import ForwardBatch, ForwardMode, ForwardOutput
from specsim.phases.forward import FIELDS
from specsim.properties.composite import composite
from specsim.properties.host.phases.strategy import Numbers, numbering
from specsim.properties.strategies.arrays import mostly

_ALWAYS = ("input_ids", "req_pool_indices", "seq_lens")
_DRAFT = ("topk_p", "topk_index")
_COUNTS = ("num_accepted_drafts", "num_accepted_tokens")
_EXTENDS = ("extend_seq_lens", "extend_seq_lens_cpu", "extend_prefix_lens", "extend_prefix_lens_cpu")


@dataclass(frozen=True)
class Padding:
    """A forward, the rows that it is padded to, what fills lengths and counts, and what it returns then."""

    batch: ForwardBatch
    num_tokens: int
    seq_len_fill_value: int
    count_fill_value: int
    output: ForwardOutput

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What padding takes, in its order."""
        return self.batch, self.num_tokens, self.seq_len_fill_value, self.count_fill_value


@composite
def paddings(draw: DrawFn) -> list[Padding]:
    """Draw a forward of every mode; fields are there or not, and the smallest size is the batch itself."""
    numbers = numbering(draw(st.integers(1, 10_000)))
    return [draw(_padding(mode, numbers)) for mode in ForwardMode]


@composite
def _padding(draw: DrawFn, mode: ForwardMode, numbers: Numbers) -> Padding:
    is_idle, is_prefill = mode is ForwardMode.IDLE, mode is ForwardMode.EXTEND
    size = 0 if is_idle else draw(mostly(st.integers(1, 4), st.just(0), one_in=6))
    width = 1 if is_prefill else draw(st.integers(1, 4))
    counts = [width] * size
    if mode in (ForwardMode.EXTEND, ForwardMode.DRAFT_EXTEND):
        counts = draw(st.lists(st.integers(1, 3 if is_prefill else width), min_size=size, max_size=size))
    optional = sorted(FIELDS.keys() - {*_ALWAYS, *_missing_in(mode)})
    absent = draw(st.one_of(st.sets(st.sampled_from(optional), max_size=4), st.just(set(optional))))
    has_lengths = draw(st.booleans())
    batch = _forward(mode, counts, None if is_prefill and draw(st.booleans()) else width, numbers)
    nothing: dict[str, Any] = dict.fromkeys((*absent, *_missing_in(mode)))
    batch = replace(batch, **nothing)
    if not has_lengths:
        batch = replace(batch, seq_lens_cpu=None, seq_lens_sum=None)
    extra = draw(st.integers(0, 3))
    num_tokens = batch.num_tokens + extra if is_prefill else (size + extra) * width
    has_hidden = draw(st.booleans())
    output = ForwardOutput(numbers(num_tokens, 3), numbers(num_tokens, 2) if has_hidden else None)
    return Padding(batch, num_tokens, draw(st.sampled_from((1, 0, 3))), draw(st.sampled_from((0, width))), output)


def _missing_in(mode: ForwardMode) -> tuple[str, ...]:
    """Return the fields that the object of a mode's phase does not carry."""
    match mode:
        case ForwardMode.DECODE:
            return (*_COUNTS, *_EXTENDS)
        case ForwardMode.DRAFT_EXTEND | ForwardMode.DRAFT_EXTEND_V2:
            return _DRAFT
        case ForwardMode.TARGET_VERIFY:
            return (*_DRAFT, *_COUNTS, *_EXTENDS)
        case _:
            return ()


def _forward(mode: ForwardMode, counts: list[int], width: int | None, numbers: Numbers) -> ForwardBatch:
    """Return a forward in which every field is there."""
    size, total = len(counts), sum(counts)
    lengths, prefixes = numbers(size), numbers(size)
    is_extend = mode not in (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY)
    return ForwardBatch(
        mode=mode,
        input_ids=numbers(total),
        req_pool_indices=numbers(size),
        seq_lens=lengths,
        positions=numbers(total),
        mrope_positions=numbers(3, total),
        out_cache_loc=numbers(total),
        swa_out_cache_loc=numbers(total),
        hidden_states=numbers(total, 2),
        seq_lens_cpu=tuple(lengths.tolist()),
        seq_lens_sum=int(lengths.sum()),
        extend_seq_lens=np.array(counts, dtype=np.int32),
        extend_seq_lens_cpu=tuple(counts),
        extend_prefix_lens=prefixes.astype(np.int32),
        extend_prefix_lens_cpu=tuple(prefixes.tolist()),
        extend_num_tokens=total if is_extend else None,
        topk_p=numbers(size, 2).astype(np.float32),
        topk_index=numbers(size, 2),
        num_accepted_drafts=numbers(size).astype(np.int32),
        num_accepted_tokens=numbers(size).astype(np.int32),
        mamba_track_indices=numbers(size),
        mamba_track_mask=np.ones(size, dtype=np.bool_),
        mamba_track_seqlens=numbers(size),
        encoder_lens=numbers(size),
        lora_ids=tuple(f"adapter {number}" for number in numbers(size)),
        request_id_hashes=numbers(size),
        room_ids=numbers(size),
        num_tokens_per_req=width,
        captures_every_row=mode is ForwardMode.EXTEND and total % 2 == 0,
    )


_HALVES = ((60, 0), (120, 60, 0), (120, 60, 60, 0))
"""Requests of ranks, in numbers that every group can share."""


@composite
def rounds(draw: DrawFn) -> dict[str, Any]:
    """Draw the requests of some ranks, idle ones among them, and what their rows are shared by.

    In a fifth of them the ranks come to exactly half of what they had if each ran as many rows as the busiest. A rank
    that is alone has prompts most often: only there are they padded to the longest.
    """
    width = draw(st.sampled_from((1, 5, 2, 7, 3, 4, 5, 6, 7)))
    some = mostly(st.integers(1, 9), st.just(0), one_in=3)
    several, alone = st.lists(some, min_size=2, max_size=5), st.lists(some, min_size=1, max_size=1)
    halves = st.sampled_from(_HALVES).flatmap(st.permutations)
    requests = draw(draw(st.sampled_from((several, halves, alone, several, alone))))
    return {
        "global_num_tokens": [width * count for count in requests],
        "num_tokens_per_req": width,
        "attn_tp_size": draw(st.sampled_from((1, 2, 3, 4))),
        "attn_cp_size": draw(st.sampled_from((1, 5, 2, 3))),
        "is_extend_in_batch": draw(
            st.booleans() if len(requests) > 1 else mostly(st.just(True), st.just(False), one_in=5)
        ),
    }


@composite
def extend_lengths(draw: DrawFn) -> dict[str, Any]:
    """Draw lengths before a verify and the rows of an extend after it."""
    lengths = draw(st.lists(st.integers(1, 40), max_size=5))
    return {
        "seq_lens": np.array(lengths, dtype=draw(st.sampled_from(("int64", "int32")))),
        "num_draft_tokens": draw(st.integers(1, 9)),
    }
