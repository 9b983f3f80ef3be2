"""Drafting: top-k, beams, and the candidates that are kept."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

FAST_TOPK = in_release("fast_topk", "srt.utils.common", "srt.speculative.spec_utils")
SELECT_TOP_K_TOKENS = in_release("select_top_k_tokens", "srt.speculative.spec_utils")
ORGANIZE_DRAFT_RESULTS = in_release("organize_draft_results", "srt.speculative.eagle_utils")


def fast_topk(values: "torch.Tensor", k: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """Pick the k largest entries of each row."""
    largest, index = engine().get(FAST_TOPK)(values, k, dim=-1)
    return largest, index


def select_top_k_tokens(
    step_index: int,
    topk_p: "torch.Tensor",
    topk_index: "torch.Tensor",
    hidden_states: "torch.Tensor | None",
    scores: "torch.Tensor | None",
    topk: int,
) -> "tuple[torch.Tensor | None, ...]":
    """Choose the beams of the next depth."""
    input_ids, hidden, next_scores, blocks = engine().get(SELECT_TOP_K_TOKENS)(
        step_index, topk_p, topk_index, hidden_states, scores, topk
    )
    return (input_ids, hidden, next_scores, *blocks)


def organize_draft_results(
    score_list: "list[torch.Tensor]",
    token_list: "list[torch.Tensor]",
    parents_list: "list[torch.Tensor]",
    num_draft_tokens: int,
) -> "tuple[torch.Tensor, ...]":
    """Keep the best candidates of all depths."""
    kept: tuple[torch.Tensor, ...] = engine().get(ORGANIZE_DRAFT_RESULTS)(
        score_list, token_list, parents_list, num_draft_tokens
    )
    return kept


TABLE = (
    Adapted(fast_topk, (FAST_TOPK,)),
    Adapted(select_top_k_tokens, (SELECT_TOP_K_TOKENS,)),
    Adapted(organize_draft_results, (ORGANIZE_DRAFT_RESULTS,)),
)
