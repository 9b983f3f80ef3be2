"""From what the steps of a draft have chosen to the trees that the target verifies."""

from collections.abc import Callable, Sequence
from typing import Any

from specsim.config import SpecConfig
from specsim.counts import ROOTS_PER_TREE
from specsim.operations.outputs import BuildTreeOutputs, SelectTopKTokensOutputs
from specsim.operations.protocol import Operations
from specsim.phases import DraftInput, VerifyInput
from specsim.simulation.draft_sides.layer import ArrayLibrary

VerifySlots = Callable[[], Any]
"""Returns int64 [request*node], the slots that the target will write; called when the trees are built."""


def choose_beams(
    step_index: int,
    probabilities: Any,
    hot_token_id: Any,
    hidden_states: Any,
    scores: Any,
    topk: int,
    operations: Operations[Any],
) -> SelectTopKTokensOutputs[Any]:
    """Choose the beams of the next depth from what a step proposes, in ids of the target."""
    topk_p, topk_index = operations.fast_topk(probabilities, topk)
    if hot_token_id is not None:
        topk_index = operations.map_hot_tokens(topk_index, hot_token_id)
    return operations.select_top_k_tokens(step_index, topk_p, topk_index, hidden_states, scores, topk)


def plant_trees(
    bonus_tokens: Any,
    choices: Sequence[SelectTopKTokensOutputs[Any]],
    seq_lens: Any,
    config: SpecConfig,
    operations: Operations[Any],
) -> BuildTreeOutputs[Any]:
    """Build the trees of what every step has chosen."""
    kept = operations.organize_draft_results(*lists_of(choices), config.num_draft_tokens)
    sizes = config.topk, config.num_steps, config.num_draft_tokens
    return operations.build_tree(bonus_tokens, *kept, seq_lens, *sizes)


def lists_of(choices: Sequence[SelectTopKTokensOutputs[Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return scores, tokens and parents of every step."""
    return (
        [chosen.score_block for chosen in choices],
        [chosen.token_block for chosen in choices],
        [chosen.parent_block for chosen in choices],
    )


def link(
    phase: DraftInput,
    config: SpecConfig,
    choices: Sequence[SelectTopKTokensOutputs[Any]],
    verify_slots: VerifySlots,
    operations: Operations[Any],
    arrays: ArrayLibrary,
    kind: type[VerifyInput] = VerifyInput,
) -> VerifyInput:
    """Build the trees of what every step has chosen; ``kind`` is the class of the verify input."""
    if config.topk == 1:
        return chain_of(phase, config, lists_of(choices)[1], verify_slots, operations, kind)
    tree = arrays.plant_trees(phase.bonus_tokens, choices, phase.seq_lens, config, operations)
    return kind(*tree, verify_slots(), phase.seq_lens, config.num_draft_tokens)


def chain_of(
    phase: DraftInput,
    config: SpecConfig,
    token_list: Sequence[Any],
    verify_slots: VerifySlots,
    operations: Operations[Any],
    kind: type[VerifyInput] = VerifyInput,
) -> VerifyInput:
    """Build the chains of tokens int64 [request, 1], one a step."""
    kept = operations.organize_chain_draft_results(token_list)
    sizes = config.topk, config.num_steps, config.num_draft_tokens
    tree = operations.build_tree(phase.bonus_tokens, *kept, phase.seq_lens, *sizes)
    return kind(*tree, verify_slots(), phase.seq_lens, config.num_draft_tokens)


def roots(
    phase: DraftInput, out_cache_loc: Any, arrays: ArrayLibrary, kind: type[VerifyInput] = VerifyInput
) -> VerifyInput:
    """Return trees of one node each: the token that was output last, which has no KV yet."""
    num_requests = phase.num_requests
    no_link = arrays.full((num_requests, 1), -1, "int64")
    return kind(
        draft_token=arrays.astype(phase.bonus_tokens, "int64"),
        retrieve_index=arrays.arange(num_requests).reshape(num_requests, 1),
        retrieve_next_token=no_link,
        retrieve_next_sibling=arrays.copy(no_link),
        positions=arrays.copy(phase.seq_lens),
        tree_mask=arrays.full((num_requests,), True, "bool"),
        out_cache_loc=out_cache_loc,
        seq_lens=phase.seq_lens,
        num_draft_tokens=ROOTS_PER_TREE,
    )
