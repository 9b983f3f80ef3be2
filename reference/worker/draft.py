"""The draft phase: from the candidates of depth 1 to the tree that the target verifies."""

from collections.abc import Callable, Sequence

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.counts import ROOTS_PER_TREE
from specsim.operations.outputs import (
    OrganizeChainDraftResultsOutputs,
    OrganizeDraftResultsOutputs,
    SelectTopKTokensOutputs,
)
from specsim.operations.protocol import Operations
from specsim.phases import DraftInput, PhaseTag, VerifyInput, expect_phase
from specsim.reference.worker.pools import Pools
from specsim.simulation.models.batches import DraftStepBatch, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model


def draft(
    phase: DraftInput,
    config: SpecConfig,
    model: Model[Array],
    pools: Pools,
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
    page_size: int = 1,
) -> VerifyInput:
    """Draft a tree for every request: ``num_steps`` selections, one forward less, then pruning and linking.

    Without a step the draft model does not run, and what is carried for its next draft is left alone.

    Parameters
    ----------
    phase : DraftInput
        The candidates of depth 1 and what is after them.
    pools : Pools
        Slots are allocated far enough ahead; the draft's KV is written in place.
    verify_slots : callable
        Returns int64 [request*node], the slots that the target will write; called when the trees are built.
    page_size : int
        Slots of a page: every beam of a tree has pages of its own, which begin with a copy of the prefix's last one.

    Returns
    -------
    verify_input : VerifyInput
        The trees, and the slots of the verify window.

    Notes
    -----
    Source: semantics A.4, A.9.
    """
    expect_phase(phase, PhaseTag.EAGLE_DRAFT)
    if config.num_steps == 0:
        return roots(phase, verify_slots())
    topk, num_steps = config.topk, config.num_steps
    row, req_to_token, seq_lens = phase.req_pool_indices, pools.req_to_token, phase.seq_lens
    positions = np.repeat(seq_lens, topk)
    num_copies = (topk - 1) * int((seq_lens % page_size).sum())
    located = operations.assign_draft_cache_locs(row, req_to_token, seq_lens, topk, num_steps, page_size, num_copies)
    if num_copies:
        pools.move_kv(Side.DRAFT, located.target_slots, located.source_slots, operations)
    step_cache_loc = operations.per_step_draft_out_cache_loc(located.out_cache_loc, topk, num_steps)
    keys = operations.generate_draft_decode_kv_indices(
        row, req_to_token, seq_lens, positions, topk, num_steps, page_size
    )
    topk_p, hidden_states, scores = phase.topk_p, phase.hidden_states, None
    topk_index = map_hot(phase.topk_index, model, operations)
    choices = []
    for step in range(num_steps):
        chosen = operations.select_top_k_tokens(step, topk_p, topk_index, hidden_states, scores, topk)
        scores = chosen.next_scores
        choices.append(chosen)
        if step == num_steps - 1:
            break
        drafted = model.draft_step(
            DraftStepBatch(
                req_pool_indices=row,
                input_ids=chosen.input_ids,
                positions=positions + step,
                out_cache_loc=step_cache_loc[step],
                keys=ListedKeys(keys.kv_indices[step], keys.kv_indptr[step], req_to_token.shape[1]),
                hidden_states=chosen.next_hidden_states,
                depth=step + 2,
            ),
            pools.open(Side.DRAFT, step_cache_loc[step]),
        )
        hidden_states = drafted.hidden_states
        topk_p, topk_index = operations.fast_topk(drafted.probabilities, topk)
        topk_index = map_hot(topk_index, model, operations)
    return link(phase, config, choices, verify_slots, operations)


def link(
    phase: DraftInput,
    config: SpecConfig,
    choices: Sequence[SelectTopKTokensOutputs[Array]],
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
    kind: type[VerifyInput] = VerifyInput,
) -> VerifyInput:
    """Build the trees of what every step has chosen; ``kind`` is the class of the verify input."""
    blocks = [[chosen.score_block, chosen.token_block, chosen.parent_block] for chosen in choices]
    score_list, token_list, parents_list = (list(column) for column in zip(*blocks, strict=True))
    kept = (
        operations.organize_chain_draft_results(token_list)
        if config.topk == 1
        else operations.organize_draft_results(score_list, token_list, parents_list, config.num_draft_tokens)
    )
    return _planted(phase, config, kept, verify_slots, operations, kind)


def chain_of(
    phase: DraftInput,
    config: SpecConfig,
    token_list: Sequence[Array],
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
) -> VerifyInput:
    """Build the chains of tokens int64 [request, 1], one a step."""
    kept = operations.organize_chain_draft_results(token_list)
    return _planted(phase, config, kept, verify_slots, operations, VerifyInput)


def _planted(
    phase: DraftInput,
    config: SpecConfig,
    kept: OrganizeChainDraftResultsOutputs[Array] | OrganizeDraftResultsOutputs[Array],
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
    kind: type[VerifyInput],
) -> VerifyInput:
    """Build the trees of the candidates that are kept."""
    tree = operations.build_tree(
        phase.bonus_tokens,
        kept.parent_list,
        kept.top_scores_index,
        kept.draft_tokens,
        phase.seq_lens,
        config.topk,
        config.num_steps,
        config.num_draft_tokens,
    )
    return kind(*tree, verify_slots(), phase.seq_lens, config.num_draft_tokens)


def roots(phase: DraftInput, out_cache_loc: Array, kind: type[VerifyInput] = VerifyInput) -> VerifyInput:
    """Return trees of one node each: the token that was output last, which has no KV yet."""
    num_requests = phase.num_requests
    no_link = np.full((num_requests, 1), -1, dtype=np.int64)
    return kind(
        draft_token=phase.bonus_tokens.astype(np.int64),
        retrieve_index=np.arange(num_requests, dtype=np.int64).reshape(num_requests, 1),
        retrieve_next_token=no_link,
        retrieve_next_sibling=no_link.copy(),
        positions=phase.seq_lens.astype(np.int64),
        tree_mask=np.ones(num_requests, dtype=np.bool_),
        out_cache_loc=out_cache_loc,
        seq_lens=phase.seq_lens,
        num_draft_tokens=ROOTS_PER_TREE,
    )


def map_hot(topk_index: Array, model: Model[Array], operations: Operations[Array]) -> Array:
    """Return target-vocabulary ids of what a draft proposes."""
    hot_token_id = model.description.hot_token_id
    return topk_index if hot_token_id is None else operations.map_hot_tokens(topk_index, hot_token_id)
