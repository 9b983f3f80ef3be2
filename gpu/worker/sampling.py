"""Acceptance of a batch in which requests are sampled, greedy, or both, on the device."""

import torch
from torch import Tensor

from specsim import gpu
from specsim.host.acceptance import Acceptance
from specsim.phases import VerifyInput
from specsim.simulation.models.batches import TargetOutput

Accepted = tuple[Tensor, Tensor, Tensor]
Links = tuple[Tensor, Tensor, Tensor, Tensor]
Parameters = tuple[Tensor, ...]
COMPARABLE = (torch.int64, torch.float32)
SAMPLED_DTYPES = (torch.float32, torch.bfloat16)


def greedy_choices(output: TargetOutput[Tensor]) -> Tensor:
    """Return the target's greedy choice of every row of logits, int64 [row]."""
    logits = output.logits
    return gpu.argmax_target_predict(logits if logits.dtype in COMPARABLE else logits.float())


def accept(
    phase: VerifyInput,
    output: TargetOutput[Tensor],
    target_predict: Tensor,
    num_steps: int,
    parameters: Parameters,
    is_top_k_exact: bool,
    acceptance: Acceptance,
) -> Accepted:
    """Accept along the trees by chance, for the whole batch.

    Parameters
    ----------
    target_predict : int64 [request*node]
        The greedy choices, which greedy requests keep.
    parameters : tuple of Tensor
        What ``ChoiceRows.gather`` returns of the batch.
    is_top_k_exact : bool
        Whether drafts are accepted from exactly as many tokens as the top-k of their request says.
    acceptance : Acceptance
        The rule of the worker.
    """
    links = links_of(phase)
    if is_top_k_exact:
        output = _keep_top_k_exactly(output, target_predict, phase.num_draft_tokens, parameters)
    places = phase.positions.view(phase.retrieve_index.shape), phase.seq_lens
    return verify_sampled(links, *places, output, target_predict, num_steps, parameters, acceptance)


def links_of(phase: VerifyInput) -> Links:
    """Return the tokens, places and links of trees, each [request, node]."""
    draft_token = phase.draft_token.view(phase.retrieve_index.shape)
    return draft_token, phase.retrieve_index, phase.retrieve_next_token, phase.retrieve_next_sibling


def _keep_top_k_exactly(
    output: TargetOutput[Tensor], target_predict: Tensor, num_nodes: int, parameters: Parameters
) -> TargetOutput[Tensor]:
    """Return logits without ties at the k-th; a greedy request keeps its choice alone (semantics A.14)."""
    temperature, top_k, *_ = parameters
    is_greedy = temperature == 0
    of_nodes = is_greedy.repeat_interleave(num_nodes, output_size=len(target_predict))
    logits = sampling_logits(output, target_predict, of_nodes)
    kept = gpu.keep_top_k_exactly(logits, top_k.masked_fill(is_greedy, 1), num_nodes)
    return TargetOutput(kept, output.hidden_states)


def first_tokens(
    lengths: Tensor,
    output: TargetOutput[Tensor],
    target_predict: Tensor,
    parameters: Parameters,
    acceptance: Acceptance,
) -> Tensor:
    """Return the token after each prompt, int64 [request]: a verify of its last token without drafts."""
    number = torch.arange(len(lengths), device=lengths.device)[:, None]
    alone = torch.full_like(number, -1)
    links = (torch.zeros_like(number), number, alone, alone)
    places = (lengths - 1)[:, None], lengths - 1
    predict, _, _ = verify_sampled(links, *places, output, target_predict, 0, parameters, acceptance)
    return predict.long()


def verify_sampled(
    links: Links,
    positions: Tensor,
    seq_lens: Tensor,
    output: TargetOutput[Tensor],
    target_predict: Tensor,
    num_steps: int,
    parameters: Parameters,
    acceptance: Acceptance,
) -> Accepted:
    """Accept by chance: by coins, which the seed and length of a request decide, or along what the target draws.

    ``positions`` [request, node] are those of every node.
    """
    temperature, top_k, top_p, min_p, single, acc, seed = parameters
    num_nodes = links[0].shape[1]
    is_greedy = (temperature == 0).repeat_interleave(num_nodes, output_size=len(target_predict))
    logits = sampling_logits(output, target_predict, is_greedy)
    filters = temperature, top_k, top_p, min_p
    if acceptance is Acceptance.TARGET_DRAW:
        # NOTE: seeds and positions are read where they lie, so that a graph draws on those of its replay.
        drawn = gpu.sample_target_predict(logits, *filters, seed, positions)
        return gpu.verify_tree_greedy(*links, drawn, num_steps)
    coins, final = gpu.generate_coins(seed, seq_lens, num_nodes)
    if acceptance is Acceptance.BLOCK:
        target_probs = gpu.target_probabilities(logits, *filters, num_nodes)
        return _verify_blocks(links, coins, final, target_probs, num_steps)
    return gpu.verify_tree_sampled_from_logits(*links, coins, final, logits, *filters, single, acc, num_steps)


def _verify_blocks(links: Links, coins: Tensor, final: Tensor, target_probs: Tensor, num_steps: int) -> Accepted:
    """Judge the drafts of every chain as a block; they were not drawn, so that each is certain."""
    candidates, retrieve_index, next_token, _ = links
    num_requests, num_nodes = candidates.shape
    drafts = torch.where(next_token[:, :-1] >= 0, candidates[:, 1:], -1)
    starts = torch.arange(num_requests + 1, dtype=torch.int32, device=candidates.device) * (num_nodes - 1)
    output_tokens, num_accepted_drafts = gpu.chain_block_verification(
        drafts.reshape(-1), starts, coins[:, :-1].reshape(-1), final, None, target_probs, num_steps
    )
    is_kept = torch.arange(num_nodes, device=candidates.device) <= num_accepted_drafts[:, None]
    predict = torch.where(is_kept, output_tokens, 0).view(-1)
    return predict, torch.where(is_kept, retrieve_index, -1).int(), num_accepted_drafts


def distribution_logits(output: TargetOutput[Tensor], rows: slice = slice(None)) -> Tensor:
    """Return the logits that make a distribution, those that tokens are chosen from where there are no others."""
    logits = (output.logits if output.sampling_logits is None else output.sampling_logits)[rows]
    return logits if logits.dtype in SAMPLED_DTYPES else logits.float()


def sampling_logits(output: TargetOutput[Tensor], target_predict: Tensor, is_greedy: Tensor) -> Tensor:
    """Return logits that can be sampled from; those of greedy requests have the greedy choice alone on top.

    ``is_greedy`` is bool [row].
    """
    logits = distribution_logits(output)
    if output.sampling_logits is None:
        return logits
    chosen = torch.full_like(logits, -1.0).scatter_(1, target_predict[:, None], 0.0)
    return torch.where(is_greedy[:, None], chosen, logits)
