"""Tensors for what both layers run, where the pools lie; see ``specsim.simulation.draft_sides.layer.ArrayLibrary``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim.config import SpecConfig
from specsim.counts import count_candidates
from specsim.gpu.arrays import DEVICE, KIND, to_numpy
from specsim.gpu.draft import MOST_STEPS
from specsim.gpu.topk import LARGEST_BLOCK
from specsim.gpu.tree import WORD_BITS
from specsim.gpu.worker import fused, fused_drafts
from specsim.gpu.worker.fused_drafts import MOST_BEAMS
from specsim.operations.outputs import BuildTreeOutputs, SelectTopKTokensOutputs
from specsim.phases import DraftExtendInput, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.simulation.draft_sides import trees
from specsim.simulation.draft_sides.layer import Compacted

where = torch.where

__all__ = [
    "KIND",
    "arange",
    "asarray",
    "astype",
    "choose_beams",
    "compact",
    "concat",
    "copy",
    "full",
    "owners_of",
    "plant_trees",
    "repeat",
    "take",
    "to_numpy",
    "where",
    "zeros",
]


def asarray(values: Any, dtype: str = "int64") -> Tensor:
    """Bring numbers of the host to the device."""
    return torch.as_tensor(np.asarray(values), dtype=getattr(torch, dtype)).to(DEVICE)


def astype(values: Tensor, dtype: str) -> Tensor:
    """Return a tensor with elements of another type; the same one if it has that type."""
    return values.to(getattr(torch, dtype))


def zeros(shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return zeros on the device."""
    return torch.zeros(shape, dtype=getattr(torch, dtype), device=DEVICE)


def full(shape: tuple[int, ...], fill: Any, dtype: str) -> Tensor:
    """Return one entry many times, on the device."""
    return torch.full(shape, fill, dtype=getattr(torch, dtype), device=DEVICE)


def arange(stop: int) -> Tensor:
    """Return int64 [stop] on the device."""
    return torch.arange(stop, device=DEVICE)


def repeat(values: Tensor, count: int) -> Tensor:
    """Return every entry along the first axis so many times, one after another."""
    return values.repeat_interleave(count, dim=0)


def take(values: Tensor, places: Tensor) -> Tensor:
    """Return entries along the first axis."""
    return values.index_select(0, places)


def concat(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors one after another along an axis."""
    return torch.cat(list(arrays), dim=axis)


def copy(values: Tensor) -> Tensor:
    """Return a copy."""
    return values.clone()


def compact(verify_input: VerifyInput, phase: VerifyOutput, is_chain: bool, operations: Any) -> Compacted:
    """Bring ids and hidden states of accepted paths to the front, and lay out an extend over all nodes: one launch."""
    del operations
    expect_phase(phase, PhaseTag.EAGLE_VERIFY_OUTPUT)
    compacted = fused.compact_paths(
        phase.predict,
        None if is_chain else phase.hidden_states,
        phase.accept_index,
        phase.num_accepted_tokens,
        verify_input.seq_lens,
        verify_input.num_draft_tokens,
        is_chain,
    )
    extend_input = DraftExtendInput(
        input_ids=compacted.input_ids,
        hidden_states=phase.hidden_states if is_chain else compacted.compacted,
        positions=compacted.positions,
        out_cache_loc=verify_input.out_cache_loc,
        forward_seq_lens=compacted.forward_seq_lens,
        num_accepted_drafts=phase.num_accepted_drafts,
        num_accepted_tokens=phase.num_accepted_tokens,
        select_index=compacted.select_index,
        num_draft_tokens=verify_input.num_draft_tokens,
    )
    return extend_input, compacted.committed_lens, compacted.tokens


def choose_beams(
    step_index: int,
    probabilities: Tensor,
    hot_token_id: Tensor | None,
    hidden_states: Tensor | None,
    scores: Tensor | None,
    topk: int,
    operations: Any,
) -> SelectTopKTokensOutputs[Tensor]:
    """Choose the beams of the next depth from what a step proposes, in ids of the target; few beams in one launch."""
    given = step_index, probabilities, hot_token_id, hidden_states, scores, topk
    return fused_drafts.choose_beams(*given) if topk <= MOST_BEAMS else trees.choose_beams(*given, operations)


def plant_trees(
    bonus_tokens: Tensor,
    choices: Sequence[SelectTopKTokensOutputs[Tensor]],
    seq_lens: Tensor,
    config: SpecConfig,
    operations: Any,
) -> BuildTreeOutputs[Tensor]:
    """Build the trees of what every step has chosen; small ones in one launch."""
    num_candidates, num_nodes = count_candidates(config.topk, len(choices)), config.num_draft_tokens
    if num_candidates > LARGEST_BLOCK or len(choices) > MOST_STEPS or num_nodes > WORD_BITS:
        return trees.plant_trees(bonus_tokens, choices, seq_lens, config, operations)
    return fused_drafts.plant_trees(bonus_tokens, *trees.lists_of(choices), seq_lens, config.topk, num_nodes)


def owners_of(starts: Tensor, count: int) -> Tensor:
    """Return int64 [count]: the run of entries that each of ``count`` entries is in."""
    return torch.searchsorted(starts, torch.arange(count, device=DEVICE, dtype=starts.dtype), right=True) - 1
