"""The rejection sampler of vLLM's Triton kernels, with coins and without."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted
from specsim.engines.chains import drafted_lengths
from specsim.engines.vllm.release import engine, in_release

if TYPE_CHECKING:
    import torch

MODULE = "v1.sample.rejection_sampler"
REJECTION_SAMPLE = in_release("rejection_sample", MODULE)
RANDOM_KERNEL = in_release("rejection_random_sample_kernel", MODULE)
RECOVERED_KERNEL = in_release("sample_recovered_tokens_kernel", MODULE)
RANDOM_SAMPLE = in_release("random_sample", "v1.sample.ops.topk_topp_sampler")


def chain_speculative_sampling(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    uniform_samples: "torch.Tensor",
    uniform_samples_for_final_sampling: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Launch the kernels of vLLM with coins.

    A recovered token is the winner of a race between exponential numbers. The race is run with one for the token that
    the last coin picks and zero for all others: the kernel has to name it, or what it takes for its residual is wrong.
    A bonus token is drawn before the sampler is called, here by the last coin.
    """
    import torch

    num_requests, vocab = len(cu_num_drafts[1:]), target_probs.shape[1]
    device = target_probs.device
    output_tokens = draft_tokens.new_full((num_requests, count_tokens(max_num_drafts)), -1, dtype=torch.int32)
    rows, bonus_rows = _rows_of(draft_tokens, cu_num_drafts)
    drafted = target_probs[rows].contiguous()
    coins = uniform_samples_for_final_sampling.double()
    bonus = _draw(target_probs[bonus_rows], coins).int()[:, None].contiguous()
    recovered = torch.empty_like(draft_tokens, dtype=torch.int32)
    ends = cu_num_drafts[1:].contiguous()
    for position in range(max_num_drafts):
        winners = _races(draft_tokens, cu_num_drafts, draft_probs, drafted, coins, position)
        once = torch.empty_like(recovered)
        engine().get(RECOVERED_KERNEL)[(num_requests, max_num_drafts)](
            once, ends, draft_tokens, draft_probs, drafted, winners, vocab, 8192, draft_probs is None, False
        )
        chosen = cu_num_drafts[:-1].long() + position
        chosen = chosen[chosen < cu_num_drafts[1:]]
        recovered[chosen] = once[chosen]
    engine().get(RANDOM_KERNEL)[(num_requests,)](
        output_tokens,
        ends,
        draft_tokens,
        draft_probs,
        drafted,
        bonus,
        recovered,
        uniform_samples.double(),
        torch.zeros(num_requests, dtype=torch.bool, device=device),
        max_num_drafts,
        vocab,
        None,
        draft_probs is None,
        False,
    )
    return output_tokens, (output_tokens >= 0).sum(1).int() - 1


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


def _rows_of(draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Return the target's row of every draft, and that of the token behind all drafts of each request."""
    import torch

    chains = drafted_lengths(draft_tokens, cu_num_drafts)
    rows = [first + request + at for request, (first, width, _) in enumerate(chains) for at in range(width)]
    bonus = [first + request + width for request, (first, width, _) in enumerate(chains)]
    device = draft_tokens.device
    return torch.tensor(rows, dtype=torch.int64, device=device), torch.tensor(bonus, dtype=torch.int64, device=device)


def _draw(rows: "torch.Tensor", coins: "torch.Tensor") -> "torch.Tensor":
    running = rows.double().cumsum(1)
    return (running > coins[:, None] * running[:, -1:]).int().argmax(1)


def _races(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    drafted: "torch.Tensor",
    coins: "torch.Tensor",
    position: int,
) -> "torch.Tensor":
    """Return of each request the race at one position: one for the token that the coin picks there."""
    races = drafted.new_zeros((len(coins), drafted.shape[1]))
    for request, (first, width, length) in enumerate(drafted_lengths(draft_tokens, cu_num_drafts)):
        if position >= width:
            continue
        row = drafted[first + position].double()
        if position < length and draft_probs is not None:
            row = (row - draft_probs[first + position].double()).clamp(min=0)
        elif position < length:
            row[draft_tokens[first + position]] = 0
        races[request, _draw(row[None], coins[request : request + 1])[0]] = 1
    return races


TABLE = (
    Adapted(chain_speculative_sampling, (RANDOM_KERNEL, RECOVERED_KERNEL)),
    Adapted(chain_speculative_sampling_without_coins, (REJECTION_SAMPLE, RANDOM_SAMPLE)),
)
