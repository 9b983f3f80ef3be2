# Written by python -m specsim.operations.derived.stub; edit the table instead.
"""Every operation of ``specsim.reference``, from the module of its group."""

from specsim.reference.acceptance import (
    chain_block_verification,
    chain_speculative_sampling,
    generate_coins,
    generate_simulated_accept_index,
    tree_speculative_sampling_target_only,
)
from specsim.reference.attention import (
    idle_attention_metadata,
    tree_attention,
    verify_cascade_metadata,
    verify_custom_mask_metadata,
    verify_extend_metadata,
)
from specsim.reference.compact import (
    compact_accepted_to_front,
    fill_accept_out_cache_loc,
    fill_accept_target_cache_loc,
    fill_bonus_tokens,
    gather_accept_tokens,
    move_kv_cache,
)
from specsim.reference.dflash import block_draft_metadata, fill_block_tokens, keep_top_k_exactly, prepare_block_draft
from specsim.reference.draft import (
    fast_topk,
    map_hot_tokens,
    organize_chain_draft_results,
    organize_draft_results,
    select_top_k_tokens,
)
from specsim.reference.draft_cache import (
    assign_draft_cache_locs,
    draft_decode_cascade_metadata,
    generate_draft_decode_kv_indices,
    per_step_draft_out_cache_loc,
)
from specsim.reference.extend import (
    create_extend_after_decode_spec_info,
    generate_attn_arg_prefill,
    prepare_for_extend_to_fill_draft_kvcache,
    rotate_prefill_input_ids,
)
from specsim.reference.following import commit_output_tokens, forbid_tokens
from specsim.reference.from_logits import (
    chain_block_verification_from_logits,
    chain_speculative_sampling_from_logits,
    verify_tree_greedy_from_logits,
    verify_tree_sampled_from_logits,
)
from specsim.reference.frozen_kv import prepare_for_frozen_kv_draft, select_last_verified
from specsim.reference.grammar import generate_token_bitmask
from specsim.reference.logprobs import gather_output_logprobs
from specsim.reference.models.forwards import draft_decode_forward, draft_extend_forward, target_forward
from specsim.reference.models.frozen_forwards import frozen_kv_draft_forward
from specsim.reference.models.heads import (
    hash_draft_probabilities,
    hash_sampling_logits,
    hash_target_logits,
    text_draft_probabilities,
    text_target_logits,
)
from specsim.reference.multi_layer import assign_hidden_states_pool, assign_new_state, rotate_input_ids
from specsim.reference.pages import (
    align_evict_mask_to_page_size,
    create_num_accepted_drafts_filter,
    filter_finished_cache_loc,
    get_src_tgt_cache_loc,
    get_target_cache_loc,
)
from specsim.reference.penalties import apply_penalties
from specsim.reference.pools import move_indexer_cache, translate_move_slots
from specsim.reference.probabilities import (
    min_p_renorm,
    prepare_logits,
    target_probabilities,
    top_k_renorm,
    top_p_renorm,
)
from specsim.reference.recurrent import commit_recurrent_states, get_recurrent_steps
from specsim.reference.sampled_verify import sample_target_predict
from specsim.reference.scheduled import (
    cap_accepted_drafts,
    commit_inject_layout,
    pad_verify_lens_to_bucket,
    ragged_verify_metadata,
    ragged_verify_window,
    scatter_compact_to_strided,
    schedule_verify_lens,
)
from specsim.reference.slots import assign_extend_cache_locs, assign_req_to_token_pool, remap_accepted_slots
from specsim.reference.tree import build_tree, reconstruct_indices_from_tree_mask
from specsim.reference.verify import (
    argmax_target_predict,
    target_verify_metadata,
    verify_chain_greedy,
    verify_tree_greedy,
)

__all__ = [
    "align_evict_mask_to_page_size",
    "apply_penalties",
    "argmax_target_predict",
    "assign_draft_cache_locs",
    "assign_extend_cache_locs",
    "assign_hidden_states_pool",
    "assign_new_state",
    "assign_req_to_token_pool",
    "block_draft_metadata",
    "build_tree",
    "cap_accepted_drafts",
    "chain_block_verification",
    "chain_block_verification_from_logits",
    "chain_speculative_sampling",
    "chain_speculative_sampling_from_logits",
    "commit_inject_layout",
    "commit_output_tokens",
    "commit_recurrent_states",
    "compact_accepted_to_front",
    "create_extend_after_decode_spec_info",
    "create_num_accepted_drafts_filter",
    "draft_decode_cascade_metadata",
    "draft_decode_forward",
    "draft_extend_forward",
    "fast_topk",
    "fill_accept_out_cache_loc",
    "fill_accept_target_cache_loc",
    "fill_block_tokens",
    "fill_bonus_tokens",
    "filter_finished_cache_loc",
    "forbid_tokens",
    "frozen_kv_draft_forward",
    "gather_accept_tokens",
    "gather_output_logprobs",
    "generate_attn_arg_prefill",
    "generate_coins",
    "generate_draft_decode_kv_indices",
    "generate_simulated_accept_index",
    "generate_token_bitmask",
    "get_recurrent_steps",
    "get_src_tgt_cache_loc",
    "get_target_cache_loc",
    "hash_draft_probabilities",
    "hash_sampling_logits",
    "hash_target_logits",
    "idle_attention_metadata",
    "keep_top_k_exactly",
    "map_hot_tokens",
    "min_p_renorm",
    "move_indexer_cache",
    "move_kv_cache",
    "organize_chain_draft_results",
    "organize_draft_results",
    "pad_verify_lens_to_bucket",
    "per_step_draft_out_cache_loc",
    "prepare_block_draft",
    "prepare_for_extend_to_fill_draft_kvcache",
    "prepare_for_frozen_kv_draft",
    "prepare_logits",
    "ragged_verify_metadata",
    "ragged_verify_window",
    "reconstruct_indices_from_tree_mask",
    "remap_accepted_slots",
    "rotate_input_ids",
    "rotate_prefill_input_ids",
    "sample_target_predict",
    "scatter_compact_to_strided",
    "schedule_verify_lens",
    "select_last_verified",
    "select_top_k_tokens",
    "target_forward",
    "target_probabilities",
    "target_verify_metadata",
    "text_draft_probabilities",
    "text_target_logits",
    "top_k_renorm",
    "top_p_renorm",
    "translate_move_slots",
    "tree_attention",
    "tree_speculative_sampling_target_only",
    "verify_cascade_metadata",
    "verify_chain_greedy",
    "verify_custom_mask_metadata",
    "verify_extend_metadata",
    "verify_tree_greedy",
    "verify_tree_greedy_from_logits",
    "verify_tree_sampled_from_logits",
]
