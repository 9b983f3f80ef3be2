"""One decode iteration on the device: draft, verify, compact, extend, without a host synchronisation.

Everything here can be captured in a CUDA graph: sizes come from the batch and the configuration, lengths are tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.counts import count_tokens
from specsim.gpu.worker.sampling import DeviceSampling
from specsim.phases import DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
from specsim.simulation.models.language_models import HashModel, LanguageModel

Layout = tuple[Tensor, Tensor, Tensor, Tensor]
Phases = tuple[DraftInput, VerifyInput, VerifyOutput, DraftExtendInput]


@dataclass(frozen=True)
class DeviceModel:
    """The heads of a language model, with its tables on the device.

    ``target_predict`` takes hidden states [token, hidden] and returns int64 [token]; ``propose`` takes hidden states,
    draft context and depth and returns float32 probabilities [token, draft_vocab]; ``sampling_logits`` returns float32
    [token, vocab], for models that can be sampled.
    """

    target_predict: Callable[[Tensor], Tensor]
    propose: Callable[[Tensor, Tensor, int], Tensor]
    hot_token_id: Tensor | None
    sampling_logits: Callable[[Tensor], Tensor] | None = None

    def map_hot(self, topk_index: Tensor) -> Tensor:
        """Return target-vocabulary ids."""
        return topk_index if self.hot_token_id is None else gpu.map_hot_tokens(topk_index, self.hot_token_id)

    def logits_for_sampling(self, hidden_states: Tensor) -> Tensor:
        """Return logits of a model that can be sampled."""
        return require_present("logits for sampling", self.sampling_logits)(hidden_states)


def load_model(model: LanguageModel, device: torch.device) -> DeviceModel:
    """Bring a language model's tables to the device."""
    hot = None if model.hot_token_id is None else torch.tensor(model.hot_token_id, device=device)

    def cut(probabilities: Tensor) -> Tensor:
        return probabilities if hot is None else probabilities.index_select(1, hot)

    if isinstance(model, HashModel):
        return DeviceModel(
            target_predict=lambda hidden: gpu.argmax_target_predict(
                gpu.hash_target_logits(hidden, model.vocab_size, model.seed)
            ),
            propose=lambda hidden, context, depth: cut(
                gpu.hash_draft_probabilities(hidden, context, model.vocab_size, model.seed, model.agreement_at(depth))
            ),
            hot_token_id=hot,
            sampling_logits=lambda hidden: gpu.hash_sampling_logits(hidden, model.vocab_size, model.seed),
        )
    target_counts = torch.tensor(model.target_counts, device=device)
    draft_counts = torch.tensor(model.draft_counts, device=device)
    return DeviceModel(
        target_predict=lambda hidden: gpu.argmax_target_predict(gpu.text_target_logits(hidden, target_counts)),
        propose=lambda hidden, context, depth: cut(gpu.text_draft_probabilities(hidden, context, draft_counts)),
        hot_token_id=hot,
    )


class DeviceState:
    """Everything that a request carries between iterations, by request row; row 0 absorbs padding."""

    def __init__(self, config: SpecConfig, model: LanguageModel, sizes: PoolSizes, device: torch.device) -> None:
        rows, topk = sizes.num_rows, config.topk
        words = model.num_target_layers + 1
        self.req_to_token = torch.zeros((rows, sizes.row_width), dtype=torch.int32, device=device)
        self.seq_lens = torch.ones(rows, dtype=torch.int64, device=device)
        self.bonus_tokens = torch.zeros(rows, dtype=torch.int32, device=device)
        self.topk_p = torch.zeros((rows, topk), dtype=torch.float32, device=device)
        self.topk_index = torch.zeros((rows, topk), dtype=torch.int64, device=device)
        self.hidden_states = torch.zeros((rows, words), dtype=torch.int64, device=device)
        self.target_kv = gpu.KVBuffers(_pool(2 * model.num_target_layers, sizes, device))
        self.draft_kv = gpu.KVBuffers(_pool(2 * model.num_draft_layers, sizes, device))

    def stash(
        self, rows: Tensor, seq_lens: Tensor, bonus_tokens: Tensor, topk: tuple[Tensor, Tensor], hidden_states: Tensor
    ) -> None:
        """Keep what starts the next draft; the padding row keeps its length of 1."""
        self.seq_lens.index_copy_(0, rows, seq_lens)
        self.seq_lens[:1].fill_(1)
        self.bonus_tokens.index_copy_(0, rows, bonus_tokens)
        self.topk_p.index_copy_(0, rows, topk[0])
        self.topk_index.index_copy_(0, rows, topk[1])
        self.hidden_states.index_copy_(0, rows, hidden_states)

    def draft_input(self, rows: Tensor) -> DraftInput:
        """Gather what starts the draft of a batch."""
        return DraftInput(
            req_pool_indices=rows,
            seq_lens=self.seq_lens.index_select(0, rows),
            topk_p=self.topk_p.index_select(0, rows),
            topk_index=self.topk_index.index_select(0, rows),
            hidden_states=self.hidden_states.index_select(0, rows),
            bonus_tokens=self.bonus_tokens.index_select(0, rows),
        )


def _pool(count: int, sizes: PoolSizes, device: torch.device) -> Sequence[Tensor]:
    return [torch.full((sizes.num_slots, 4), -1, dtype=torch.int64, device=device) for _ in range(count)]


def run_iteration(
    rows: Tensor, config: SpecConfig, model: DeviceModel, state: DeviceState, sampling: DeviceSampling | None = None
) -> Phases:
    """Run one iteration for the request rows of a batch, int64 [request]; padding rows are 0.

    Without ``sampling`` every request is greedy.
    """
    draft_input = state.draft_input(rows)
    verify_input = run_draft(draft_input, config, model, state)
    num_tokens = verify_input.draft_token.shape[0]
    cache_seqlens, cu_seqlens_q, _, page_table = gpu.target_verify_metadata(
        rows, state.req_to_token, verify_input.seq_lens, num_tokens, state.req_to_token.shape[1], 1
    )
    layout = (verify_input.out_cache_loc, page_table, cache_seqlens, cu_seqlens_q)
    verify_output = run_verify(rows, verify_input, config, model, state, layout, sampling)
    extend_input = run_compact(verify_input, verify_output, config, state)
    next_hidden_states, context = gpu.draft_extend_forward(
        state.draft_kv, extend_input.input_ids, extend_input.hidden_states, extend_input.positions, *layout
    )
    select = extend_input.select_index
    hidden_states = next_hidden_states.index_select(0, select)
    proposal = gpu.fast_topk(model.propose(hidden_states, context.index_select(0, select), 1), config.topk)
    new_seq_lens = verify_input.seq_lens + extend_input.num_accepted_tokens
    state.stash(rows, new_seq_lens, verify_output.bonus_tokens, proposal, hidden_states)
    return draft_input, verify_input, verify_output, extend_input


def run_draft(phase: DraftInput, config: SpecConfig, model: DeviceModel, state: DeviceState) -> VerifyInput:
    """Draft a tree for every request (semantics A.4) and read the verify window."""
    rows, seq_lens, req_to_token = phase.req_pool_indices, phase.seq_lens, state.req_to_token
    topk, num_steps, width = config.topk, config.num_steps, config.num_draft_tokens
    positions = seq_lens.repeat_interleave(topk)
    out_cache_loc = gpu.assign_draft_cache_locs(rows, req_to_token, seq_lens, topk, num_steps)
    step_cache_loc = gpu.per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps)
    kv_indices, kv_indptr = gpu.generate_draft_decode_kv_indices(
        rows, req_to_token, seq_lens, positions, topk, num_steps
    )
    topk_p, topk_index, hidden_states = phase.topk_p, model.map_hot(phase.topk_index), phase.hidden_states
    scores: Tensor | None = None
    score_list, token_list, parents_list = [], [], []
    for step in range(num_steps):
        input_ids, hidden_states, scores, score_block, token_block, parent_block = gpu.select_top_k_tokens(
            step, topk_p, topk_index, hidden_states, scores, topk
        )
        score_list.append(score_block)
        token_list.append(token_block)
        parents_list.append(parent_block)
        if step < num_steps - 1:
            hidden_states = require_present("hidden_states of a draft", hidden_states)
            hidden_states, context = gpu.draft_decode_forward(
                state.draft_kv, input_ids, hidden_states, positions + step, step_cache_loc[step],
                kv_indices[step], kv_indptr[step],
            )  # fmt: skip
            topk_p, topk_index = gpu.fast_topk(model.propose(hidden_states, context, step + 2), topk)
            topk_index = model.map_hot(topk_index)
    kept = (
        gpu.organize_chain_draft_results(token_list)
        if topk == 1
        else gpu.organize_draft_results(score_list, token_list, parents_list, width)
    )
    tree = gpu.build_tree(phase.bonus_tokens, *kept, seq_lens, topk, num_steps, width)
    window = gpu.assign_extend_cache_locs(rows, req_to_token, seq_lens, seq_lens + width, rows.shape[0] * width)
    return VerifyInput(*tree, window, seq_lens, width)


def run_verify(
    rows: Tensor,
    phase: VerifyInput,
    config: SpecConfig,
    model: DeviceModel,
    state: DeviceState,
    layout: Layout,
    sampling: DeviceSampling | None = None,
) -> VerifyOutput:
    """Run the target over the trees and accept: greedily, or by chance where a request is sampled."""
    hidden_states = gpu.target_forward(state.target_kv, phase.draft_token, phase.positions, *layout, phase.tree_mask)
    target_predict = model.target_predict(hidden_states)
    shape = phase.retrieve_index.shape
    links = (
        phase.draft_token.view(shape),
        phase.retrieve_index,
        phase.retrieve_next_token,
        phase.retrieve_next_sibling,
    )
    if sampling is None:
        accepted = gpu.verify_tree_greedy(*links, target_predict.view(shape), config.num_steps)
    else:
        logits = model.logits_for_sampling(hidden_states)
        accepted = sampling.accept(rows, links, phase.seq_lens, logits, target_predict, config.num_steps)
    predict, accept_index, num_accepted_drafts = accepted
    num_accepted_tokens = count_tokens(num_accepted_drafts)
    accept_tokens = gpu.gather_accept_tokens(predict, accept_index)
    return VerifyOutput(
        target_predict=target_predict,
        predict=predict,
        accept_index=accept_index,
        num_accepted_drafts=num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        bonus_tokens=gpu.fill_bonus_tokens(accept_tokens, num_accepted_tokens),
        hidden_states=hidden_states,
    )


def run_compact(
    verify_input: VerifyInput, phase: VerifyOutput, config: SpecConfig, state: DeviceState
) -> DraftExtendInput:
    """Bring KV, tokens and hidden states of the accepted path to the front; a chain already has them there."""
    predict, hidden_states = phase.predict, phase.hidden_states
    if config.topk > 1:
        source_slots = gpu.fill_accept_out_cache_loc(phase.accept_index, verify_input.out_cache_loc)
        target_slots = gpu.fill_accept_target_cache_loc(
            phase.num_accepted_tokens, verify_input.out_cache_loc, config.num_steps
        )
        gpu.move_kv_cache(state.target_kv, target_slots, source_slots)
        predict = gpu.compact_accepted_to_front(predict, phase.accept_index)
        hidden_states = gpu.compact_accepted_to_front(hidden_states, phase.accept_index)
    positions, forward_seq_lens, select_index = gpu.prepare_for_extend_to_fill_draft_kvcache(
        verify_input.seq_lens, phase.num_accepted_tokens, config.num_draft_tokens
    )
    return DraftExtendInput(
        input_ids=predict.long(),
        hidden_states=hidden_states,
        positions=positions,
        out_cache_loc=verify_input.out_cache_loc,
        forward_seq_lens=forward_seq_lens,
        num_accepted_drafts=phase.num_accepted_drafts,
        num_accepted_tokens=phase.num_accepted_tokens,
        select_index=select_index,
        num_draft_tokens=config.num_draft_tokens,
    )
