"""The rejection sampler of vLLM's Triton kernels, with coins and without."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted
from specsim.engines.chains import Chains, Outputs, chains_of, draw, sampler_of
from specsim.engines.vllm.release import engine, in_release

if TYPE_CHECKING:
    import torch

MODULE = "v1.sample.rejection_sampler"
REJECTION_SAMPLE = in_release("rejection_sample", MODULE)
RANDOM_KERNEL = in_release("rejection_random_sample_kernel", MODULE)
RECOVERED_KERNEL = in_release("sample_recovered_tokens_kernel", MODULE)
GREEDY_KERNEL = in_release("rejection_greedy_sample_kernel", MODULE)
RANDOM_SAMPLE = in_release("random_sample", "v1.sample.ops.topk_topp_sampler")
BLOCK_SIZE = 8192
"""Of the vocabulary, as vLLM launches its kernel."""


def _with_coins(chains: Chains, out: Outputs) -> None:
    """Launch the kernels of vLLM with coins.

    A recovered token is the winner of a race between exponential numbers, one race a request. It is run with one for
    the token that the last coin picks where the request's drafts were rejected, and zero for all others: the kernel has
    to name it, or what it takes for its residual is wrong. Where that is comes from a first launch. A bonus token is
    drawn before the sampler is called, here by the last coin.
    """
    import torch

    output_tokens, num_accepted_drafts = out
    num_requests, vocab = len(output_tokens), chains.target_probs.shape[1]
    rows, bonus_rows = _rows_of(chains.draft_tokens, chains.cu_num_drafts)
    target_probs = chains.target_probs[rows].contiguous()
    bonus = draw(chains.target_probs[bonus_rows], chains.uniform_samples_for_final_sampling).int()
    recovered = torch.zeros_like(chains.draft_tokens, dtype=torch.int32)
    _launch_verify(chains, target_probs, bonus, recovered, output_tokens)
    num_accepted_drafts.copy_((output_tokens >= 0).sum(1) - 1)
    engine().get(RECOVERED_KERNEL)[(num_requests, chains.max_num_drafts)](
        recovered,
        chains.cu_num_drafts[1:].contiguous(),
        chains.draft_tokens,
        chains.draft_probs,
        target_probs,
        _races(chains, target_probs, num_accepted_drafts.tolist()),
        vocab,
        BLOCK_SIZE,
        chains.draft_probs is None,
        False,
    )
    _launch_verify(chains, target_probs, bonus, recovered, output_tokens)


def _launch_verify(
    chains: Chains,
    target_probs: "torch.Tensor",
    bonus: "torch.Tensor",
    recovered: "torch.Tensor",
    output_tokens: "torch.Tensor",
) -> None:
    import torch

    engine().get(RANDOM_KERNEL)[(len(output_tokens),)](
        output_tokens,
        chains.cu_num_drafts[1:].contiguous(),
        chains.draft_tokens,
        chains.draft_probs,
        target_probs,
        bonus,
        recovered,
        _as_doubles(chains.uniform_samples),
        torch.zeros(len(output_tokens), dtype=torch.bool, device=output_tokens.device),
        chains.max_num_drafts,
        target_probs.shape[1],
        None,
        chains.draft_probs is None,
        False,
    )


def _as_doubles(coins: "torch.Tensor") -> "torch.Tensor":
    """Return coins in double precision, as vLLM draws them: of all that one stands for, the one in the middle."""
    import torch

    return (coins.double() + torch.nextafter(coins, torch.ones_like(coins)).double()) / 2


def chain_speculative_sampling_without_coins(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
    seed: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Call the whole sampler, which draws its own coins, on the logarithms of the probabilities."""
    import torch

    num_requests = len(cu_num_drafts[1:])
    torch.manual_seed(seed)
    rows, bonus_rows = _rows_of(draft_tokens, cu_num_drafts)
    bonus = engine().get(RANDOM_SAMPLE)(target_probs[bonus_rows].clone(), {})
    metadata = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.ones(num_requests, device=target_probs.device),
        generators={},
    )
    output_tokens: torch.Tensor = engine().get(REJECTION_SAMPLE)(
        draft_tokens,
        cu_num_drafts.diff().tolist(),
        max_num_drafts,
        cu_num_drafts[1:].contiguous(),
        draft_probs,
        target_probs[rows].log(),
        bonus.reshape(num_requests, 1),
        metadata,
    )
    return output_tokens, (output_tokens >= 0).sum(1).int() - 1


def verify_chain_greedy(
    draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor", target_predict: "torch.Tensor", max_num_drafts: int
) -> Outputs:
    """Launch vLLM's kernel for greedy requests, on the target's choices of each draft and after all of them."""
    num_requests = len(cu_num_drafts) - 1
    rows, bonus_rows = _rows_of(draft_tokens, cu_num_drafts)
    output_tokens = cu_num_drafts.new_full((num_requests, count_tokens(max_num_drafts)), -1)
    engine().get(GREEDY_KERNEL)[(num_requests,)](
        output_tokens,
        cu_num_drafts[1:].contiguous(),
        draft_tokens,
        target_predict[rows],
        target_predict[bonus_rows],
        None,
        max_num_drafts,
        None,
        None,
        False,
    )
    return output_tokens, (output_tokens >= 0).sum(1).int() - 1


def _rows_of(draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Return the target's row of every draft, and that of the token after all drafts of each request."""
    import torch

    chains = chains_of(draft_tokens, cu_num_drafts)
    rows = [chain.first_target_row + place for chain in chains for place in range(chain.num_rows)]
    bonus = [chain.first_target_row + chain.num_rows for chain in chains]
    device = draft_tokens.device
    return torch.tensor(rows, dtype=torch.int64, device=device), torch.tensor(bonus, dtype=torch.int64, device=device)


def _races(chains: Chains, target_probs: "torch.Tensor", num_accepted_drafts: list[int]) -> "torch.Tensor":
    """Return of each request the race where its drafts end: one for the token that the coin picks there."""
    coins = chains.uniform_samples_for_final_sampling
    races = target_probs.new_zeros((len(coins), target_probs.shape[1]))
    for chain, accepted in zip(chains.requests(), num_accepted_drafts, strict=True):
        if accepted == chain.num_rows:
            continue
        place = chain.first + accepted
        row = target_probs[place].double()
        if accepted < chain.num_drafts and chains.draft_probs is not None:
            row = (row - chains.draft_probs[place].double()).clamp(min=0)
        elif accepted < chain.num_drafts:
            row[chains.draft_tokens[place]] = 0
        races[chain.request, draw(row[None], coins[chain.request : chain.request + 1])[0]] = 1
    return races


TABLE = (
    Adapted(sampler_of(_with_coins), (RANDOM_KERNEL, RECOVERED_KERNEL)),
    Adapted(verify_chain_greedy, (GREEDY_KERNEL,)),
    Adapted(chain_speculative_sampling_without_coins, (REJECTION_SAMPLE, RANDOM_SAMPLE)),
)
