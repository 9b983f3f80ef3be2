"""The V2 worker in NumPy: EAGLE with a chain or a tree, page size 1.

It calls every operation through a backend, so that the same loop runs on the oracle, on a foreign implementation, or
on an implementation with a planted fault.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.backend import Backend, Completed, load
from specsim.config import PoolSizes, SpecConfig
from specsim.counts import count_tokens
from specsim.phases import DraftExtendInput, DraftInput, Phase, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.arrays import Array
from specsim.reference.choices import Heads
from specsim.reference.drafting import draft
from specsim.simulation.language_models import LanguageModel
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.worker import Iteration

TAG_WORDS = 4


class ReferenceWorker:
    """Draft, verify, compact and extend, one obvious step after another.

    Parameters
    ----------
    config : SpecConfig
        Branching factor, depth and width of the trees.
    model : LanguageModel
        Target and draft.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : Backend or Completed, optional
        Who computes; the oracle by default.
    """

    name = "reference"

    def __init__(
        self, config: SpecConfig, model: LanguageModel, sizes: PoolSizes, operations: Backend | Completed | None = None
    ) -> None:
        self.config = config
        self.model = model
        self.sizes = sizes
        self.device = "cpu"
        self._operations = operations or load("specsim.reference")
        self._heads = Heads(model, config.topk, self._call)
        num_words = model.num_target_layers + 1
        self.req_to_token = np.zeros((sizes.num_rows, sizes.row_width), dtype=np.int32)
        self.target_kv = [empty_buffer(sizes) for _ in range(2 * model.num_target_layers)]
        self.draft_kv = [empty_buffer(sizes) for _ in range(2 * model.num_draft_layers)]
        self.seq_lens = np.zeros(sizes.num_rows, dtype=np.int64)
        self.bonus_tokens = np.zeros(sizes.num_rows, dtype=np.int32)
        self.topk_p = np.zeros((sizes.num_rows, config.topk), dtype=np.float32)
        self.topk_index = np.zeros((sizes.num_rows, config.topk), dtype=np.int64)
        self.hidden_states = np.zeros((sizes.num_rows, num_words), dtype=np.int64)
        self._phases: tuple[Phase, ...] = ()

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._call(
            "assign_req_to_token_pool",
            req_pool_indices=np.array([given.row for given in ranges], dtype=np.int64),
            req_to_token=self.req_to_token,
            start_offsets=np.array([given.start for given in ranges], dtype=np.int64),
            end_offsets=np.array([given.end for given in ranges], dtype=np.int64),
            out_cache_loc=np.array([slot for given in ranges for slot in given.slots], dtype=np.int64),
        )

    def prefill(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[int]:
        """Run the prompts of new requests through target and draft; return the first output tokens."""
        row = np.array(rows, dtype=np.int64)
        lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int32)
        input_ids = np.array([token for prompt in prompts for token in prompt], dtype=np.int64)
        positions = np.concatenate([np.arange(length, dtype=np.int64) for length in lengths])
        layout = {
            "positions": positions,
            "out_cache_loc": self._call(
                "assign_extend_cache_locs",
                req_pool_indices=row,
                req_to_token=self.req_to_token,
                start_offsets=np.zeros_like(lengths),
                end_offsets=lengths,
                num_locations=len(input_ids),
            ),
            "page_table": self.req_to_token[row, : lengths.max()],
            "cache_seqlens": lengths,
            "cu_seqlens_q": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "page_size": 1,
        }
        hidden_states = self._call(
            "target_forward", kv_buffers=self.target_kv, input_ids=input_ids, tree_mask=None, **layout
        )
        last = np.cumsum(lengths) - 1
        first_tokens = self._heads.target_predict(hidden_states[last])
        rotated = self._call(
            "rotate_prefill_input_ids", input_ids=input_ids, extend_lens=lengths, tail_tokens=first_tokens
        )
        next_hidden_states, context = self._call(
            "draft_extend_forward",
            kv_buffers=self.draft_kv,
            input_ids=rotated,
            hidden_states=hidden_states,
            **layout,
        )
        self._stash(row, lengths, first_tokens.astype(np.int32), next_hidden_states[last], context[last])
        return [int(token) for token in first_tokens]

    def decode(self, rows: Sequence[int]) -> Iteration:
        """Run one iteration: draft, verify, compact, extend."""
        row = np.array(rows, dtype=np.int64)
        draft_input = DraftInput(
            req_pool_indices=row,
            seq_lens=self.seq_lens[row],
            topk_p=self.topk_p[row],
            topk_index=self.topk_index[row],
            hidden_states=self.hidden_states[row],
            bonus_tokens=self.bonus_tokens[row],
        )
        verify_input = draft(draft_input, self.config, self._heads, self.req_to_token, self.draft_kv, self._call)
        verify_output = self._verify(row, verify_input)
        extend_input = self._compact(verify_input, verify_output)
        self._extend(row, verify_input, verify_output, extend_input)
        self._phases = (draft_input, verify_input, verify_output, extend_input)
        width = self.config.num_draft_tokens
        return Iteration(
            tokens=extend_input.input_ids.astype(np.int32).reshape(len(row), width),
            num_accepted_drafts=verify_output.num_accepted_drafts,
            num_accepted_tokens=verify_output.num_accepted_tokens,
        )

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the carried state by name."""
        return {
            "req_to_token": self.req_to_token,
            "target_kv": self.target_kv,
            "draft_kv": self.draft_kv,
            "seq_lens": self.seq_lens,
            "bonus_tokens": self.bonus_tokens,
            "topk_p": self.topk_p,
            "topk_index": self.topk_index,
            "hidden_states": self.hidden_states,
        }

    def _verify(self, row: Array, phase: VerifyInput) -> VerifyOutput:
        expect_phase(phase, PhaseTag.EAGLE_VERIFY)
        cache_seqlens, cu_seqlens_q, _, page_table = self._metadata(row, phase)
        hidden_states = self._call(
            "target_forward",
            kv_buffers=self.target_kv,
            input_ids=phase.draft_token,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            page_table=page_table,
            cache_seqlens=cache_seqlens,
            cu_seqlens_q=cu_seqlens_q,
            tree_mask=phase.tree_mask,
            page_size=1,
        )
        target_predict = self._heads.target_predict(hidden_states)
        shape = phase.retrieve_index.shape
        predict, accept_index, num_accepted_drafts = self._call(
            "verify_tree_greedy",
            candidates=phase.draft_token.reshape(shape),
            retrieve_index=phase.retrieve_index,
            retrieve_next_token=phase.retrieve_next_token,
            retrieve_next_sibling=phase.retrieve_next_sibling,
            target_predict=target_predict.reshape(shape),
            num_steps=self.config.num_steps,
        )
        num_accepted_tokens = count_tokens(num_accepted_drafts)
        accept_tokens = self._call("gather_accept_tokens", predict=predict, accept_index=accept_index)
        bonus_tokens = self._call(
            "fill_bonus_tokens", accept_tokens=accept_tokens, num_accepted_tokens=num_accepted_tokens
        )
        return VerifyOutput(
            target_predict=target_predict,
            predict=predict,
            accept_index=accept_index,
            num_accepted_drafts=num_accepted_drafts,
            num_accepted_tokens=num_accepted_tokens,
            bonus_tokens=bonus_tokens,
            hidden_states=hidden_states,
        )

    def _compact(self, verify_input: VerifyInput, phase: VerifyOutput) -> DraftExtendInput:
        expect_phase(phase, PhaseTag.EAGLE_VERIFY_OUTPUT)
        predict, hidden_states = phase.predict, phase.hidden_states
        if self.config.topk > 1:
            source_slots = self._call(
                "fill_accept_out_cache_loc", accept_index=phase.accept_index, out_cache_loc=verify_input.out_cache_loc
            )
            target_slots = self._call(
                "fill_accept_target_cache_loc",
                num_accepted_tokens=phase.num_accepted_tokens,
                out_cache_loc=verify_input.out_cache_loc,
                num_steps=self.config.num_steps,
            )
            self._call("move_kv_cache", kv_buffers=self.target_kv, target_slots=target_slots, source_slots=source_slots)
            predict = self._call("compact_accepted_to_front", values=predict, accept_index=phase.accept_index)
            hidden_states = self._call(
                "compact_accepted_to_front", values=hidden_states, accept_index=phase.accept_index
            )
        positions, forward_seq_lens, select_index = self._call(
            "prepare_for_extend_to_fill_draft_kvcache",
            seq_lens=verify_input.seq_lens,
            num_accepted_tokens=phase.num_accepted_tokens,
            num_draft_tokens=self.config.num_draft_tokens,
        )
        return DraftExtendInput(
            input_ids=predict.astype(np.int64),
            hidden_states=hidden_states,
            positions=positions,
            out_cache_loc=verify_input.out_cache_loc,
            forward_seq_lens=forward_seq_lens,
            num_accepted_drafts=phase.num_accepted_drafts,
            num_accepted_tokens=phase.num_accepted_tokens,
            select_index=select_index,
            num_draft_tokens=self.config.num_draft_tokens,
        )

    def _extend(
        self, row: Array, verify_input: VerifyInput, verify_output: VerifyOutput, phase: DraftExtendInput
    ) -> None:
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND)
        _, cu_seqlens_q, _, page_table = self._metadata(row, verify_input)
        next_hidden_states, context = self._call(
            "draft_extend_forward",
            kv_buffers=self.draft_kv,
            input_ids=phase.input_ids,
            hidden_states=phase.hidden_states,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            page_table=page_table,
            cache_seqlens=phase.forward_seq_lens.astype(np.int32),
            cu_seqlens_q=cu_seqlens_q,
            page_size=1,
        )
        self._stash(
            row,
            verify_input.seq_lens + phase.num_accepted_tokens,
            verify_output.bonus_tokens,
            next_hidden_states[phase.select_index],
            context[phase.select_index],
        )

    def _metadata(self, row: Array, phase: VerifyInput) -> Any:
        longest = int(phase.seq_lens.max(initial=0)) + (self.config.num_draft_tokens if len(row) else 0)
        return self._call(
            "target_verify_metadata",
            req_pool_indices=row,
            req_to_token=self.req_to_token,
            seq_lens=phase.seq_lens,
            num_tokens=len(phase.draft_token),
            max_seq_len_k=longest,
            page_size=1,
        )

    def _stash(self, row: Array, seq_lens: Array, bonus_tokens: Array, hidden_states: Array, context: Array) -> None:
        """Keep what starts the next draft of each request, by row."""
        topk_p, topk_index = self._heads.propose(hidden_states, context, depth=1)
        self.seq_lens[row] = seq_lens
        self.bonus_tokens[row] = bonus_tokens
        self.topk_p[row] = topk_p
        self.topk_index[row] = topk_index
        self.hidden_states[row] = hidden_states

    def _call(self, operation: str, **arguments: Any) -> Any:
        return self._operations.call(operation, **arguments)


def empty_buffer(sizes: PoolSizes) -> Array:
    """Return one KV buffer in which every unwritten entry is recognisably wrong."""
    return np.full((sizes.num_slots, TAG_WORDS), -1, dtype=np.int64)
