"""The V2 worker in NumPy: EAGLE with a chain or a tree, page size 1.

It calls every operation through a backend, so that the same loop runs on the oracle, on a foreign implementation, or
on an implementation with a planted fault.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend, Completed, load
from specsim.host.sampling import SamplingParameters
from specsim.phases import DraftExtendInput, DraftInput, Phase, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.worker.draft import draft
from specsim.reference.worker.heads import Heads
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import prefill
from specsim.reference.worker.verify import verify, verify_metadata
from specsim.simulation.models.language_models import LanguageModel
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.worker import Iteration

CARRIED = ("seq_lens", "bonus_tokens", "topk_p", "topk_index", "hidden_states")
"""Fields of a draft input that wait by request row between iterations."""


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
        self._heads = Heads(model, config.topk, sizes.num_rows, self._call)
        self._pools = Pools.of(model, sizes)
        self._carried: dict[str, Array] = {
            "seq_lens": np.zeros(sizes.num_rows, dtype=np.int64),
            "bonus_tokens": np.zeros(sizes.num_rows, dtype=np.int32),
            "topk_p": np.zeros((sizes.num_rows, config.topk), dtype=np.float32),
            "topk_index": np.zeros((sizes.num_rows, config.topk), dtype=np.int64),
            "hidden_states": np.zeros((sizes.num_rows, model.num_target_layers + 1), dtype=np.int64),
        }
        self._phases: tuple[Phase, ...] = ()

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(ranges, self._call)

    def assign_sampling(self, rows: Sequence[int], parameters: Sequence[SamplingParameters | None]) -> None:
        """Keep how joining requests are sampled."""
        self._heads.sampling.assign(rows, parameters)

    def prefill(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[int]:
        """Run the prompts of new requests through target and draft; return the first output tokens."""
        phase = prefill(rows, prompts, self._pools, self._heads, self._call)
        self._stash(phase)
        return [int(token) for token in phase.bonus_tokens]

    def decode(self, rows: Sequence[int]) -> Iteration:
        """Run one iteration: draft, verify, compact, extend."""
        row = np.array(rows, dtype=np.int64)
        draft_input = DraftInput(req_pool_indices=row, **{name: self._carried[name][row] for name in CARRIED})
        pools = self._pools
        verify_input = draft(
            draft_input,
            self.config,
            self._heads,
            pools.req_to_token,
            pools.draft_kv,
            lambda: pools.read_slots(row, draft_input.seq_lens, self.config.num_draft_tokens, self._call),
            self._call,
        )
        verify_output = verify(row, verify_input, self.config.num_steps, pools, self._heads, self._call)
        extend_input = self._compact(verify_input, verify_output)
        self._stash(self._extend(row, verify_input, verify_output, extend_input))
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
        return {**vars(self._pools), **self._carried}

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
            self._call(
                "move_kv_cache", kv_buffers=self._pools.target_kv, target_slots=target_slots, source_slots=source_slots
            )
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
    ) -> DraftInput:
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        _, cu_seqlens_q, page_table = verify_metadata(row, verify_input, self._pools, self._call)
        next_hidden_states, context = self._call(
            "draft_extend_forward",
            kv_buffers=self._pools.draft_kv,
            input_ids=phase.input_ids,
            hidden_states=phase.hidden_states,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            page_table=page_table,
            cache_seqlens=phase.forward_seq_lens.astype(np.int32),
            cu_seqlens_q=cu_seqlens_q,
            page_size=1,
        )
        hidden_states = next_hidden_states[phase.select_index]
        topk_p, topk_index = self._heads.propose(hidden_states, context[phase.select_index], depth=1)
        return DraftInput(
            req_pool_indices=row,
            seq_lens=verify_input.seq_lens + phase.num_accepted_tokens,
            topk_p=topk_p,
            topk_index=topk_index,
            hidden_states=hidden_states,
            bonus_tokens=verify_output.bonus_tokens,
        )

    def _stash(self, phase: DraftInput) -> None:
        """Keep what starts the next draft of each request, by row."""
        for name in CARRIED:
            self._carried[name][phase.req_pool_indices] = getattr(phase, name)

    def _call(self, operation: str, **arguments: Any) -> Any:
        return self._operations.call(operation, **arguments)
