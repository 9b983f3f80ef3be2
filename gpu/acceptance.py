"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

import torch

from specsim.counts import count_tokens, path_width
from specsim.gpu.kernels import acceptance as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare

_TILE = 1024
_VOCAB_BLOCK = 4096


def generate_coins(
    seeds: torch.Tensor, seq_lens: torch.Tensor, num_draft_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw the coins of a verify; one launch over blocks of requests."""
    axes, (uniform_samples, final_samples) = prepare("generate_coins", locals())
    num_requests = axes["request"]
    if num_requests:
        columns = power_of_two(num_draft_tokens + 1)
        requests = choose_block(num_requests, max(1, _TILE // columns), LARGEST_TILE // columns)
        kernels._generate_coins_kernel[(ceil_div(num_requests, requests),)](
            seeds.contiguous(),
            seq_lens.contiguous(),
            uniform_samples,
            final_samples,
            num_requests,
            num_draft_tokens,
            REQUESTS=requests,
            COLUMNS=columns,
        )
    return uniform_samples, final_samples


def tree_speculative_sampling_target_only(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: torch.Tensor,
    threshold_acc: torch.Tensor,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walk each tree by chance; one program a request.

    A child costs one probability; the last token reads its row once, and one block of it again.
    """
    axes, (predict, accept_index, num_accepted_drafts) = prepare("tree_speculative_sampling_target_only", locals())
    num_requests, num_nodes, vocab = axes["request"], axes["node"], axes["vocab"]
    if num_requests:
        block = choose_block(vocab, _VOCAB_BLOCK)
        kernels._tree_speculative_sampling_kernel[(num_requests,)](
            candidates.contiguous(),
            retrieve_index.contiguous(),
            retrieve_next_token.contiguous(),
            retrieve_next_sibling.contiguous(),
            uniform_samples.contiguous(),
            uniform_samples_for_final_sampling.contiguous(),
            target_probs,
            draft_probs,
            threshold_single.contiguous(),
            threshold_acc.contiguous(),
            predict,
            accept_index,
            num_accepted_drafts,
            num_nodes,
            vocab,
            num_steps,
            *target_probs.stride(),
            *draft_probs.stride(),
            STRICT=bool(strict),
            SKIP_DUPLICATES=bool(skip_duplicates),
            NODES=power_of_two(num_nodes),
            WIDTH=power_of_two(path_width(num_steps)),
            BLOCK=block,
            BLOCKS=power_of_two(ceil_div(vocab, block)),
            num_warps=_num_warps(block),
        )
    return predict, accept_index, num_accepted_drafts


def chain_speculative_sampling(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_probs: torch.Tensor | None,
    target_probs: torch.Tensor,
    max_num_drafts: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Accept ragged chains by rejection sampling; one program a request.

    A draft costs two probabilities; the last token reads two rows once, and one block of them again.
    """
    axes, (output_tokens, num_accepted_drafts) = prepare("chain_speculative_sampling", locals())
    num_requests, vocab = axes["request"], axes["vocab"]
    if num_requests:
        block = choose_block(vocab, _VOCAB_BLOCK)
        kernels._chain_speculative_sampling_kernel[(num_requests,)](
            draft_tokens.contiguous(),
            cu_num_drafts.contiguous(),
            uniform_samples.contiguous(),
            uniform_samples_for_final_sampling.contiguous(),
            draft_probs,
            target_probs,
            output_tokens,
            num_accepted_drafts,
            axes["drafted"],
            vocab,
            max_num_drafts,
            0 if draft_probs is None else draft_probs.stride(0),
            0 if draft_probs is None else draft_probs.stride(1),
            *target_probs.stride(),
            HAS_DRAFT=draft_probs is not None,
            WIDTH=power_of_two(count_tokens(max_num_drafts)),
            BLOCK=block,
            BLOCKS=power_of_two(ceil_div(vocab, block)),
            num_warps=_num_warps(block),
        )
    return output_tokens, num_accepted_drafts


def generate_simulated_accept_index(
    accept_index: torch.Tensor, simulated_num_tokens: int, num_draft_tokens: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pretend that every request accepted the same number of tokens; one launch over blocks of requests."""
    axes, (predict, simulated_accept_index, num_accepted_drafts) = prepare("generate_simulated_accept_index", locals())
    num_requests = axes["request"]
    if num_requests:
        nodes = power_of_two(num_draft_tokens)
        requests = choose_block(num_requests, max(1, _TILE // nodes), LARGEST_TILE // nodes)
        kernels._generate_simulated_accept_index_kernel[(ceil_div(num_requests, requests),)](
            accept_index.contiguous(),
            predict,
            simulated_accept_index,
            num_accepted_drafts,
            num_requests,
            simulated_num_tokens,
            num_draft_tokens,
            simulated_accept_index.shape[1],
            REQUESTS=requests,
            NODES=nodes,
        )
    return predict, simulated_accept_index, num_accepted_drafts


def _num_warps(block: int) -> int:
    return max(1, min(8, block // 256))
