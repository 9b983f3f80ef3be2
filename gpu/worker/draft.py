"""The draft phase on the device: from the candidates of depth 1 to the tree that the target verifies."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specsim import gpu
from specsim.config import SpecConfig
from specsim.counts import ROOTS_PER_TREE
from specsim.gpu.move import MOST_PAIRS_IN_REGISTERS
from specsim.gpu.worker.pools import Pools
from specsim.operations.outputs import SelectTopKTokensOutputs
from specsim.phases import DraftInput, VerifyInput
from specsim.simulation.models.batches import DraftStepBatch, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model


def draft(
    phase: DraftInput,
    config: SpecConfig,
    model: Model[Tensor],
    pools: Pools,
    hot_token_id: Tensor | None,
    verify_slots: Callable[[], Tensor],
    page_size: int,
) -> VerifyInput:
    """Draft a tree for every request (semantics A.4, A.9); without a step, no kernel of the draft is launched.

    ``hot_token_id`` is the model's draft vocabulary on the device; ``verify_slots`` returns int64 [request*node], the
    slots that the target will write, and is called when the trees are built.
    """
    if config.num_steps == 0:
        return roots(phase, verify_slots())
    rows, seq_lens, req_to_token = phase.req_pool_indices, phase.seq_lens, pools.req_to_token
    topk, num_steps = config.topk, config.num_steps
    positions = seq_lens.repeat_interleave(topk)
    # NOTE: lengths lie on the device, so that a beam gets a place for every slot that its text may have on a last page.
    num_copies = rows.shape[0] * (topk - 1) * (page_size - 1)
    out_cache_loc, source_slots, target_slots = gpu.assign_draft_cache_locs(
        rows, req_to_token, seq_lens, topk, num_steps, page_size, num_copies
    )
    # NOTE: no pair writes what another one reads, so that they can be moved in parts that need no scratch memory.
    for begin in range(0, num_copies, MOST_PAIRS_IN_REGISTERS):
        part = slice(begin, begin + MOST_PAIRS_IN_REGISTERS)
        pools.move_kv(Side.DRAFT, target_slots[part], source_slots[part])
    step_cache_loc = gpu.per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps)
    kv_indices, kv_indptr = gpu.generate_draft_decode_kv_indices(
        rows, req_to_token, seq_lens, positions, topk, num_steps, page_size
    )
    topk_p, topk_index, hidden_states = phase.topk_p, map_hot(phase.topk_index, hot_token_id), phase.hidden_states
    scores: Tensor | None = None
    choices = []
    for step in range(num_steps):
        chosen = gpu.select_top_k_tokens(step, topk_p, topk_index, hidden_states, scores, topk)
        scores = chosen.next_scores
        choices.append(chosen)
        if step == num_steps - 1:
            break
        batch = DraftStepBatch(
            req_pool_indices=rows,
            input_ids=chosen.input_ids,
            positions=positions + step,
            out_cache_loc=step_cache_loc[step],
            keys=ListedKeys(kv_indices[step], kv_indptr[step], req_to_token.shape[1]),
            hidden_states=chosen.next_hidden_states,
            depth=step + 2,
        )
        drafted = model.draft_step(batch, pools.kv[Side.DRAFT])
        hidden_states = drafted.hidden_states
        topk_p, topk_index = gpu.fast_topk(drafted.probabilities, topk)
        topk_index = map_hot(topk_index, hot_token_id)
    return link(phase, config, choices, verify_slots)


def link(
    phase: DraftInput,
    config: SpecConfig,
    choices: Sequence[SelectTopKTokensOutputs[Tensor]],
    verify_slots: Callable[[], Tensor],
    kind: type[VerifyInput] = VerifyInput,
) -> VerifyInput:
    """Build the trees of what every step has chosen; ``kind`` is the class of the verify input."""
    topk, width = config.topk, config.num_draft_tokens
    token_list = [chosen.token_block for chosen in choices]
    kept: tuple[Tensor, Tensor, Tensor] = (
        gpu.organize_chain_draft_results(token_list)
        if topk == 1
        else gpu.organize_draft_results(
            [chosen.score_block for chosen in choices],
            token_list,
            [chosen.parent_block for chosen in choices],
            width,
        )
    )
    tree = gpu.build_tree(phase.bonus_tokens, *kept, phase.seq_lens, topk, config.num_steps, width)
    return kind(*tree, verify_slots(), phase.seq_lens, width)


def chain_of(
    phase: DraftInput, token_list: Sequence[Tensor], config: SpecConfig, verify_slots: Callable[[], Tensor]
) -> VerifyInput:
    """Return the chains of tokens int64 [request, 1], one a step."""
    width, seq_lens = config.num_draft_tokens, phase.seq_lens
    kept: tuple[Tensor, Tensor, Tensor] = gpu.organize_chain_draft_results(token_list)
    tree = gpu.build_tree(phase.bonus_tokens, *kept, seq_lens, 1, config.num_steps, width)
    return VerifyInput(*tree, verify_slots(), seq_lens, width)


def roots(phase: DraftInput, out_cache_loc: Tensor, kind: type[VerifyInput] = VerifyInput) -> VerifyInput:
    """Return trees of one node each; a graph captures it as it is, for every size comes from the batch."""
    seq_lens, num_requests = phase.seq_lens, phase.num_requests
    no_link = torch.full((num_requests, 1), -1, dtype=torch.int64, device=seq_lens.device)
    return kind(
        draft_token=phase.bonus_tokens.long(),
        retrieve_index=torch.arange(num_requests, device=seq_lens.device).view(num_requests, 1),
        retrieve_next_token=no_link,
        retrieve_next_sibling=no_link.clone(),
        positions=seq_lens.clone(),
        tree_mask=torch.ones(num_requests, dtype=torch.bool, device=seq_lens.device),
        out_cache_loc=out_cache_loc,
        seq_lens=seq_lens,
        num_draft_tokens=ROOTS_PER_TREE,
    )


def map_hot(topk_index: Tensor, hot_token_id: Tensor | None) -> Tensor:
    """Return target-vocabulary ids of what a draft proposes."""
    return topk_index if hot_token_id is None else gpu.map_hot_tokens(topk_index, hot_token_id)
