"""Verification: greedy choices, probabilities, and acceptance by coins."""

from typing import TYPE_CHECKING

from specsim.counts import path_width
from specsim.engines.adapter import Adapted
from specsim.engines.sglang.compiled import kernel_of, needed
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

ROW_ARGMAX = in_release("row_argmax", "kernels.ops.speculative.row_argmax")
GREEDY = in_release("verify_tree_greedy_triton", "kernels.ops.speculative.spec_tree")
TOP_K = in_release("top_k_renorm_probs_triton", "kernels.ops.sampling.renorm_triton")
TOP_P = in_release("top_p_renorm_probs_triton", "kernels.ops.sampling.renorm_triton")


def argmax_target_predict(logits: "torch.Tensor") -> "torch.Tensor":
    """Choose the target's token of every row, of logits as float32; integers are taken by their order, which fits."""
    import torch

    if not logits.is_floating_point():
        logits = torch.unique(logits, return_inverse=True)[1]
    chosen: torch.Tensor = engine().get(ROW_ARGMAX)(logits.float())
    return chosen


def verify_tree_greedy(
    candidates: "torch.Tensor",
    retrieve_index: "torch.Tensor",
    retrieve_next_token: "torch.Tensor",
    retrieve_next_sibling: "torch.Tensor",
    target_predict: "torch.Tensor",
    num_steps: int,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Walk each tree along the target's greedy choices."""
    import torch

    num_requests = len(candidates)
    predict = candidates.new_zeros(candidates.numel(), dtype=torch.int32)
    accept_index = predict.new_full((num_requests, path_width(num_steps)), -1)
    num_accepted_drafts = predict.new_empty(num_requests)
    kernel_of("verify_tree_greedy", GREEDY)(
        predict,
        accept_index,
        num_accepted_drafts,
        candidates,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        target_predict,
    )
    return predict, accept_index, num_accepted_drafts


def top_k_renorm(probabilities: "torch.Tensor", top_k: "torch.Tensor") -> "torch.Tensor":
    """Keep the k most probable tokens of a row."""
    renormalised: torch.Tensor = kernel_of("top_k_renorm", TOP_K)(probabilities, top_k)
    return renormalised


def top_p_renorm(probabilities: "torch.Tensor", top_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the most probable tokens whose mass reaches p."""
    renormalised: torch.Tensor = kernel_of("top_p_renorm", TOP_P)(probabilities, top_p)
    return renormalised


TABLE = (
    Adapted(argmax_target_predict, (ROW_ARGMAX,)),
    Adapted(verify_tree_greedy, needed("verify_tree_greedy", GREEDY)),
    Adapted(top_k_renorm, needed("top_k_renorm", TOP_K)),
    Adapted(top_p_renorm, needed("top_p_renorm", TOP_P)),
)
