"""The verify phase on the device: the target runs over the trees, and the longest path it agrees with is accepted."""

import torch
from torch import Tensor

from specsim import gpu
from specsim.counts import count_tokens
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.rules import RuleRows, writable
from specsim.gpu.worker.sampling import accept, greedy_choices
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.models.batches import PagedKeys, TargetBatch, TargetOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.reported_states import layers_to_ask, part_states


def run_target(
    rows: Tensor,
    phase: VerifyInput,
    keys: PagedKeys[Tensor],
    model: Model[Tensor],
    pools: Pools,
    is_sampled: bool,
    hands_states: bool = False,
    has_rules: bool = False,
) -> tuple[TargetOutput[Tensor], Buffers]:
    """Run the target over the trees and return what it says, and the recurrent state after every node.

    With ``hands_states`` it says the hidden states that users are handed as well, and with ``has_rules`` its logits can
    be written.
    """
    scratch = pools.scratch(rows.shape[0], phase.num_draft_tokens)
    batch = TargetBatch(
        req_pool_indices=rows,
        input_ids=phase.draft_token,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        prefix_lens=phase.seq_lens,
        keys=keys,
        tree_mask=phase.tree_mask,
        parents=parents_of(phase) if pools.states else None,
        select=None,
        hidden_layers=layers_to_ask(model.description, hands_states),
        is_sampled=is_sampled,
        window_keys=pools.window_keys(keys.page_table, phase.out_cache_loc),
    )
    output = model.verify(batch, pools.kv[Side.TARGET], pools.states, scratch)
    output = part_states(model.description, output, hands_states)
    return writable(output) if has_rules else output, scratch


def verify(
    rows: Tensor,
    phase: VerifyInput,
    output: TargetOutput[Tensor],
    num_steps: int,
    choices: ChoiceRows | None,
    rules: RuleRows | None = None,
) -> VerifyOutput:
    """Accept along the trees: greedily without ``choices``, else by chance for the whole batch.

    With ``rules`` the logits are changed in place before, and what is accepted is committed to the rows.
    """
    if rules is not None:
        rules.apply(rows, phase.draft_token, phase.tree_mask, output)
    target_predict = greedy_choices(output)
    predict, accept_index, num_accepted_drafts = accept(rows, phase, output, target_predict, num_steps, choices)
    if rules is not None:
        rules.commit(rows, accept_index, predict)
    num_accepted_tokens = count_tokens(num_accepted_drafts)
    accept_tokens = gpu.gather_accept_tokens(predict, accept_index)
    return VerifyOutput(
        target_predict=target_predict,
        predict=predict,
        accept_index=accept_index,
        num_accepted_drafts=num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        bonus_tokens=gpu.fill_bonus_tokens(accept_tokens, num_accepted_tokens),
        hidden_states=output.hidden_states,
    )


def verify_keys(rows: Tensor, phase: VerifyInput, pools: Pools) -> PagedKeys[Tensor]:
    """Return the keys of a forward over all nodes; the page table is as wide as a row."""
    cache_seqlens, cu_seqlens_q, _, page_table = gpu.target_verify_metadata(
        rows, pools.req_to_token, phase.seq_lens, phase.draft_token.shape[0], pools.req_to_token.shape[1], 1
    )
    return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, 1)


def parents_of(phase: VerifyInput) -> Tensor:
    """Return int64 [request, node]: the last ancestor of each node, -1 for the root; parents come before children."""
    num_nodes = phase.num_draft_tokens
    is_ancestor = phase.tree_mask.view(-1, num_nodes, num_nodes).tril(-1)
    number = torch.arange(1, num_nodes + 1, device=is_ancestor.device)
    return (is_ancestor * number).amax(dim=2) - 1
