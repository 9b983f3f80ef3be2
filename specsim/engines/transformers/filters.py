"""Top-k, top-p, min-p and temperature of transformers, which has an object for each with one setting a batch."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted, Definition
from specsim.engines.filters import Filter, renormalised_by_row
from specsim.engines.transformers.release import LOGITS, engine

if TYPE_CHECKING:
    import torch

TEMPERATURE = Definition("TemperatureLogitsWarper", (LOGITS,))
TOP_K = Definition("TopKLogitsWarper", (LOGITS,))
TOP_P = Definition("TopPLogitsWarper", (LOGITS,))
MIN_P = Definition("MinPLogitsWarper", (LOGITS,))


def top_k_renorm(probabilities: "torch.Tensor", top_k: "torch.Tensor") -> "torch.Tensor":
    """Keep the k most probable tokens of a row."""
    return renormalised_by_row(probabilities, top_k, lambda count: _warper(TOP_K, int(count)))


def top_p_renorm(probabilities: "torch.Tensor", top_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the most probable tokens whose mass reaches p."""
    return renormalised_by_row(probabilities, top_p, lambda mass: _warper(TOP_P, mass))


def min_p_renorm(probabilities: "torch.Tensor", min_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the tokens that are at least a share as probable as the most probable one."""
    return renormalised_by_row(probabilities, min_p, lambda share: _warper(MIN_P, share))


def target_probabilities(
    logits: "torch.Tensor",
    temperature: "torch.Tensor",
    top_k: "torch.Tensor",
    top_p: "torch.Tensor",
    min_p: "torch.Tensor",
    num_draft_tokens: int,
) -> "torch.Tensor":
    """Apply the four in the order of transformers, which decodes greedily instead where a temperature is 0."""
    import torch

    rows = []
    settings = (one.tolist() for one in (temperature, top_k, top_p, min_p))
    blocks = logits.float().view(len(temperature), num_draft_tokens, -1).unbind()
    for block, warmth, count, mass, share in zip(blocks, *settings, strict=True):
        if warmth == 0:
            rows.append(torch.nn.functional.one_hot(block.argmax(dim=1), block.shape[1]).float())
            continue
        scores = block
        for definition, setting in ((TEMPERATURE, warmth), (TOP_K, count), (TOP_P, mass), (MIN_P, share)):
            scores = _warper(definition, setting)(scores)
        rows.append(scores.softmax(dim=-1))
    return torch.cat(rows) if rows else logits.float()


def _warper(definition: Definition, setting: float) -> Filter:
    warper = engine().get(definition)(setting)
    return lambda scores: warper(None, scores)


TABLE = (
    Adapted(top_k_renorm, (TOP_K,)),
    Adapted(top_p_renorm, (TOP_P,)),
    Adapted(min_p_renorm, (MIN_P,)),
    Adapted(target_probabilities, (TEMPERATURE, TOP_K, TOP_P, MIN_P)),
)
