"""The cut on the device: nodes that a request has not been given steps for are none of its drafts."""

from dataclasses import replace

import torch
from torch import Tensor

from specsim.phases import VerifyInput
from specsim.simulation.numbers import NO_DRAFT
from specsim.topology import NONE


def cut_drafts(phase: VerifyInput, own_steps: Tensor) -> VerifyInput:
    """Cut every tree after as many levels as its request drafts (semantics A.4b).

    ``own_steps`` is int64 [request] on the device, so that one graph serves all numbers; padding has any.
    """
    shape, deepest = phase.retrieve_index.shape, own_steps[:, None]
    depths = depths_of(phase)
    is_draft = depths <= deepest
    return replace(
        phase,
        draft_token=torch.where(is_draft, phase.draft_token.view(shape), NO_DRAFT).view(-1),
        retrieve_next_token=torch.where(depths < deepest, phase.retrieve_next_token, NONE),
        retrieve_next_sibling=torch.where(is_draft, phase.retrieve_next_sibling, NONE),
    )


def depths_of(phase: VerifyInput) -> Tensor:
    """Return the depth of every node, int64 [request, node], 0 for roots."""
    return phase.positions.view(phase.retrieve_index.shape) - phase.seq_lens[:, None]
