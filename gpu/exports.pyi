# Written by python -m specsim.operations.derived.stub; edit the table instead.

from collections.abc import Sequence

import torch

from specsim.operations.outputs import (
    AssignDraftCacheLocsOutputs,
    AssignNewStateOutputs,
    BlockDraftMetadataOutputs,
    BuildTreeOutputs,
    CapAcceptedDraftsOutputs,
    ChainBlockVerificationFromLogitsOutputs,
    ChainBlockVerificationOutputs,
    ChainSpeculativeSamplingFromLogitsOutputs,
    ChainSpeculativeSamplingOutputs,
    CommitInjectLayoutOutputs,
    CreateExtendAfterDecodeSpecInfoOutputs,
    DraftDecodeCascadeMetadataOutputs,
    DraftDecodeForwardOutputs,
    DraftExtendForwardOutputs,
    FastTopkOutputs,
    FrozenKvDraftForwardOutputs,
    GatherOutputLogprobsOutputs,
    GenerateAttnArgPrefillOutputs,
    GenerateCoinsOutputs,
    GenerateDraftDecodeKvIndicesOutputs,
    GenerateSimulatedAcceptIndexOutputs,
    GetRecurrentStepsOutputs,
    GetSrcTgtCacheLocOutputs,
    GetTargetCacheLocOutputs,
    IdleAttentionMetadataOutputs,
    OrganizeChainDraftResultsOutputs,
    OrganizeDraftResultsOutputs,
    PrepareBlockDraftOutputs,
    PrepareForExtendToFillDraftKvcacheOutputs,
    PrepareForFrozenKvDraftOutputs,
    RaggedVerifyMetadataOutputs,
    RaggedVerifyWindowOutputs,
    ReconstructIndicesFromTreeMaskOutputs,
    SelectTopKTokensOutputs,
    TargetVerifyMetadataOutputs,
    TranslateMoveSlotsOutputs,
    TreeAttentionOutputs,
    TreeSpeculativeSamplingTargetOnlyOutputs,
    VerifyCascadeMetadataOutputs,
    VerifyChainGreedyOutputs,
    VerifyCustomMaskMetadataOutputs,
    VerifyExtendMetadataOutputs,
    VerifyTreeGreedyFromLogitsOutputs,
    VerifyTreeGreedyOutputs,
    VerifyTreeSampledFromLogitsOutputs,
)

def align_evict_mask_to_page_size(
    seq_lens: torch.Tensor,
    evict_mask: torch.Tensor,
    num_draft_tokens: int,
    page_size: int,
) -> None:
    """Keep every slot on the page that the kept ones reach, so that whole pages are freed."""

def apply_penalties(
    logits: torch.Tensor,
    token_counts: torch.Tensor,
    draft_token: torch.Tensor,
    tree_mask: torch.Tensor,
    frequency_penalty: torch.Tensor,
    presence_penalty: torch.Tensor,
    repetition_penalty: torch.Tensor,
    num_draft_tokens: int,
    exact: bool = True,
) -> torch.Tensor:
    """Penalise the tokens that a request has output, and in exact mode those on the path to each node too."""

def argmax_target_predict(logits: torch.Tensor) -> torch.Tensor:
    """The target's greedy choice of every row, ties by lower id."""

def assign_draft_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int = 1,
    num_copies: int = 0,
) -> AssignDraftCacheLocsOutputs[torch.Tensor]:
    """Read the slots of the draft entries from the request rows, and list the copies that paged beams need."""

def assign_extend_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    num_locations: int,
) -> torch.Tensor:
    """Read a range of each request's row into flat slots."""

def assign_hidden_states_pool(
    hidden_states: torch.Tensor,
    extend_start_loc: torch.Tensor,
    num_committed: torch.Tensor,
    req_pool_indices: torch.Tensor,
    hidden_states_pool: torch.Tensor,
) -> None:
    """Append the hidden states of committed positions to those that wait for the next windows."""

def assign_new_state(
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    hidden_states: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    next_tokens: torch.Tensor,
    num_padding: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    forward_seq_lens: torch.Tensor,
    hidden_states_pool: torch.Tensor,
    draft_layer: int,
) -> AssignNewStateOutputs[torch.Tensor]:
    """Grow each window by the position before it, and write the token that the layer has proposed."""

def assign_req_to_token_pool(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    """Write flat slots into a range of each request's row."""

def block_draft_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    draft_window: int,
    num_draft_tokens: int,
    page_size: int = 1,
) -> BlockDraftMetadataOutputs[torch.Tensor]:
    """The last positions that a block may see of its text, as a private table of their slots."""

def build_tree(
    bonus_tokens: torch.Tensor,
    parent_list: torch.Tensor,
    top_scores_index: torch.Tensor,
    draft_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    mask_mode: int = 1,
    seq_lens_sum: int = 0,
) -> BuildTreeOutputs[torch.Tensor]:
    """Turn kept candidates into draft tokens, child and sibling links, positions and the visibility mask."""

def cap_accepted_drafts(
    candidates: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    bonus_tokens: torch.Tensor,
    verify_lens: torch.Tensor,
    is_compact: bool = False,
) -> CapAcceptedDraftsOutputs[torch.Tensor]:
    """Cut an acceptance over all drafts to those that were scheduled, and name the token at the cut."""

def chain_block_verification(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_probs: torch.Tensor | None,
    target_probs: torch.Tensor,
    max_num_drafts: int,
) -> ChainBlockVerificationOutputs[torch.Tensor]:
    """Verification of ragged chains whose drafts are judged together, each chain as a block."""

def chain_block_verification_from_logits(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_logits: torch.Tensor | None,
    target_logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    draft_temperature: torch.Tensor,
    max_num_drafts: int,
) -> ChainBlockVerificationFromLogitsOutputs[torch.Tensor]:
    """Verification of ragged chains as blocks from raw logits of target and draft."""

def chain_speculative_sampling(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_probs: torch.Tensor | None,
    target_probs: torch.Tensor,
    max_num_drafts: int,
) -> ChainSpeculativeSamplingOutputs[torch.Tensor]:
    """Rejection sampling of ragged chains against the draft's own probabilities."""

def chain_speculative_sampling_from_logits(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_logits: torch.Tensor | None,
    target_logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    draft_temperature: torch.Tensor,
    max_num_drafts: int,
) -> ChainSpeculativeSamplingFromLogitsOutputs[torch.Tensor]:
    """Rejection sampling of ragged chains from the visited rows of raw logits of target and draft."""

def commit_inject_layout(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    commit_lens: torch.Tensor,
    verify_lens: torch.Tensor | None,
    slot_map: torch.Tensor | None,
    num_draft_tokens: int,
    ring_size: int = 0,
) -> CommitInjectLayoutOutputs[torch.Tensor]:
    """Slots and positions where the committed rows of a verify enter the draft cache; other rows have -1."""

def commit_output_tokens(
    req_pool_indices: torch.Tensor,
    token_counts: torch.Tensor,
    num_output_tokens: torch.Tensor,
    recent_tokens: torch.Tensor,
    accept_index: torch.Tensor,
    predict: torch.Tensor,
    counts_all: torch.Tensor,
) -> None:
    """Add the tokens that a verify committed to what each request's row knows of its output."""

def commit_recurrent_states(
    state_buffers: Sequence[torch.Tensor],
    step_buffers: Sequence[torch.Tensor],
    state_slots: torch.Tensor,
    commit_step: torch.Tensor,
    snapshot_slots: torch.Tensor,
    snapshot_step: torch.Tensor,
) -> None:
    """Copy of every component the states after two nodes of each request, the last and that of a snapshot."""

def compact_accepted_to_front(values: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Bring the entries of the accepted path to the front of each request's block."""

def create_extend_after_decode_spec_info(
    input_ids: torch.Tensor,
    seq_lens: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
) -> CreateExtendAfterDecodeSpecInfoOutputs[torch.Tensor]:
    """Positions of a ragged draft-extend, and each request's last token, from which the next draft starts."""

def create_num_accepted_drafts_filter(
    num_accepted_drafts: torch.Tensor,
    unfinished_index: torch.Tensor,
    seq_lens: torch.Tensor,
) -> torch.Tensor:
    """Advance every length by its accepted tokens, and count them once more for unfinished requests alone."""

def draft_decode_cascade_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int,
    max_prefix_len: int,
) -> DraftDecodeCascadeMetadataOutputs[torch.Tensor]:
    """Two passes in whole pages: all beams over the prefix, then every beam over its own pages."""

def draft_decode_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
) -> DraftDecodeForwardOutputs[torch.Tensor]:
    """The draft model over one new token a beam, each beam with its own list of slots."""

def draft_extend_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    page_size: int = 1,
) -> DraftExtendForwardOutputs[torch.Tensor]:
    """The draft model over several new tokens a request, causal."""

def fast_topk(values: torch.Tensor, k: int) -> FastTopkOutputs[torch.Tensor]:
    """Pick the k largest entries of each row, ties by lower index."""

def fill_accept_out_cache_loc(accept_index: torch.Tensor, out_cache_loc: torch.Tensor) -> torch.Tensor:
    """List the slots of the accepted nodes, packed to the front; the tail is dump slot 0."""

def fill_accept_target_cache_loc(
    num_accepted_tokens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    num_steps: int,
) -> torch.Tensor:
    """List the slots that the accepted nodes move to, packed like their sources."""

def fill_block_tokens(
    candidates: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    bonus_tokens: torch.Tensor,
) -> torch.Tensor:
    """Shift each block left by one and write the bonus token after its accepted drafts."""

def fill_bonus_tokens(accept_tokens: torch.Tensor, num_accepted_tokens: torch.Tensor) -> torch.Tensor:
    """Pick the last output token of each request."""

def filter_finished_cache_loc(
    target_slots: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    num_unfinished_tokens: torch.Tensor,
    num_locations: int,
) -> torch.Tensor:
    """Keep the slots of unfinished requests in a list that is cut by accepted tokens."""

def forbid_tokens(
    draft_token: torch.Tensor,
    tree_mask: torch.Tensor,
    num_output_tokens: torch.Tensor,
    min_tokens: torch.Tensor,
    stop_mask: torch.Tensor,
    recent_tokens: torch.Tensor,
    bad_words: torch.Tensor,
    num_draft_tokens: int,
    vocab_size: int,
) -> torch.Tensor:
    """Pack the tokens that may follow each node: no stop before its time, and no end of a bad word."""

def frozen_kv_draft_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    target_layers: torch.Tensor,
    depth: int,
) -> FrozenKvDraftForwardOutputs[torch.Tensor]:
    """The draft model over one new token a beam, whose layers read the target's KV and write none."""

def gather_accept_tokens(predict: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Read the output tokens along each accepted path; entries past the path are 0."""

def gather_output_logprobs(
    logits: torch.Tensor,
    accept_index: torch.Tensor,
    predict: torch.Tensor,
    temperature: torch.Tensor | None,
    token_ids: torch.Tensor,
    num_top: int,
    is_clamped: bool = True,
) -> GatherOutputLogprobsOutputs[torch.Tensor]:
    """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones."""

def generate_attn_arg_prefill(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    kv_lens: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    kv_lens_sum: int,
) -> GenerateAttnArgPrefillOutputs[torch.Tensor]:
    """Attention metadata of a ragged draft-extend: the queries of each request, and the slots they see."""

def generate_coins(
    seeds: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
) -> GenerateCoinsOutputs[torch.Tensor]:
    """Coins of a verify, each a hash of the request's seed, its length and a column."""

def generate_draft_decode_kv_indices(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    positions: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int = 1,
) -> GenerateDraftDecodeKvIndicesOutputs[torch.Tensor]:
    """List, for every step and beam, the slots that the beam attends to: the prefix and its own entries."""

def generate_simulated_accept_index(
    accept_index: torch.Tensor,
    simulated_num_tokens: int,
    num_draft_tokens: int,
) -> GenerateSimulatedAcceptIndexOutputs[torch.Tensor]:
    """Pretend that every request accepted the same number of tokens along its first nodes."""

def generate_token_bitmask(
    transitions: torch.Tensor,
    is_terminated: torch.Tensor,
    candidates: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    grammar_state: torch.Tensor,
) -> torch.Tensor:
    """Walk each tree with its request's grammar and pack the tokens that may follow each reached node."""

def get_recurrent_steps(
    accept_index: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    interval: int,
) -> GetRecurrentStepsOutputs[torch.Tensor]:
    """Find the node whose state is committed, and the one whose state is kept for shared prefixes."""

def get_src_tgt_cache_loc(
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accept_indices: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    num_draft_tokens: int,
    page_size: int,
) -> GetSrcTgtCacheLocOutputs[torch.Tensor]:
    """List the slots of accepted nodes, and count the slots after the last page that they need."""

def get_target_cache_loc(
    num_accepted_drafts: torch.Tensor,
    to_free_num_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
    num_draft_tokens: int,
    num_target_slots: int,
    num_to_free_slots: int,
) -> GetTargetCacheLocOutputs[torch.Tensor]:
    """List the slots at the front of each verify window, where accepted nodes go, and those that are freed."""

def hash_draft_probabilities(
    hidden_states: torch.Tensor,
    context: torch.Tensor,
    vocab_size: int,
    seed: int,
    agreement: int,
) -> torch.Tensor:
    """Dyadic draft probabilities that agree with the hash model's target at a given rate."""

def hash_sampling_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Whole-number logits of the hash model for sampling: each token half as probable as the one before."""

def hash_target_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Tie-free integer logits of the hash model's target."""

def idle_attention_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_new_keys: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> IdleAttentionMetadataOutputs[torch.Tensor]:
    """Lengths and page table of dummy rows, one query each: what an idle rank runs its forwards on."""

def keep_top_k_exactly(logits: torch.Tensor, top_k: torch.Tensor, num_draft_tokens: int) -> torch.Tensor:
    """Keep the k largest logits of a row, ties by lower id, unless some request keeps the whole vocabulary."""

def map_hot_tokens(topk_index: torch.Tensor, hot_token_id: torch.Tensor) -> torch.Tensor:
    """Map draft-vocabulary ids to target-vocabulary ids."""

def min_p_renorm(probabilities: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """Keep the tokens that are at least a share as probable as the most probable one, and renormalise."""

def move_indexer_cache(
    indexer_buffers: Sequence[torch.Tensor],
    target_slots: torch.Tensor,
    source_slots: torch.Tensor,
    head_dim: int,
) -> None:
    """Copy key and scale of slots in every indexer buffer, all read before any is written."""

def move_kv_cache(kv_buffers: Sequence[torch.Tensor], target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    """Copy slots of every buffer as if all sources were read before any target is written."""

def organize_chain_draft_results(token_list: Sequence[torch.Tensor]) -> OrganizeChainDraftResultsOutputs[torch.Tensor]:
    """The same for topk 1, where nothing is pruned."""

def organize_draft_results(
    score_list: Sequence[torch.Tensor],
    token_list: Sequence[torch.Tensor],
    parents_list: Sequence[torch.Tensor],
    num_draft_tokens: int,
) -> OrganizeDraftResultsOutputs[torch.Tensor]:
    """Keep the N-1 best candidates of all depths, in flat-id order, with the parents' flat ids."""

def pad_verify_lens_to_bucket(
    verify_lens: torch.Tensor,
    num_padded_requests: int,
    num_tokens: int,
    max_verify_len: int = 2147483647,
) -> torch.Tensor:
    """Give the rows that a captured graph has left to its padding requests, or else to the last request."""

def per_step_draft_out_cache_loc(out_cache_loc: torch.Tensor, topk: int, num_steps: int) -> torch.Tensor:
    """Turn request-major draft slots into one row a step."""

def prepare_block_draft(
    bonus_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    mask_token: int,
    num_draft_tokens: int,
) -> PrepareBlockDraftOutputs[torch.Tensor]:
    """Tokens and positions of the block that is drafted at once: the bonus token, then masks."""

def prepare_for_extend_to_fill_draft_kvcache(
    seq_lens: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    num_draft_tokens: int,
) -> PrepareForExtendToFillDraftKvcacheOutputs[torch.Tensor]:
    """Positions, forward lengths and the selected row of a fixed-width draft-extend."""

def prepare_for_frozen_kv_draft(
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
) -> PrepareForFrozenKvDraftOutputs[torch.Tensor]:
    """Rows, lengths and positions of a draft that reads the target's KV, one copy a beam."""

def prepare_logits(
    logits: torch.Tensor,
    scaling_penalty: torch.Tensor | None,
    additive_penalty: torch.Tensor | None,
    logit_bias: torch.Tensor | None,
    vocab_mask: torch.Tensor | None,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Apply the additive and the scaling penalty, bias and grammar mask, in this order, to every request."""

def ragged_verify_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    verify_lens: torch.Tensor,
    max_seq_len_k: int,
    page_size: int = 1,
) -> RaggedVerifyMetadataOutputs[torch.Tensor]:
    """Lengths and page table of a verify forward in which every request has as many rows as are verified."""

def ragged_verify_window(
    candidates: torch.Tensor,
    verify_lens: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_tokens: int,
) -> RaggedVerifyWindowOutputs[torch.Tensor]:
    """Tokens, positions and slots of the rows that are verified, one request after another, then padding."""

def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    seq_lens: torch.Tensor,
) -> ReconstructIndicesFromTreeMaskOutputs[torch.Tensor]:
    """Recover positions and links from an ancestor matrix."""

def remap_accepted_slots(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accept_index: torch.Tensor,
) -> torch.Tensor:
    """Point each request's next positions at the slots of its accepted nodes, and mark the other slots."""

def rotate_input_ids(
    input_ids: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    next_tokens: torch.Tensor,
    select_index: torch.Tensor | None = None,
) -> None:
    """Shift the ids of each request left by one, and write its next token at the end or at a given place."""

def rotate_prefill_input_ids(
    input_ids: torch.Tensor,
    extend_lens: torch.Tensor,
    tail_tokens: torch.Tensor,
) -> torch.Tensor:
    """Shift each prompt left by one and append its tail token: the draft model's prefill input."""

def sample_target_predict(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """Draw a token from every row by a race on the noise of the request's seed and the token's position."""

def scatter_compact_to_strided(values: torch.Tensor, verify_lens: torch.Tensor, num_draft_tokens: int) -> torch.Tensor:
    """Bring the verified rows of each request to its block of a whole tree's rows; the rest is 0."""

def schedule_verify_lens(
    confidence: torch.Tensor,
    num_drafts: torch.Tensor | None,
    survival_eps: torch.Tensor | None,
    verify_token_budget: int,
    max_verify_len: int,
    min_verify_len: int = 1,
) -> torch.Tensor:
    """Admit the drafts that most probably survive, of all requests together, within a budget."""

def select_last_verified(num_accepted_tokens: torch.Tensor) -> torch.Tensor:
    """The row of each request's last token among the ragged rows of a verify."""

def select_top_k_tokens(
    step_index: int,
    topk_p: torch.Tensor,
    topk_index: torch.Tensor,
    hidden_states: torch.Tensor | None,
    scores: torch.Tensor | None,
    topk: int,
) -> SelectTopKTokensOutputs[torch.Tensor]:
    """Choose the beams of the next depth by cumulative score and emit the tree blocks of this depth."""

def target_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    tree_mask: torch.Tensor | None = None,
    page_size: int = 1,
) -> torch.Tensor:
    """Write the target KV of the new tokens, then fold what each of them may see into its hidden state."""

def target_probabilities(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Temperature, softmax, top-k, top-p and min-p of the rows of every request; temperature 0 is one-hot."""

def target_verify_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_tokens: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> TargetVerifyMetadataOutputs[torch.Tensor]:
    """Lengths and page table of a verify forward; tokens per request are derived, not configured."""

def text_draft_probabilities(
    hidden_states: torch.Tensor,
    context: torch.Tensor,
    ngram_counts: torch.Tensor,
) -> torch.Tensor:
    """Dyadic draft probabilities from lower-order n-gram counts."""

def text_target_logits(hidden_states: torch.Tensor, ngram_counts: torch.Tensor) -> torch.Tensor:
    """Back-off n-gram logits of the text model's target."""

def top_k_renorm(probabilities: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Keep the k most probable tokens of a row, ties at the threshold included, and renormalise."""

def top_p_renorm(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the most probable tokens whose mass reaches p, ties at the threshold included, and renormalise."""

def translate_move_slots(
    target_slots: torch.Tensor,
    source_slots: torch.Tensor,
    full_to_swa: torch.Tensor,
) -> TranslateMoveSlotsOutputs[torch.Tensor]:
    """Find the pairs of a move in the window's pool; slots without a counterpart are the dump there."""

def tree_attention(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    cache_seqlens: torch.Tensor,
    page_table: torch.Tensor,
    tree_mask: torch.Tensor,
    softmax_scale: torch.Tensor | None,
    num_draft_tokens: int,
    page_size: int = 1,
) -> TreeAttentionOutputs[torch.Tensor]:
    """Attend from every node to the prefix in pages and, of the window, to the nodes that it sees."""

def tree_speculative_sampling_target_only(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: torch.Tensor,
    threshold_acc: torch.Tensor,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> TreeSpeculativeSamplingTargetOnlyOutputs[torch.Tensor]:
    """Walk each tree by chance: one coin a node, shared by its children, against the target's running mass."""

def verify_cascade_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    max_prefix_len: int,
    page_size: int = 1,
) -> VerifyCascadeMetadataOutputs[torch.Tensor]:
    """Two passes: all nodes over the prefix, then every node alone over the nodes that it sees."""

def verify_chain_greedy(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    target_predict: torch.Tensor,
    max_num_drafts: int,
) -> VerifyChainGreedyOutputs[torch.Tensor]:
    """Accept ragged chains as long as each draft is the target's greedy choice."""

def verify_custom_mask_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> VerifyCustomMaskMetadataOutputs[torch.Tensor]:
    """One pass over prefix and window under the full mask, which padded rows extend by visible entries."""

def verify_extend_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> VerifyExtendMetadataOutputs[torch.Tensor]:
    """Keys of the prefix alone; the window's own keys go through the mask, whose offsets are given."""

def verify_tree_greedy(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
    num_steps: int,
) -> VerifyTreeGreedyOutputs[torch.Tensor]:
    """Walk each tree along the target's greedy choices and record the accepted path."""

def verify_tree_greedy_from_logits(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    logits: torch.Tensor,
    num_steps: int,
) -> VerifyTreeGreedyFromLogitsOutputs[torch.Tensor]:
    """Greedy acceptance from raw logits: the composition of the argmax and the greedy walk."""

def verify_tree_sampled_from_logits(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    threshold_single: torch.Tensor,
    threshold_acc: torch.Tensor,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> VerifyTreeSampledFromLogitsOutputs[torch.Tensor]:
    """Sampled acceptance from raw logits: the composition of temperature, filters and the tree sampler."""

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
