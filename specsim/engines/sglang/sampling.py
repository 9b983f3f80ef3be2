"""Acceptance by coins in trees, which SGLang has a compiled kernel for and no other."""

from typing import TYPE_CHECKING

from specsim.counts import path_width
from specsim.engines.adapter import Adapted
from specsim.engines.sglang.compiled import compiled

if TYPE_CHECKING:
    import torch

NAME = "tree_speculative_sampling_target_only"


def tree_speculative_sampling_target_only(
    candidates: "torch.Tensor",
    retrieve_index: "torch.Tensor",
    retrieve_next_token: "torch.Tensor",
    retrieve_next_sibling: "torch.Tensor",
    uniform_samples: "torch.Tensor",
    uniform_samples_for_final_sampling: "torch.Tensor",
    target_probs: "torch.Tensor",
    draft_probs: "torch.Tensor",
    threshold_single: "torch.Tensor",
    threshold_acc: "torch.Tensor",
    num_steps: int,
    strict: bool,
    skip_duplicates: bool,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Walk each tree by coins. SGLang has the same thresholds for a whole batch: one call is made for each pair.

    ``strict`` and ``skip_duplicates`` are what the kernel does anyway, which limits say.
    """
    import torch

    num_requests, num_nodes = candidates.shape
    predict = candidates.new_zeros((num_requests, num_nodes), dtype=torch.int32)
    accept_index = predict.new_full((num_requests, path_width(num_steps)), -1)
    num_accepted_drafts = predict.new_zeros(num_requests)
    outputs = predict, accept_index, num_accepted_drafts, draft_probs
    pairs = list(zip(threshold_single.tolist(), threshold_acc.tolist(), strict=True))
    for single, accumulated in sorted(set(pairs)):
        members = [request for request, pair in enumerate(pairs) if pair == (single, accumulated)]
        written = [output.clone() for output in outputs]
        compiled(NAME).call(
            written[0].view(-1),
            written[1],
            written[2],
            candidates,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
            uniform_samples,
            uniform_samples_for_final_sampling,
            target_probs,
            written[3],
            single,
            accumulated,
            True,
        )
        for output, own in zip(outputs, written, strict=True):
            output[members] = own[members]
    return predict.view(-1), accept_index, num_accepted_drafts


def limits() -> dict[str, tuple[int, ...]]:
    """Return the rule by which the kernel compares coins, which its releases differ in; equal siblings count twice."""
    home = compiled(NAME).home
    return {} if home is None else {"strict": (int(home.is_strict),), "skip_duplicates": (0,)}


TABLE = () if compiled(NAME).home is None else (Adapted(tree_speculative_sampling_target_only, ()),)
