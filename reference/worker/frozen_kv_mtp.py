"""The V1 worker of FROZEN_KV_MTP in NumPy: the draft reads the target's KV, has none, and never catches up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.assertion import require_kind
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.choice import TokenChoice
from specsim.phases import Batch, DraftInput, ForwardMode, FrozenKVMTPDraftInput, Phase, VerifyInput
from specsim.phases.frozen_kv_mtp import to_frozen_kv_mtp_draft_extend_input
from specsim.reference.worker.carried import by_row, form_batch, gather_joining
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.extend import prepare_extend_after_decode
from specsim.reference.worker.frozen_draft import draft_frozen, seed_of_extend, seed_of_prefill
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import TargetPrefill, prefill_target
from specsim.reference.worker.reclaim import reclaim
from specsim.reference.worker.verify import verify
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.batches import DraftOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import (
    FrozenDraftBatch,
    FrozenKVModel,
    require_frozen_model,
    shared_kv,
    warn_of_states,
)
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration


class ReferenceFrozenKVMTPWorker:
    """Draft over what is committed, verify, end requests, free what was rejected, keep the seeds.

    Nothing of the draft has a slot, so that none is borrowed.

    Parameters
    ----------
    config : SpecConfig
        Branching factor, depth and width of the trees.
    model : FrozenKVModel
        Target and draft, on NumPy arrays.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : CallsByName, optional
        Who computes, host functions included; the oracle by default.
    has_dp_attention : bool
        Other ranks wait for the forwards of this one.
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or one that this worker cannot run; NO_MOVE: one whose KV would have to move, and
        cannot.

    Notes
    -----
    Source: semantics D.11.
    """

    name = "reference-frozen-kv-mtp"
    has_plain_keys = True

    def __init__(
        self,
        config: SpecConfig,
        model: FrozenKVModel[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        has_dp_attention: bool = False,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
    ) -> None:
        description = require_frozen_model(model, "numpy", config.topk, has_dp_attention)
        require_moves(description, sides_that_move(config, sizes.page_size, is_v1=True))
        warn_of_states(description)
        self.config = config
        self.model: Model[Array] = model
        self._drafting = model
        self.sizes = sizes
        self.device = "cpu"
        self.has_dp_attention = has_dp_attention
        self._operations: CallsByName = operations or Direct(load("specsim.reference"))
        self._choices = ChoiceRows(sizes.num_rows)
        self._pools = make_pools(description, sizes, reads)
        self._joining: DraftInput = self._idle_draft_input()
        self.batch = Batch(
            ForwardMode.IDLE, self._joining.req_pool_indices, self._joining.seq_lens, self._idle_draft_input()
        )
        self._phases: tuple[Phase, ...] = ()
        self._told: Told = ()

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(ranges, self._operations)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target; return the token behind each."""
        self._pools.start_iteration()
        behind = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)
        joining = self._seed_of_prefill(behind)
        row, paths = joining.req_pool_indices, alone(len(rows))
        self._told = tell(row, behind.output, paths, joining.bonus_tokens, self._choices, self._operations)
        self._joining = gather_joining(self._joining, joining, self._operations)
        return [int(token) for token in joining.bonus_tokens]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration."""
        self._pools.start_iteration()
        config = self.config.at_steps(num_steps)
        carried = require_kind("what is carried", self.batch.info, DraftInput)
        draft_input = form_batch(carried, self._joining, rows, self._operations)
        self._joining = self._idle_draft_input()
        row = draft_input.req_pool_indices
        verify_input = self._draft(draft_input, config)
        self.batch = Batch(ForwardMode.TARGET_VERIFY, row, draft_input.seq_lens, verify_input)
        verify_output, scratch, output = verify(
            row, verify_input, config.num_steps, self.model, self._pools, self._choices, self._operations
        )
        paths, predict = verify_output.accept_index, verify_output.predict
        self._told = tell(row, output, paths, predict, self._choices, self._operations)
        truncation = self._ledger.end_requests(paths, predict, self._operations.truncate_at_stop)
        everyone, staying = reclaim(
            row,
            verify_input,
            verify_output,
            truncation,
            config.topk,
            self.sizes.page_size,
            self._pools,
            self._ledger.free,
            self._operations,
        )
        counts = everyone.num_accepted_tokens
        self._pools.commit_states(scratch, row, verify_input, truncation.accept_index, counts, self._operations)
        kept = np.split(everyone.out_cache_loc, np.cumsum(counts)[:-1])
        self._ledger.commit([slots.tolist() for slots in kept[: len(row)]], is_caught_up=True)
        extend_input = to_frozen_kv_mtp_draft_extend_input(staying)
        self.batch = Batch(ForwardMode.DECODE, row, everyone.seq_lens, extend_input)
        self.batch = replace(self.batch, info=self._seed(self.batch, config.num_steps))
        self._phases = (draft_input, verify_input, verify_output, extend_input)
        return Iteration.of(truncation, config.num_draft_tokens)

    def resized(self, config: SpecConfig) -> "ReferenceFrozenKVMTPWorker":
        """Return a worker of other sizes in the same pools and maps, with an empty batch of its own."""
        return type(self)(
            config,
            self._drafting,
            self.sizes,
            self._operations,
            self.has_dp_attention,
            make_pools=lambda *_: self._pools,
        )

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return self._told

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, the fields of the draft input by request row."""
        info = require_kind("what is carried", self.batch.info, DraftInput)
        return {**self._pools.state(), **by_row((info, self._joining), self.sizes)}

    def _draft(self, phase: DraftInput, config: SpecConfig) -> VerifyInput:
        pools, operations, row = self._pools, self._operations, phase.req_pool_indices

        def verify_slots() -> Array:
            self.assign_slots(self._ledger.allocate_verify_slots(config.num_draft_tokens))
            return pools.read_slots(row, phase.seq_lens, config.num_draft_tokens, operations)

        return draft_frozen(phase, config, self._drafting, self._forward, pools.req_to_token, verify_slots, operations)

    def _forward(self, batch: FrozenDraftBatch[Array]) -> DraftOutput[Array]:
        """Run the draft over the target's buffers that its layers read."""
        return self._drafting.draft_frozen(batch, shared_kv(self.model.description, self._pools.kv[Side.TARGET]))

    def _seed_of_prefill(self, behind: TargetPrefill) -> FrozenKVMTPDraftInput:
        return seed_of_prefill(behind, self.config.topk)

    def _seed(self, batch: Batch, num_steps: int) -> DraftInput:
        """Return what starts the next draft of the requests that go on; without any, an idle input that can merge."""
        prepared = prepare_extend_after_decode(batch, num_steps, self._operations)
        if prepared.mode is ForwardMode.IDLE:
            return self._idle_draft_input()
        return seed_of_extend(prepared, self.config.topk, self._operations)

    def _idle_draft_input(self) -> DraftInput:
        told = self.model.description
        return FrozenKVMTPDraftInput.create_idle_input(self.config.topk, told.draft_hidden_width, told.hidden_dtype)
