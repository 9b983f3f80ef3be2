"""Chains from raw logits: how their rows are cut, and the two launches that read them, walk and draw."""

from dataclasses import dataclass
from typing import Any

import torch

from specsim.counts import count_tokens
from specsim.gpu.acceptance import COINS
from specsim.gpu.kernels.from_logits import chains
from specsim.gpu.launching.blocks import UNIT, WARP_SIZE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.launcher import Buffers
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Size

CHAIN_BLOCK = 8192
"""Logits of a row that a program reads at a time: 64 a thread of four warps."""

REST_BLOCK, LEAST_REST_BLOCK = 4096, 2048
"""Tokens of what is left of a chain's last row that a program adds up at a time: of two rows 32 a thread each."""

REST_PROGRAMS = 512
"""Programs for which blocks of what is left become smaller: requests alone do not fill a GPU."""

BYTES_AHEAD = 48 << 20
"""Bytes of rows that are read before any draft is judged: as long as that takes less than to wait for decisions."""

MOST_WARPS = 4
"""Warps of a program at most: each reads at least 256 logits of a block."""

FILTERS = ("top_k", "top_p", "min_p")


@dataclass(frozen=True)
class ChainCut:
    """How rows of chains are cut, and which of them are read before any draft is judged.

    Parameters
    ----------
    mode : constexpr
        Who judges drafts: every program of the walk, the last that has read a level, or launches of their own.
    num_levels, num_ahead : int
        Rows of the longest chain, and how many of them are read first.
    num_sides : int
        Rows of a level: the target's, and the draft's unless drafts are certain.
    reads_target : bool
        Whether rows of the target are read as those of drafts are, because nothing filters them.
    tile, rest_tile : tuple of int
        Units of a block, and logits of a unit; parts of a block of what is left, units of a part, and tokens of a unit.
    num_blocks, num_rest_blocks : int
        Blocks of a row, and of what is left of it.
    sizes, constants : mapping
        Sizes and constants that all launches share.
    """

    mode: Any
    num_levels: int
    num_ahead: int
    num_sides: int
    reads_target: bool
    tile: tuple[int, int]
    rest_tile: tuple[int, int, int]
    num_blocks: int
    num_rest_blocks: int
    sizes: dict[str, Size]
    constants: dict[str, Any]

    @property
    def num_warps(self) -> int:
        """Warps of a program: 256 logits of a block each, but not too many of them."""
        return max(1, min(MOST_WARPS, self.tile[0] * self.tile[1] // 256))

    @property
    def is_filtered(self) -> bool:
        """Whether launches of their own filter the target's rows and judge drafts."""
        return bool(self.mode == chains.FILTERS)


def cut_chains(call: Call, largest_precise: int, *, as_blocks: bool = False) -> ChainCut:
    """Return how the rows of a call are cut; weights are in float64 up to a size of vocabularies.

    Chains that are judged as blocks are judged, and filtered, by launches of their own.
    """
    target, draft = call.arguments["target_logits"], call.arguments["draft_logits"]
    sides = [side for side in (target, draft) if side is not None]
    vocab, width = target.shape[1], max(side.shape[1] for side in sides)
    has_filters = any(call.arguments[name] is not None for name in FILTERS)
    num_levels, is_filtered = count_tokens(call.axes["max_num_drafts"]), as_blocks or has_filters
    level_bytes = call.axes["request"] * sum(side.shape[1] * side.element_size() for side in sides)
    num_ahead = num_levels if is_filtered else max(1, min(num_levels, BYTES_AHEAD // level_bytes))
    share = power_of_two(ceil_div(call.axes["request"] * vocab, REST_PROGRAMS))
    rest_most = max(LEAST_REST_BLOCK, min(share, REST_BLOCK))
    block, rest_block = choose_block(width, CHAIN_BLOCK), choose_block(vocab, rest_most)
    units, rest_units = (max(1, size // UNIT) for size in (block, rest_block))
    num_parts, num_blocks = ceil_div(rest_units, WARP_SIZE), ceil_div(width, block)
    of_draft = (1, 0, 0) if draft is None else (draft.shape[1], *draft.stride())
    return ChainCut(
        mode=chains.FILTERS if is_filtered else chains.JUDGES if num_ahead == num_levels else chains.WALKS,
        num_levels=num_levels,
        num_ahead=num_ahead,
        num_sides=len(sides),
        reads_target=not has_filters,
        tile=(units, block // units),
        rest_tile=(num_parts, rest_units // num_parts, rest_block // rest_units),
        num_blocks=num_blocks,
        num_rest_blocks=ceil_div(vocab, rest_block),
        sizes={
            "num_drafted": call.axes["drafted"],
            "max_num_drafts": call.axes["max_num_drafts"],
            "row_sizes": (num_blocks, vocab, *target.stride(), *of_draft),
        },
        constants={
            "HAS_DRAFT": draft is not None,
            "PRECISE": width <= largest_precise,
            **({"draft_logits_ptr": None} if draft is None else {}),
        },
    )


def reading_of(call: Call, cut: ChainCut) -> dict[str, Any]:
    """Return what is planned of the launch that reads the rows of the first levels, with filters of the draft alone."""
    units = cut.num_ahead * cut.num_blocks * (cut.num_sides if cut.reads_target else 1)
    reading = chunks_to_fill(call.axes["request"], units)
    return {
        "grid": (call.axes["request"], reading),
        "sizes": {**cut.sizes, "num_levels": cut.num_ahead, "units_per_program": ceil_div(units, reading)},
        "constants": {
            **cut.constants,
            "READS_TARGET": cut.reads_target,
            "WIDTH": power_of_two(cut.num_levels),
        },
        "tunables": {"TILE": cut.tile},
        "num_warps": cut.num_warps,
    }


def walking_of(call: Call, cut: ChainCut) -> dict[str, Any]:
    """Return what is planned of the launch that walks to the ends and draws."""
    num_requests, level_units = call.axes["request"], cut.num_blocks * cut.num_sides
    walking, resting = (chunks_to_fill(num_requests, count) for count in (level_units, cut.num_rest_blocks))
    num_left = cut.num_levels - cut.num_ahead
    num_walking = num_requests * (1 + num_left * walking) if cut.mode == chains.WALKS else 0
    num_parts = cut.num_rest_blocks * cut.rest_tile[0]
    return {
        "grid": (num_walking + num_requests * resting,),
        "sizes": {
            **cut.sizes,
            "num_requests": num_requests,
            "level_shares": (cut.num_ahead, walking, ceil_div(level_units, walking)),
            "rest_shares": (resting, ceil_div(cut.num_rest_blocks, resting), cut.num_rest_blocks),
        },
        "constants": {
            **cut.constants,
            "MODE": cut.mode.value,
            "WIDTHS": tuple(map(power_of_two, (cut.num_levels, cut.num_ahead, cut.num_blocks, num_parts))),
        },
        "tunables": {"TILES": cut.tile + cut.rest_tile},
        "num_warps": cut.num_warps,
    }


def buffers_of(call: Call, cut: ChainCut) -> tuple[Buffers, Buffers, Buffers]:
    """Return the inputs, the outputs and the scratch memory that all launches share."""
    target, draft, num_requests = call.arguments["target_logits"], call.arguments["draft_logits"], call.axes["request"]
    inputs: Buffers = {
        "draft": call.group("draft_tokens", COINS[0]),
        "request": call.group("cu_num_drafts", "temperature", "draft_temperature", COINS[1]),
        "target_logits": target,
        **({} if draft is None else {"draft_logits": draft}),
    }
    largest, mass, choice = torch.float32, torch.float64, torch.int32
    of_target = [call.scratch(len(target), cut.num_blocks, dtype=dtype) for dtype in (largest, mass, choice)]
    of_drafts = [call.scratch(call.axes["drafted"], cut.num_blocks, dtype=dtype) for dtype in (largest, mass)]
    progress = call.scratch(num_requests, 4, dtype=torch.int32)
    num_ends = num_requests * (cut.num_levels if cut.mode == chains.WALKS else 1)
    scratch: Buffers = {
        "statistic": (*of_target, *of_drafts, call.scratch(call.axes["drafted"], 3, dtype=largest)),
        "record": tuple(call.scratch(num_ends, 4, dtype=dtype) for dtype in (choice, mass, largest)),
        "progress": progress,
        "count": (progress, call.scratch(num_requests, 2, cut.num_levels, dtype=torch.int32)),
        "part_mass": call.scratch(num_requests, cut.num_rest_blocks * cut.rest_tile[0], dtype=mass),
    }
    return inputs, {"output": tuple(call.outputs)}, scratch


def filters_of(call: Call) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return the filters of a call, and memory for those that it leaves out, which keep everything once written."""
    num_requests = call.axes["request"]
    neutral = tuple(call.scratch(num_requests, dtype=dtype) for dtype in (torch.int32, torch.float32, torch.float32))
    given = call.contiguous(*[name for name in FILTERS if call.arguments[name] is not None])
    return tuple(given.get(name, one) for name, one in zip(FILTERS, neutral, strict=True)), neutral
