"""Top-k, top-p and min-p of vLLM, which filters logits."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.filters import renormalised
from specsim.engines.vllm.release import engine, in_release

if TYPE_CHECKING:
    import torch

TOP_K_TOP_P = in_release("apply_top_k_top_p", "v1.sample.ops.topk_topp_sampler")
WITHOUT_TRITON = in_release("apply_top_k_top_p_pytorch", "v1.sample.ops.topk_topp_sampler")
MIN_P = in_release("MinPLogitsProcessor.apply", "v1.sample.logits_processor.builtin")


def top_k_renorm(probabilities: "torch.Tensor", top_k: "torch.Tensor") -> "torch.Tensor":
    """Keep the k most probable tokens of a row; vLLM's scheduler hands over no number beyond the vocabulary."""
    counts = top_k.clamp(max=probabilities.shape[1])
    return renormalised(probabilities, lambda logits: engine().get(TOP_K_TOP_P)(logits, counts, None))


def top_p_renorm(probabilities: "torch.Tensor", top_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the most probable tokens whose mass reaches p."""
    return renormalised(probabilities, lambda logits: engine().get(TOP_K_TOP_P)(logits, None, top_p))


def min_p_renorm(probabilities: "torch.Tensor", min_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the tokens that are at least a share as probable as the most probable one."""
    processor = SimpleNamespace(min_p_count=len(min_p), min_p=min_p[:, None])
    return renormalised(probabilities, lambda logits: engine().get(MIN_P)(processor, logits))


TABLE = (
    Adapted(top_k_renorm, (TOP_K_TOP_P, WITHOUT_TRITON)),
    Adapted(top_p_renorm, (TOP_K_TOP_P, WITHOUT_TRITON)),
    Adapted(min_p_renorm, (MIN_P,)),
)
