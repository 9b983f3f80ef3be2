"""Top-k, top-p and min-p of SGLang's sampler in torch (``--sampling-backend pytorch``), and what it draws from."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

SAMPLER = "srt.layers.sampler"
TOP_P = in_release("top_p_normalize_probs_torch", SAMPLER)
SAMPLE = in_release("top_k_top_p_min_p_sampling_from_probs_torch", SAMPLER)


def top_p_renorm(probabilities: "torch.Tensor", top_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the most probable tokens whose mass reaches p."""
    renormalised: torch.Tensor = engine().get(TOP_P)(probabilities, top_p)
    return renormalised


def top_k_renorm(probabilities: "torch.Tensor", top_k: "torch.Tensor") -> "torch.Tensor":
    """Keep the k most probable tokens of a row."""
    import torch

    every, no_share = torch.ones_like(top_k, dtype=torch.float32), torch.zeros_like(top_k, dtype=torch.float32)
    return _weights(probabilities, top_k, every, no_share)


def min_p_renorm(probabilities: "torch.Tensor", min_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the tokens that are at least a share as probable as the most probable one."""
    import torch

    everything = torch.full_like(min_p, probabilities.shape[1], dtype=torch.int32)
    return _weights(probabilities, everything, torch.ones_like(min_p), min_p)


def _weights(
    probabilities: "torch.Tensor", top_k: "torch.Tensor", top_p: "torch.Tensor", min_p: "torch.Tensor"
) -> "torch.Tensor":
    """Return the weights that SGLang draws from, in the order of the vocabulary, as shares of their sum."""
    import torch

    _, weights, order, _ = engine().get(SAMPLE)(
        probabilities, top_k, top_p, min_p, True, None, None, return_filtered_probs=True
    )
    shares = weights / weights.sum(dim=-1, keepdim=True)
    return torch.zeros_like(shares).scatter_(-1, order.long(), shares)


TABLE = (
    Adapted(top_k_renorm, (SAMPLE,)),
    Adapted(top_p_renorm, (TOP_P,)),
    Adapted(min_p_renorm, (SAMPLE,)),
)
