# Written by python -m specsim.operations.derived.stub; edit the table instead.

from collections.abc import Sequence
from typing import Protocol, TypeVar

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

ArrayT = TypeVar("ArrayT")

class Operations(Protocol[ArrayT]):
    """The public operations."""

    def fast_topk(self, values: ArrayT, k: int) -> FastTopkOutputs[ArrayT]:
        """Pick the k largest entries of each row, ties by lower index."""

    def select_top_k_tokens(
        self,
        step_index: int,
        topk_p: ArrayT,
        topk_index: ArrayT,
        hidden_states: ArrayT | None,
        scores: ArrayT | None,
        topk: int,
    ) -> SelectTopKTokensOutputs[ArrayT]:
        """Choose the beams of the next depth by cumulative score and emit the tree blocks of this depth."""

    def organize_draft_results(
        self,
        score_list: Sequence[ArrayT],
        token_list: Sequence[ArrayT],
        parents_list: Sequence[ArrayT],
        num_draft_tokens: int,
    ) -> OrganizeDraftResultsOutputs[ArrayT]:
        """Keep the N-1 best candidates of all depths, in flat-id order, with the parents' flat ids."""

    def organize_chain_draft_results(self, token_list: Sequence[ArrayT]) -> OrganizeChainDraftResultsOutputs[ArrayT]:
        """The same for topk 1, where nothing is pruned."""

    def map_hot_tokens(self, topk_index: ArrayT, hot_token_id: ArrayT) -> ArrayT:
        """Map draft-vocabulary ids to target-vocabulary ids."""

    def assign_draft_cache_locs(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        topk: int,
        num_steps: int,
        page_size: int = 1,
        num_copies: int = 0,
    ) -> AssignDraftCacheLocsOutputs[ArrayT]:
        """Read the slots of the draft entries from the request rows, and list the copies that paged beams need."""

    def per_step_draft_out_cache_loc(self, out_cache_loc: ArrayT, topk: int, num_steps: int) -> ArrayT:
        """Turn request-major draft slots into one row a step."""

    def generate_draft_decode_kv_indices(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        positions: ArrayT,
        topk: int,
        num_steps: int,
        page_size: int = 1,
    ) -> GenerateDraftDecodeKvIndicesOutputs[ArrayT]:
        """List, for every step and beam, the slots that the beam attends to: the prefix and its own entries."""

    def draft_decode_cascade_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        topk: int,
        num_steps: int,
        page_size: int,
        max_prefix_len: int,
    ) -> DraftDecodeCascadeMetadataOutputs[ArrayT]:
        """Two passes in whole pages: all beams over the prefix, then every beam over its own pages."""

    def build_tree(
        self,
        bonus_tokens: ArrayT,
        parent_list: ArrayT,
        top_scores_index: ArrayT,
        draft_tokens: ArrayT,
        seq_lens: ArrayT,
        topk: int,
        num_steps: int,
        num_draft_tokens: int,
        mask_mode: int = 1,
        seq_lens_sum: int = 0,
    ) -> BuildTreeOutputs[ArrayT]:
        """Turn kept candidates into draft tokens, child and sibling links, positions and the visibility mask."""

    def reconstruct_indices_from_tree_mask(
        self,
        tree_mask: ArrayT,
        seq_lens: ArrayT,
    ) -> ReconstructIndicesFromTreeMaskOutputs[ArrayT]:
        """Recover positions and links from an ancestor matrix."""

    def prepare_block_draft(
        self,
        bonus_tokens: ArrayT,
        seq_lens: ArrayT,
        mask_token: int,
        num_draft_tokens: int,
    ) -> PrepareBlockDraftOutputs[ArrayT]:
        """Tokens and positions of the block that is drafted at once: the bonus token, then masks."""

    def block_draft_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        draft_window: int,
        num_draft_tokens: int,
        page_size: int = 1,
    ) -> BlockDraftMetadataOutputs[ArrayT]:
        """The last positions that a block may see of its text, as a private table of their slots."""

    def keep_top_k_exactly(self, logits: ArrayT, top_k: ArrayT, num_draft_tokens: int) -> ArrayT:
        """Keep the k largest logits of a row, ties by lower id, unless some request keeps the whole vocabulary."""

    def fill_block_tokens(self, candidates: ArrayT, num_accepted_drafts: ArrayT, bonus_tokens: ArrayT) -> ArrayT:
        """Shift each block left by one and write the bonus token after its accepted drafts."""

    def target_verify_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        num_tokens: int,
        max_seq_len_k: int,
        page_size: int = 1,
    ) -> TargetVerifyMetadataOutputs[ArrayT]:
        """Lengths and page table of a verify forward; tokens per request are derived, not configured."""

    def argmax_target_predict(self, logits: ArrayT) -> ArrayT:
        """The target's greedy choice of every row, ties by lower id."""

    def verify_tree_greedy(
        self,
        candidates: ArrayT,
        retrieve_index: ArrayT,
        retrieve_next_token: ArrayT,
        retrieve_next_sibling: ArrayT,
        target_predict: ArrayT,
        num_steps: int,
    ) -> VerifyTreeGreedyOutputs[ArrayT]:
        """Walk each tree along the target's greedy choices and record the accepted path."""

    def verify_chain_greedy(
        self,
        draft_tokens: ArrayT,
        cu_num_drafts: ArrayT,
        target_predict: ArrayT,
        max_num_drafts: int,
    ) -> VerifyChainGreedyOutputs[ArrayT]:
        """Accept ragged chains as long as each draft is the target's greedy choice."""

    def schedule_verify_lens(
        self,
        confidence: ArrayT,
        num_drafts: ArrayT | None,
        survival_eps: ArrayT | None,
        verify_token_budget: int,
        max_verify_len: int,
        min_verify_len: int = 1,
    ) -> ArrayT:
        """Admit the drafts that most probably survive, of all requests together, within a budget."""

    def ragged_verify_window(
        self,
        candidates: ArrayT,
        verify_lens: ArrayT,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        num_tokens: int,
    ) -> RaggedVerifyWindowOutputs[ArrayT]:
        """Tokens, positions and slots of the rows that are verified, one request after another, then padding."""

    def pad_verify_lens_to_bucket(
        self,
        verify_lens: ArrayT,
        num_padded_requests: int,
        num_tokens: int,
        max_verify_len: int = 2147483647,
    ) -> ArrayT:
        """Give the rows that a captured graph has left to its padding requests, or else to the last request."""

    def scatter_compact_to_strided(self, values: ArrayT, verify_lens: ArrayT, num_draft_tokens: int) -> ArrayT:
        """Bring the verified rows of each request to its block of a whole tree's rows; the rest is 0."""

    def ragged_verify_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        verify_lens: ArrayT,
        max_seq_len_k: int,
        page_size: int = 1,
    ) -> RaggedVerifyMetadataOutputs[ArrayT]:
        """Lengths and page table of a verify forward in which every request has as many rows as are verified."""

    def cap_accepted_drafts(
        self,
        candidates: ArrayT,
        num_accepted_drafts: ArrayT,
        bonus_tokens: ArrayT,
        verify_lens: ArrayT,
        is_compact: bool = False,
    ) -> CapAcceptedDraftsOutputs[ArrayT]:
        """Cut an acceptance over all drafts to those that were scheduled, and name the token at the cut."""

    def commit_inject_layout(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        commit_lens: ArrayT,
        verify_lens: ArrayT | None,
        slot_map: ArrayT | None,
        num_draft_tokens: int,
        ring_size: int = 0,
    ) -> CommitInjectLayoutOutputs[ArrayT]:
        """Slots and positions where the committed rows of a verify enter the draft cache; other rows have -1."""

    def verify_cascade_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        tree_mask: ArrayT,
        num_draft_tokens: int,
        max_prefix_len: int,
        page_size: int = 1,
    ) -> VerifyCascadeMetadataOutputs[ArrayT]:
        """Two passes: all nodes over the prefix, then every node alone over the nodes that it sees."""

    def verify_custom_mask_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        tree_mask: ArrayT,
        num_draft_tokens: int,
        seq_lens_sum: int,
    ) -> VerifyCustomMaskMetadataOutputs[ArrayT]:
        """One pass over prefix and window under the full mask, which padded rows extend by visible entries."""

    def verify_extend_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        num_draft_tokens: int,
        seq_lens_sum: int,
    ) -> VerifyExtendMetadataOutputs[ArrayT]:
        """Keys of the prefix alone; the window's own keys go through the mask, whose offsets are given."""

    def idle_attention_metadata(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        num_new_keys: int,
        max_seq_len_k: int,
        page_size: int = 1,
    ) -> IdleAttentionMetadataOutputs[ArrayT]:
        """Lengths and page table of dummy rows, one query each: what an idle rank runs its forwards on."""

    def tree_attention(
        self,
        q: ArrayT,
        k_buffer: ArrayT,
        v_buffer: ArrayT,
        cache_seqlens: ArrayT,
        page_table: ArrayT,
        tree_mask: ArrayT,
        softmax_scale: ArrayT | None,
        num_draft_tokens: int,
        page_size: int = 1,
    ) -> TreeAttentionOutputs[ArrayT]:
        """Attend from every node to the prefix in pages and, of the window, to the nodes that it sees."""

    def generate_token_bitmask(
        self,
        transitions: ArrayT,
        is_terminated: ArrayT,
        candidates: ArrayT,
        retrieve_next_token: ArrayT,
        retrieve_next_sibling: ArrayT,
        grammar_state: ArrayT,
    ) -> ArrayT:
        """Walk each tree with its request's grammar and pack the tokens that may follow each reached node."""

    def apply_penalties(
        self,
        logits: ArrayT,
        token_counts: ArrayT,
        draft_token: ArrayT,
        tree_mask: ArrayT,
        frequency_penalty: ArrayT,
        presence_penalty: ArrayT,
        repetition_penalty: ArrayT,
        num_draft_tokens: int,
        exact: bool = True,
    ) -> ArrayT:
        """Penalise the tokens that a request has output, and in exact mode those on the path to each node too."""

    def forbid_tokens(
        self,
        draft_token: ArrayT,
        tree_mask: ArrayT,
        num_output_tokens: ArrayT,
        min_tokens: ArrayT,
        stop_mask: ArrayT,
        recent_tokens: ArrayT,
        bad_words: ArrayT,
        num_draft_tokens: int,
        vocab_size: int,
    ) -> ArrayT:
        """Pack the tokens that may follow each node: no stop before its time, and no end of a bad word."""

    def commit_output_tokens(
        self,
        req_pool_indices: ArrayT,
        token_counts: ArrayT,
        num_output_tokens: ArrayT,
        recent_tokens: ArrayT,
        accept_index: ArrayT,
        predict: ArrayT,
        counts_all: ArrayT,
    ) -> None:
        """Add the tokens that a verify committed to what each request's row knows of its output."""

    def prepare_logits(
        self,
        logits: ArrayT,
        scaling_penalty: ArrayT | None,
        additive_penalty: ArrayT | None,
        logit_bias: ArrayT | None,
        vocab_mask: ArrayT | None,
        num_draft_tokens: int,
    ) -> ArrayT:
        """Apply the additive and the scaling penalty, bias and grammar mask, in this order, to every request."""

    def top_k_renorm(self, probabilities: ArrayT, top_k: ArrayT) -> ArrayT:
        """Keep the k most probable tokens of a row, ties at the threshold included, and renormalise."""

    def top_p_renorm(self, probabilities: ArrayT, top_p: ArrayT) -> ArrayT:
        """Keep the most probable tokens whose mass reaches p, ties at the threshold included, and renormalise."""

    def min_p_renorm(self, probabilities: ArrayT, min_p: ArrayT) -> ArrayT:
        """Keep the tokens that are at least a share as probable as the most probable one, and renormalise."""

    def target_probabilities(
        self,
        logits: ArrayT,
        temperature: ArrayT,
        top_k: ArrayT,
        top_p: ArrayT,
        min_p: ArrayT,
        num_draft_tokens: int,
    ) -> ArrayT:
        """Temperature, softmax, top-k, top-p and min-p of the rows of every request; temperature 0 is one-hot."""

    def generate_coins(self, seeds: ArrayT, seq_lens: ArrayT, num_draft_tokens: int) -> GenerateCoinsOutputs[ArrayT]:
        """Coins of a verify, each a hash of the request's seed, its length and a column."""

    def tree_speculative_sampling_target_only(
        self,
        candidates: ArrayT,
        retrieve_index: ArrayT,
        retrieve_next_token: ArrayT,
        retrieve_next_sibling: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        target_probs: ArrayT,
        draft_probs: ArrayT,
        threshold_single: ArrayT,
        threshold_acc: ArrayT,
        num_steps: int,
        strict: bool = True,
        skip_duplicates: bool = True,
    ) -> TreeSpeculativeSamplingTargetOnlyOutputs[ArrayT]:
        """Walk each tree by chance: one coin a node, shared by its children, against the target's running mass."""

    def chain_speculative_sampling(
        self,
        draft_tokens: ArrayT,
        cu_num_drafts: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        draft_probs: ArrayT | None,
        target_probs: ArrayT,
        max_num_drafts: int,
    ) -> ChainSpeculativeSamplingOutputs[ArrayT]:
        """Rejection sampling of ragged chains against the draft's own probabilities."""

    def chain_block_verification(
        self,
        draft_tokens: ArrayT,
        cu_num_drafts: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        draft_probs: ArrayT | None,
        target_probs: ArrayT,
        max_num_drafts: int,
    ) -> ChainBlockVerificationOutputs[ArrayT]:
        """Verification of ragged chains whose drafts are judged together, each chain as a block."""

    def generate_simulated_accept_index(
        self,
        accept_index: ArrayT,
        simulated_num_tokens: int,
        num_draft_tokens: int,
    ) -> GenerateSimulatedAcceptIndexOutputs[ArrayT]:
        """Pretend that every request accepted the same number of tokens along its first nodes."""

    def verify_tree_greedy_from_logits(
        self,
        candidates: ArrayT,
        retrieve_index: ArrayT,
        retrieve_next_token: ArrayT,
        retrieve_next_sibling: ArrayT,
        logits: ArrayT,
        num_steps: int,
    ) -> VerifyTreeGreedyFromLogitsOutputs[ArrayT]:
        """Greedy acceptance from raw logits: the composition of the argmax and the greedy walk."""

    def verify_tree_sampled_from_logits(
        self,
        candidates: ArrayT,
        retrieve_index: ArrayT,
        retrieve_next_token: ArrayT,
        retrieve_next_sibling: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        logits: ArrayT,
        temperature: ArrayT,
        top_k: ArrayT | None,
        top_p: ArrayT | None,
        min_p: ArrayT | None,
        threshold_single: ArrayT,
        threshold_acc: ArrayT,
        num_steps: int,
        strict: bool = True,
        skip_duplicates: bool = True,
    ) -> VerifyTreeSampledFromLogitsOutputs[ArrayT]:
        """Sampled acceptance from raw logits: the composition of temperature, filters and the tree sampler."""

    def chain_speculative_sampling_from_logits(
        self,
        draft_tokens: ArrayT,
        cu_num_drafts: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        draft_logits: ArrayT | None,
        target_logits: ArrayT,
        temperature: ArrayT,
        top_k: ArrayT | None,
        top_p: ArrayT | None,
        min_p: ArrayT | None,
        draft_temperature: ArrayT,
        max_num_drafts: int,
    ) -> ChainSpeculativeSamplingFromLogitsOutputs[ArrayT]:
        """Rejection sampling of ragged chains from the visited rows of raw logits of target and draft."""

    def chain_block_verification_from_logits(
        self,
        draft_tokens: ArrayT,
        cu_num_drafts: ArrayT,
        uniform_samples: ArrayT,
        uniform_samples_for_final_sampling: ArrayT,
        draft_logits: ArrayT | None,
        target_logits: ArrayT,
        temperature: ArrayT,
        top_k: ArrayT | None,
        top_p: ArrayT | None,
        min_p: ArrayT | None,
        draft_temperature: ArrayT,
        max_num_drafts: int,
    ) -> ChainBlockVerificationFromLogitsOutputs[ArrayT]:
        """Verification of ragged chains as blocks from raw logits of target and draft."""

    def sample_target_predict(
        self,
        logits: ArrayT,
        temperature: ArrayT,
        top_k: ArrayT,
        top_p: ArrayT,
        min_p: ArrayT,
        seeds: ArrayT,
        positions: ArrayT,
    ) -> ArrayT:
        """Draw a token from every row by a race on the noise of the request's seed and the token's position."""

    def gather_output_logprobs(
        self,
        logits: ArrayT,
        accept_index: ArrayT,
        predict: ArrayT,
        temperature: ArrayT | None,
        token_ids: ArrayT,
        num_top: int,
        is_clamped: bool = True,
    ) -> GatherOutputLogprobsOutputs[ArrayT]:
        """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones."""

    def gather_accept_tokens(self, predict: ArrayT, accept_index: ArrayT) -> ArrayT:
        """Read the output tokens along each accepted path; entries past the path are 0."""

    def fill_bonus_tokens(self, accept_tokens: ArrayT, num_accepted_tokens: ArrayT) -> ArrayT:
        """Pick the last output token of each request."""

    def fill_accept_out_cache_loc(self, accept_index: ArrayT, out_cache_loc: ArrayT) -> ArrayT:
        """List the slots of the accepted nodes, packed to the front; the tail is dump slot 0."""

    def fill_accept_target_cache_loc(
        self,
        num_accepted_tokens: ArrayT,
        out_cache_loc: ArrayT,
        num_steps: int,
    ) -> ArrayT:
        """List the slots that the accepted nodes move to, packed like their sources."""

    def compact_accepted_to_front(self, values: ArrayT, accept_index: ArrayT) -> ArrayT:
        """Bring the entries of the accepted path to the front of each request's block."""

    def move_kv_cache(self, kv_buffers: Sequence[ArrayT], target_slots: ArrayT, source_slots: ArrayT) -> None:
        """Copy slots of every buffer as if all sources were read before any target is written."""

    def move_indexer_cache(
        self,
        indexer_buffers: Sequence[ArrayT],
        target_slots: ArrayT,
        source_slots: ArrayT,
        head_dim: int,
    ) -> None:
        """Copy key and scale of slots in every indexer buffer, all read before any is written."""

    def translate_move_slots(
        self,
        target_slots: ArrayT,
        source_slots: ArrayT,
        full_to_swa: ArrayT,
    ) -> TranslateMoveSlotsOutputs[ArrayT]:
        """Find the pairs of a move in the window's pool; slots without a counterpart are the dump there."""

    def get_recurrent_steps(
        self,
        accept_index: ArrayT,
        num_accepted_tokens: ArrayT,
        seq_lens: ArrayT,
        num_draft_tokens: int,
        interval: int,
    ) -> GetRecurrentStepsOutputs[ArrayT]:
        """Find the node whose state is committed, and the one whose state is kept for shared prefixes."""

    def commit_recurrent_states(
        self,
        state_buffers: Sequence[ArrayT],
        step_buffers: Sequence[ArrayT],
        state_slots: ArrayT,
        commit_step: ArrayT,
        snapshot_slots: ArrayT,
        snapshot_step: ArrayT,
    ) -> None:
        """Copy of every component the states after two nodes of each request, the last and that of a snapshot."""

    def assign_req_to_token_pool(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        start_offsets: ArrayT,
        end_offsets: ArrayT,
        out_cache_loc: ArrayT,
    ) -> None:
        """Write flat slots into a range of each request's row."""

    def assign_extend_cache_locs(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        start_offsets: ArrayT,
        end_offsets: ArrayT,
        num_locations: int,
    ) -> ArrayT:
        """Read a range of each request's row into flat slots."""

    def remap_accepted_slots(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        seq_lens: ArrayT,
        out_cache_loc: ArrayT,
        accept_index: ArrayT,
    ) -> ArrayT:
        """Point each request's next positions at the slots of its accepted nodes, and mark the other slots."""

    def align_evict_mask_to_page_size(
        self,
        seq_lens: ArrayT,
        evict_mask: ArrayT,
        num_draft_tokens: int,
        page_size: int,
    ) -> None:
        """Keep every slot on the page that the kept ones reach, so that whole pages are freed."""

    def get_src_tgt_cache_loc(
        self,
        seq_lens: ArrayT,
        out_cache_loc: ArrayT,
        accept_indices: ArrayT,
        num_accepted_drafts: ArrayT,
        num_draft_tokens: int,
        page_size: int,
    ) -> GetSrcTgtCacheLocOutputs[ArrayT]:
        """List the slots of accepted nodes, and count the slots after the last page that they need."""

    def get_target_cache_loc(
        self,
        num_accepted_drafts: ArrayT,
        to_free_num_slots: ArrayT,
        out_cache_loc: ArrayT,
        num_draft_tokens: int,
        num_target_slots: int,
        num_to_free_slots: int,
    ) -> GetTargetCacheLocOutputs[ArrayT]:
        """List the slots at the front of each verify window, where accepted nodes go, and those that are freed."""

    def create_num_accepted_drafts_filter(
        self,
        num_accepted_drafts: ArrayT,
        unfinished_index: ArrayT,
        seq_lens: ArrayT,
    ) -> ArrayT:
        """Advance every length by its accepted tokens, and count them once more for unfinished requests alone."""

    def filter_finished_cache_loc(
        self,
        target_slots: ArrayT,
        num_accepted_drafts: ArrayT,
        num_unfinished_tokens: ArrayT,
        num_locations: int,
    ) -> ArrayT:
        """Keep the slots of unfinished requests in a list that is cut by accepted tokens."""

    def rotate_prefill_input_ids(self, input_ids: ArrayT, extend_lens: ArrayT, tail_tokens: ArrayT) -> ArrayT:
        """Shift each prompt left by one and append its tail token: the draft model's prefill input."""

    def prepare_for_extend_to_fill_draft_kvcache(
        self,
        seq_lens: ArrayT,
        num_accepted_tokens: ArrayT,
        num_draft_tokens: int,
    ) -> PrepareForExtendToFillDraftKvcacheOutputs[ArrayT]:
        """Positions, forward lengths and the selected row of a fixed-width draft-extend."""

    def create_extend_after_decode_spec_info(
        self,
        input_ids: ArrayT,
        seq_lens: ArrayT,
        num_accepted_tokens: ArrayT,
    ) -> CreateExtendAfterDecodeSpecInfoOutputs[ArrayT]:
        """Positions of a ragged draft-extend, and each request's last token, from which the next draft starts."""

    def generate_attn_arg_prefill(
        self,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        kv_lens: ArrayT,
        num_accepted_tokens: ArrayT,
        kv_lens_sum: int,
    ) -> GenerateAttnArgPrefillOutputs[ArrayT]:
        """Attention metadata of a ragged draft-extend: the queries of each request, and the slots they see."""

    def rotate_input_ids(
        self,
        input_ids: ArrayT,
        extend_start_loc: ArrayT,
        extend_seq_lens: ArrayT,
        next_tokens: ArrayT,
        select_index: ArrayT | None = None,
    ) -> None:
        """Shift the ids of each request left by one, and write its next token at the end or at a given place."""

    def assign_new_state(
        self,
        input_ids: ArrayT,
        positions: ArrayT,
        out_cache_loc: ArrayT,
        hidden_states: ArrayT,
        extend_start_loc: ArrayT,
        extend_seq_lens: ArrayT,
        next_tokens: ArrayT,
        num_padding: ArrayT,
        req_pool_indices: ArrayT,
        req_to_token: ArrayT,
        forward_seq_lens: ArrayT,
        hidden_states_pool: ArrayT,
        draft_layer: int,
    ) -> AssignNewStateOutputs[ArrayT]:
        """Grow each window by the position before it, and write the token that the layer has proposed."""

    def assign_hidden_states_pool(
        self,
        hidden_states: ArrayT,
        extend_start_loc: ArrayT,
        num_committed: ArrayT,
        req_pool_indices: ArrayT,
        hidden_states_pool: ArrayT,
    ) -> None:
        """Append the hidden states of committed positions to those that wait for the next windows."""

    def prepare_for_frozen_kv_draft(
        self,
        req_pool_indices: ArrayT,
        seq_lens: ArrayT,
        topk: int,
    ) -> PrepareForFrozenKvDraftOutputs[ArrayT]:
        """Rows, lengths and positions of a draft that reads the target's KV, one copy a beam."""

    def select_last_verified(self, num_accepted_tokens: ArrayT) -> ArrayT:
        """The row of each request's last token among the ragged rows of a verify."""

class ModelOperations(Protocol[ArrayT]):
    """The operations of the toy models."""

    def target_forward(
        self,
        kv_buffers: Sequence[ArrayT],
        input_ids: ArrayT,
        positions: ArrayT,
        out_cache_loc: ArrayT,
        page_table: ArrayT,
        cache_seqlens: ArrayT,
        cu_seqlens_q: ArrayT,
        tree_mask: ArrayT | None = None,
        page_size: int = 1,
    ) -> ArrayT:
        """Write the target KV of the new tokens, then fold what each of them may see into its hidden state."""

    def draft_extend_forward(
        self,
        kv_buffers: Sequence[ArrayT],
        input_ids: ArrayT,
        hidden_states: ArrayT,
        positions: ArrayT,
        out_cache_loc: ArrayT,
        page_table: ArrayT,
        cache_seqlens: ArrayT,
        cu_seqlens_q: ArrayT,
        page_size: int = 1,
    ) -> DraftExtendForwardOutputs[ArrayT]:
        """The draft model over several new tokens a request, causal."""

    def draft_decode_forward(
        self,
        kv_buffers: Sequence[ArrayT],
        input_ids: ArrayT,
        hidden_states: ArrayT,
        positions: ArrayT,
        out_cache_loc: ArrayT,
        kv_indices: ArrayT,
        kv_indptr: ArrayT,
    ) -> DraftDecodeForwardOutputs[ArrayT]:
        """The draft model over one new token a beam, each beam with its own list of slots."""

    def frozen_kv_draft_forward(
        self,
        kv_buffers: Sequence[ArrayT],
        input_ids: ArrayT,
        hidden_states: ArrayT,
        positions: ArrayT,
        kv_indices: ArrayT,
        kv_indptr: ArrayT,
        target_layers: ArrayT,
        depth: int,
    ) -> FrozenKvDraftForwardOutputs[ArrayT]:
        """The draft model over one new token a beam, whose layers read the target's KV and write none."""

    def hash_target_logits(self, hidden_states: ArrayT, vocab_size: int, seed: int) -> ArrayT:
        """Tie-free integer logits of the hash model's target."""

    def text_target_logits(self, hidden_states: ArrayT, ngram_counts: ArrayT) -> ArrayT:
        """Back-off n-gram logits of the text model's target."""

    def hash_sampling_logits(self, hidden_states: ArrayT, vocab_size: int, seed: int) -> ArrayT:
        """Whole-number logits of the hash model for sampling: each token half as probable as the one before."""

    def hash_draft_probabilities(
        self,
        hidden_states: ArrayT,
        context: ArrayT,
        vocab_size: int,
        seed: int,
        agreement: int,
    ) -> ArrayT:
        """Dyadic draft probabilities that agree with the hash model's target at a given rate."""

    def text_draft_probabilities(self, hidden_states: ArrayT, context: ArrayT, ngram_counts: ArrayT) -> ArrayT:
        """Dyadic draft probabilities from lower-order n-gram counts."""
