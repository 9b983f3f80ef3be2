"""Acceptance of a batch in which requests are sampled, greedy, or both, on the device."""

import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.worker.choices import ChoiceRows
from specsim.phases import VerifyInput
from specsim.simulation.models.batches import TargetOutput

Accepted = tuple[Tensor, Tensor, Tensor]
Links = tuple[Tensor, Tensor, Tensor, Tensor]
COMPARABLE = (torch.int64, torch.float32)
SAMPLED_DTYPES = (torch.float32, torch.bfloat16)


def greedy_choices(output: TargetOutput[Tensor]) -> Tensor:
    """Return the target's greedy choice of every row of logits, int64 [row]."""
    logits = output.logits
    return gpu.argmax_target_predict(logits if logits.dtype in COMPARABLE else logits.float())


def accept(
    rows: Tensor,
    phase: VerifyInput,
    output: TargetOutput[Tensor],
    target_predict: Tensor,
    num_steps: int,
    choices: ChoiceRows | None,
) -> Accepted:
    """Accept along the trees: greedily without ``choices``, else by chance for the whole batch.

    Parameters
    ----------
    rows : int64 [request]
        Request rows, padding 0.
    target_predict : int64 [request*node]
        The greedy choices, which greedy requests keep.
    """
    shape = phase.retrieve_index.shape
    links = (
        phase.draft_token.view(shape),
        phase.retrieve_index,
        phase.retrieve_next_token,
        phase.retrieve_next_sibling,
    )
    if choices is None:
        return gpu.verify_tree_greedy(*links, target_predict.view(shape), num_steps)
    if choices.is_top_k_exact:
        output = _keep_top_k_exactly(rows, output, target_predict, shape[1], choices)
    return verify_sampled(rows, links, phase.seq_lens, output, target_predict, num_steps, choices)


def _keep_top_k_exactly(
    rows: Tensor, output: TargetOutput[Tensor], target_predict: Tensor, num_nodes: int, choices: ChoiceRows
) -> TargetOutput[Tensor]:
    """Return logits without ties at the k-th; a greedy request keeps its choice alone (semantics A.14)."""
    temperature, top_k, *_ = choices.gather(rows)
    is_greedy = temperature == 0
    of_nodes = is_greedy.repeat_interleave(num_nodes, output_size=len(target_predict))
    logits = sampling_logits(output, target_predict, of_nodes)
    kept = gpu.keep_top_k_exactly(logits, top_k.masked_fill(is_greedy, 1), num_nodes)
    return TargetOutput(kept, output.hidden_states)


def first_tokens(
    rows: Tensor, lengths: Tensor, output: TargetOutput[Tensor], target_predict: Tensor, choices: ChoiceRows
) -> Tensor:
    """Return the token after each prompt, int64 [request]: a verify of its last token without drafts."""
    number = torch.arange(len(rows), device=rows.device)[:, None]
    alone = torch.full_like(number, -1)
    links = (torch.zeros_like(number), number, alone, alone)
    predict, _, _ = verify_sampled(rows, links, lengths - 1, output, target_predict, 0, choices)
    return predict.long()


def verify_sampled(
    rows: Tensor,
    links: Links,
    seq_lens: Tensor,
    output: TargetOutput[Tensor],
    target_predict: Tensor,
    num_steps: int,
    choices: ChoiceRows,
) -> Accepted:
    """Draw the coins of every request, which its seed and length decide, and accept by chance."""
    temperature, top_k, top_p, min_p, single, acc, seed = choices.gather(rows)
    num_nodes = links[0].shape[1]
    is_greedy = (temperature == 0).repeat_interleave(num_nodes, output_size=len(target_predict))
    logits = sampling_logits(output, target_predict, is_greedy)
    coins, final = gpu.generate_coins(seed, seq_lens, num_nodes)
    return gpu.verify_tree_sampled_from_logits(
        *links, coins, final, logits, temperature, top_k, top_p, min_p, single, acc, num_steps
    )


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
