# Written by python -m specsim.operations.derived.stub; edit the table instead.

from typing import Any, Generic, NamedTuple, TypeVar

ArrayT = TypeVar("ArrayT")

def outputs_of(operation: str) -> type[Any]: ...

class FastTopkOutputs(NamedTuple, Generic[ArrayT]):
    """What ``fast_topk`` returns."""

    topk_values: ArrayT
    topk_index: ArrayT

class SelectTopKTokensOutputs(NamedTuple, Generic[ArrayT]):
    """What ``select_top_k_tokens`` returns."""

    input_ids: ArrayT
    next_hidden_states: ArrayT | None
    next_scores: ArrayT
    score_block: ArrayT
    token_block: ArrayT
    parent_block: ArrayT

class OrganizeDraftResultsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``organize_draft_results`` returns."""

    parent_list: ArrayT
    top_scores_index: ArrayT
    draft_tokens: ArrayT

class OrganizeChainDraftResultsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``organize_chain_draft_results`` returns."""

    parent_list: ArrayT
    top_scores_index: ArrayT
    draft_tokens: ArrayT

class AssignDraftCacheLocsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``assign_draft_cache_locs`` returns."""

    out_cache_loc: ArrayT
    source_slots: ArrayT
    target_slots: ArrayT

class GenerateDraftDecodeKvIndicesOutputs(NamedTuple, Generic[ArrayT]):
    """What ``generate_draft_decode_kv_indices`` returns."""

    kv_indices: ArrayT
    kv_indptr: ArrayT

class DraftDecodeCascadeMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``draft_decode_cascade_metadata`` returns."""

    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    page_table: ArrayT
    expand_cache_seqlens: ArrayT
    expand_page_table: ArrayT

class BuildTreeOutputs(NamedTuple, Generic[ArrayT]):
    """What ``build_tree`` returns."""

    draft_token: ArrayT
    retrieve_index: ArrayT
    retrieve_next_token: ArrayT
    retrieve_next_sibling: ArrayT
    positions: ArrayT
    tree_mask: ArrayT

class ReconstructIndicesFromTreeMaskOutputs(NamedTuple, Generic[ArrayT]):
    """What ``reconstruct_indices_from_tree_mask`` returns."""

    positions: ArrayT
    retrieve_index: ArrayT
    retrieve_next_token: ArrayT
    retrieve_next_sibling: ArrayT

class PrepareBlockDraftOutputs(NamedTuple, Generic[ArrayT]):
    """What ``prepare_block_draft`` returns."""

    input_ids: ArrayT
    positions: ArrayT

class BlockDraftMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``block_draft_metadata`` returns."""

    window_starts: ArrayT
    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    page_table: ArrayT

class TargetVerifyMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``target_verify_metadata`` returns."""

    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    cu_seqlens_k: ArrayT
    page_table: ArrayT

class VerifyTreeGreedyOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_tree_greedy`` returns."""

    predict: ArrayT
    accept_index: ArrayT
    num_accepted_drafts: ArrayT

class VerifyChainGreedyOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_chain_greedy`` returns."""

    output_tokens: ArrayT
    num_accepted_drafts: ArrayT

class RaggedVerifyWindowOutputs(NamedTuple, Generic[ArrayT]):
    """What ``ragged_verify_window`` returns."""

    qo_indptr: ArrayT
    input_ids: ArrayT
    positions: ArrayT
    out_cache_loc: ArrayT
    window_index: ArrayT

class RaggedVerifyMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``ragged_verify_metadata`` returns."""

    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    cu_seqlens_k: ArrayT
    page_table: ArrayT

class CapAcceptedDraftsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``cap_accepted_drafts`` returns."""

    num_kept_drafts: ArrayT
    cut_tokens: ArrayT
    cap_trim_lens: ArrayT

class CommitInjectLayoutOutputs(NamedTuple, Generic[ArrayT]):
    """What ``commit_inject_layout`` returns."""

    inject_loc: ArrayT
    positions: ArrayT

class VerifyCascadeMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_cascade_metadata`` returns."""

    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    page_table: ArrayT
    expand_cache_seqlens: ArrayT
    expand_page_table: ArrayT

class VerifyCustomMaskMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_custom_mask_metadata`` returns."""

    qo_indptr: ArrayT
    kv_indptr: ArrayT
    kv_indices: ArrayT
    custom_mask: ArrayT

class VerifyExtendMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_extend_metadata`` returns."""

    qo_indptr: ArrayT
    kv_indptr: ArrayT
    kv_indices: ArrayT
    mask_indptr: ArrayT

class IdleAttentionMetadataOutputs(NamedTuple, Generic[ArrayT]):
    """What ``idle_attention_metadata`` returns."""

    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    cu_seqlens_k: ArrayT
    page_table: ArrayT

class TreeAttentionOutputs(NamedTuple, Generic[ArrayT]):
    """What ``tree_attention`` returns."""

    attention: ArrayT
    log_sum_exp: ArrayT

class GenerateCoinsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``generate_coins`` returns."""

    uniform_samples: ArrayT
    uniform_samples_for_final_sampling: ArrayT

class TreeSpeculativeSamplingTargetOnlyOutputs(NamedTuple, Generic[ArrayT]):
    """What ``tree_speculative_sampling_target_only`` returns."""

    predict: ArrayT
    accept_index: ArrayT
    num_accepted_drafts: ArrayT

class ChainSpeculativeSamplingOutputs(NamedTuple, Generic[ArrayT]):
    """What ``chain_speculative_sampling`` returns."""

    output_tokens: ArrayT
    num_accepted_drafts: ArrayT

class ChainBlockVerificationOutputs(NamedTuple, Generic[ArrayT]):
    """What ``chain_block_verification`` returns."""

    output_tokens: ArrayT
    num_accepted_drafts: ArrayT

class GenerateSimulatedAcceptIndexOutputs(NamedTuple, Generic[ArrayT]):
    """What ``generate_simulated_accept_index`` returns."""

    predict: ArrayT
    simulated_accept_index: ArrayT
    num_accepted_drafts: ArrayT

class VerifyTreeGreedyFromLogitsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_tree_greedy_from_logits`` returns."""

    predict: ArrayT
    accept_index: ArrayT
    num_accepted_drafts: ArrayT

class VerifyTreeSampledFromLogitsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``verify_tree_sampled_from_logits`` returns."""

    predict: ArrayT
    accept_index: ArrayT
    num_accepted_drafts: ArrayT

class ChainSpeculativeSamplingFromLogitsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``chain_speculative_sampling_from_logits`` returns."""

    output_tokens: ArrayT
    num_accepted_drafts: ArrayT

class ChainBlockVerificationFromLogitsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``chain_block_verification_from_logits`` returns."""

    output_tokens: ArrayT
    num_accepted_drafts: ArrayT

class GatherOutputLogprobsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``gather_output_logprobs`` returns."""

    output_logprobs: ArrayT
    top_logprobs: ArrayT
    top_tokens: ArrayT
    listed_logprobs: ArrayT

class TranslateMoveSlotsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``translate_move_slots`` returns."""

    swa_target_slots: ArrayT
    swa_source_slots: ArrayT

class GetRecurrentStepsOutputs(NamedTuple, Generic[ArrayT]):
    """What ``get_recurrent_steps`` returns."""

    commit_step: ArrayT
    snapshot_step: ArrayT

class GetSrcTgtCacheLocOutputs(NamedTuple, Generic[ArrayT]):
    """What ``get_src_tgt_cache_loc`` returns."""

    source_slots: ArrayT
    to_free_num_slots: ArrayT

class GetTargetCacheLocOutputs(NamedTuple, Generic[ArrayT]):
    """What ``get_target_cache_loc`` returns."""

    target_slots: ArrayT
    to_free_slots: ArrayT

class PrepareForExtendToFillDraftKvcacheOutputs(NamedTuple, Generic[ArrayT]):
    """What ``prepare_for_extend_to_fill_draft_kvcache`` returns."""

    positions: ArrayT
    forward_seq_lens: ArrayT
    select_index: ArrayT

class CreateExtendAfterDecodeSpecInfoOutputs(NamedTuple, Generic[ArrayT]):
    """What ``create_extend_after_decode_spec_info`` returns."""

    positions: ArrayT
    bonus_tokens: ArrayT

class GenerateAttnArgPrefillOutputs(NamedTuple, Generic[ArrayT]):
    """What ``generate_attn_arg_prefill`` returns."""

    qo_indptr: ArrayT
    kv_indptr: ArrayT
    kv_indices: ArrayT

class AssignNewStateOutputs(NamedTuple, Generic[ArrayT]):
    """What ``assign_new_state`` returns."""

    next_input_ids: ArrayT
    next_positions: ArrayT
    next_out_cache_loc: ArrayT
    next_hidden_states: ArrayT
    next_extend_start_loc: ArrayT
    next_extend_seq_lens: ArrayT

class PrepareForFrozenKvDraftOutputs(NamedTuple, Generic[ArrayT]):
    """What ``prepare_for_frozen_kv_draft`` returns."""

    beam_req_pool_indices: ArrayT
    beam_seq_lens: ArrayT
    positions: ArrayT

class DraftExtendForwardOutputs(NamedTuple, Generic[ArrayT]):
    """What ``draft_extend_forward`` returns."""

    next_hidden_states: ArrayT
    context: ArrayT

class DraftDecodeForwardOutputs(NamedTuple, Generic[ArrayT]):
    """What ``draft_decode_forward`` returns."""

    next_hidden_states: ArrayT
    context: ArrayT

class FrozenKvDraftForwardOutputs(NamedTuple, Generic[ArrayT]):
    """What ``frozen_kv_draft_forward`` returns."""

    next_hidden_states: ArrayT
    foreseen_hidden_states: ArrayT
    context: ArrayT
