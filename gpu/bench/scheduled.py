"""Inputs of scheduled verification: half of all drafts are verified, in a forward with room for all of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.iteration import Iteration
from specsim.gpu.bench.needed import Counts, Known, as_many, total

ScheduledRow = tuple[str, Callable[[Iteration], dict[str, Any]], Counts]
"""An operation, what is particular about its inputs, and what of them is needed."""


def verify_lens(it: Iteration) -> Tensor:
    """Return the rows of each request, half a tree on average."""
    return it.ids(it.batch, below=it.num_draft_tokens, dtype=torch.int32) + 1


def confidences(it: Iteration) -> dict[str, Any]:
    """Return confidences, all of whose drafts may be admitted, and half of these as budget."""
    num_drafts = it.num_draft_tokens - 1
    return {
        "confidence": torch.rand((it.batch, num_drafts), device=DEVICE) / 2 + 0.5,
        "num_drafts": it.each(num_drafts, torch.int32),
        "survival_eps": torch.full((1,), 1e-6, device=DEVICE),
        "verify_token_budget": it.batch * num_drafts // 2,
        "max_verify_len": it.num_draft_tokens,
    }


def window(it: Iteration) -> dict[str, Any]:
    """Return lengths of a window."""
    return {"verify_lens": verify_lens(it)}


def bucket(it: Iteration) -> dict[str, Any]:
    """Return lengths of a batch, and a graph of twice its requests."""
    return {"verify_lens": verify_lens(it), "num_padded_requests": 2 * it.batch}


def ragged_rows(it: Iteration) -> dict[str, Any]:
    """Return hidden states of a ragged forward."""
    return {"values": it.hidden(it.num_nodes), "verify_lens": verify_lens(it)}


def commits(it: Iteration) -> dict[str, Any]:
    """Return what was accepted, with a gate, with a map of slots."""
    return {
        "commit_lens": it.num_accepted_tokens,
        "verify_lens": it.each(it.num_draft_tokens, torch.int32),
        "slot_map": torch.arange(it.num_slots, device=DEVICE),
    }


def _committed(call: Known) -> int:
    return int(torch.minimum(call["commit_lens"], call["verify_lens"]).sum())


VERIFIED = {"req_to_token": total("verify_lens"), "candidates": total("verify_lens")}

SCHEDULED: tuple[ScheduledRow, ...] = (
    ("schedule_verify_lens", confidences, {}),
    ("ragged_verify_window", window, VERIFIED),
    ("pad_verify_lens_to_bucket", bucket, {}),
    (
        "scatter_compact_to_strided",
        ragged_rows,
        {"values": lambda call: int(call["verify_lens"].sum()) * call["values"].shape[1]},
    ),
    ("ragged_verify_metadata", window, {"req_to_token": as_many("page_table")}),
    (
        "cap_accepted_drafts",
        lambda it: {**window(it), "num_accepted_drafts": it.num_accepted_drafts},
        {"candidates": as_many("cut_tokens")},
    ),
    ("commit_inject_layout", commits, {"req_to_token": _committed, "slot_map": _committed}),
)
