"""Chains from raw logits and chains judged as blocks, by the rejection sampler of vLLM's second model runner."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted, Engine
from specsim.engines.chains import Outputs, draw, laws_of
from specsim.engines.vllm.filters import TOP_K_TOP_P, WITHOUT_TRITON
from specsim.engines.vllm.layout import Layout
from specsim.engines.vllm.release import engine, engine_with_coins, in_release

if TYPE_CHECKING:
    import torch

REJECTION_SAMPLE = in_release("rejection_sample", "v1.worker.gpu.spec_decode.rejection_sampler_utils")
TEMPERATURE = in_release("apply_temperature", "v1.worker.gpu.sample.gumbel")
MIN_P = in_release("apply_min_p", "v1.worker.gpu.sample.min_p")


def chain_speculative_sampling_from_logits(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    uniform_samples: "torch.Tensor",
    uniform_samples_for_final_sampling: "torch.Tensor",
    draft_logits: "torch.Tensor | None",
    target_logits: "torch.Tensor",
    temperature: "torch.Tensor",
    top_k: "torch.Tensor | None",
    top_p: "torch.Tensor | None",
    min_p: "torch.Tensor | None",
    draft_temperature: "torch.Tensor",
    max_num_drafts: int,
) -> Outputs:
    """Accept chains token by token; the draft's rows are divided by their temperature in vLLM's kernels.

    Where a call has rows of a draft, those of drafts that were not drawn are one-hot. The narrower of two vocabularies
    gets tokens that are impossible, as vLLM cuts the wider one.
    """
    import torch

    from specsim.engines.vllm.coins import positions

    layout = Layout(draft_tokens, cu_num_drafts, max_num_drafts)
    target = _processed(target_logits, layout, temperature, top_k, top_p, min_p)
    is_certain = draft_temperature == 0
    divisors = draft_temperature.masked_fill(is_certain, 1.0).masked_fill(temperature == 0, 0.0)
    draft = None
    if draft_logits is not None:
        certain = is_certain[layout.requests[layout.rows_of_drafts].long()]
        width = max(target.shape[1], draft_logits.shape[1])
        target, draft = _as_wide(target, width), _as_wide(draft_logits, width)
        draft[certain] = laws_of(draft_tokens[certain], None, target).log().to(draft.dtype)
    # NOTE: at each row wins the token that the final coin picks if the drafts end there.
    winners = draw(_rests(layout, target, draft, divisors), uniform_samples_for_final_sampling[layout.requests.long()])
    pos = positions(layout.on_rows(uniform_samples), winners)
    return _sample(engine_with_coins(), layout, target, draft, divisors, torch.zeros_like(pos), pos)


def chain_block_verification_without_coins(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
    seed: int,
) -> Outputs:
    """Judge chains as blocks with vLLM's own generators: each request has a seed, and its rows have positions."""
    import torch

    layout = Layout(draft_tokens, cu_num_drafts, max_num_drafts)
    requests = torch.arange(layout.num_requests, device=target_probs.device)
    return _sample(
        engine(),
        layout,
        target_probs.log(),
        None if draft_probs is None else draft_probs.log(),
        target_probs.new_ones(layout.num_requests),
        seed * 2**20 + requests,
        layout.places.long(),
        as_block=True,
    )


def _sample(
    release: Engine,
    layout: Layout,
    target: "torch.Tensor",
    draft: "torch.Tensor | None",
    divisors: "torch.Tensor",
    seeds: "torch.Tensor",
    pos: "torch.Tensor",
    *,
    as_block: bool = False,
) -> Outputs:
    import torch

    tokens, counts = release.get(REJECTION_SAMPLE)(
        target,
        None if draft is None else layout.by_request(draft),
        layout.row_tokens,
        layout.first_rows,
        pos,
        torch.arange(layout.num_requests, device=pos.device, dtype=torch.int32),
        layout.requests,
        layout.places,
        divisors,
        seeds,
        layout.max_num_drafts,
        use_block_verification=as_block,
    )
    columns = torch.arange(tokens.shape[1], device=tokens.device)
    return tokens.masked_fill(columns >= counts[:, None], -1).int(), counts - 1


def _processed(
    logits: "torch.Tensor",
    layout: Layout,
    temperature: "torch.Tensor",
    top_k: "torch.Tensor | None",
    top_p: "torch.Tensor | None",
    min_p: "torch.Tensor | None",
) -> "torch.Tensor":
    """Return the target's logits after temperature and filters, as its sampler hands them on in float32.

    Rows at temperature 0 are not filtered: requests that ask for that have no filters in vLLM.
    """
    import torch

    requests = layout.requests.long()
    is_greedy = temperature == 0
    processed = torch.empty_like(logits, dtype=torch.float32).copy_(logits)
    engine().get(TEMPERATURE)(processed, layout.requests, temperature)
    if top_k is not None or top_p is not None:
        counts = None if top_k is None else top_k.clamp(max=logits.shape[1]).masked_fill(is_greedy, logits.shape[1])
        shares = None if top_p is None else top_p.masked_fill(is_greedy, 1.0)
        processed = engine().get(TOP_K_TOP_P)(
            processed, *(one if one is None else one[requests] for one in (counts, shares))
        )
    if min_p is not None:
        engine().get(MIN_P)(processed, layout.requests, min_p.masked_fill(is_greedy, 0.0))
    return processed


def _rests(
    layout: Layout, target: "torch.Tensor", draft: "torch.Tensor | None", divisors: "torch.Tensor"
) -> "torch.Tensor":
    """Return what the token of each row is drawn from where the drafts end before it: max(p - q, 0), or p."""
    import torch

    rows, tokens = layout.rows_of_drafts, layout.draft_tokens
    p = target.double().softmax(1)
    if draft is None:
        q = laws_of(tokens, None, target).double()
    else:
        scales = divisors.masked_fill(divisors == 0, 1.0)[layout.requests[rows].long()]
        q = (draft.double() / scales[:, None]).softmax(1)
    # NOTE: at a draft of -1 nothing is subtracted.
    rests = (p - layout.on_rows(q.masked_fill(tokens[:, None] < 0, 0.0))).clamp(min=0)
    return torch.where(rests.any(1, keepdim=True), rests, p)


def _as_wide(logits: "torch.Tensor", width: int) -> "torch.Tensor":
    """Return rows of logits with tokens after their last that are impossible."""
    import torch

    return torch.nn.functional.pad(logits, (0, width - logits.shape[1]), value=-float("inf"))


_PROCESSING = (TEMPERATURE, TOP_K_TOP_P, WITHOUT_TRITON, MIN_P)
TABLE = (
    Adapted(chain_speculative_sampling_from_logits, (REJECTION_SAMPLE, *_PROCESSING)),
    Adapted(chain_block_verification_without_coins, (REJECTION_SAMPLE,)),
)
