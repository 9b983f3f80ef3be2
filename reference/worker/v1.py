"""The V1 worker in NumPy: EAGLE with a chain or a tree, on pages of any size, slots freed inside verify.

It carries one draft input for its batch, which requests leave through ``filter_batch`` and join through
``merge_batch``; like the V2 worker it calls every operation through a backend.
"""

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
from specsim.host.truncation import Truncation
from specsim.phases import (
    Batch,
    DraftInput,
    ForwardMode,
    Phase,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.reference.worker.carried import by_row, form_batch, gather_joining
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.extend import prepare_extend_after_decode
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import Buffers, MakePools, Pools
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.reclaim import Reclaimed, reclaim
from specsim.reference.worker.sides import MakeSide, StepwiseSide
from specsim.reference.worker.verify import verify
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration


class ReferenceWorkerV1:
    """Borrow draft slots, draft, verify, end requests, free what was rejected, extend: one step after another.

    Parameters
    ----------
    config : SpecConfig
        Branching factor, depth and width of the trees.
    model : Model
        Target and draft, on NumPy arrays.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : CallsByName, optional
        Who computes, host functions included; the oracle by default.
    name, device : str
        What reports call the worker, and where its operations run.
    has_dp_attention : bool
        Other ranks wait for the forwards of this one, so that the extend runs without requests too.
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.
    make_side : callable
        Makes what drafts.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or one that this worker cannot run; NO_MOVE: one whose KV would have to move, and
        cannot.

    Notes
    -----
    Source: semantics J.1.
    """

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        name: str = "reference-v1",
        device: str = "cpu",
        has_dp_attention: bool = False,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
        make_side: MakeSide = StepwiseSide.of,
    ) -> None:
        self._make_side = make_side
        self._side = make_side(model, config, sizes, has_dp_attention)
        description = self._side.facts.description
        require_moves(description, sides_that_move(config, sizes.page_size, is_v1=True))
        self.name = name
        self.has_plain_keys = not self._side.facts.has_kv
        self.config = config
        self.model = model
        self.sizes = sizes
        self.device = device
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
        self._side.join(rows)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token behind each."""
        self._pools.start_iteration()
        behind = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)
        joining = self._side.prefill(behind, self._pools, self._operations)
        paths = alone(len(rows))
        self._told = tell(behind.row, behind.output, paths, joining.bonus_tokens, self._choices, self._operations)
        self._joining = gather_joining(self._joining, joining, self._operations)
        return [int(token) for token in joining.bonus_tokens]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration."""
        self._pools.start_iteration()
        config = self.config.at_steps(num_steps)
        self.batch = self._form_batch(rows)
        draft_input = require_kind("what is carried", self.batch.info, DraftInput)
        verify_input = self._draft(draft_input, config)
        self.batch = replace(self.batch, info=verify_input, mode=ForwardMode.TARGET_VERIFY)
        row = self.batch.req_pool_indices
        verify_output, scratch, output = verify(
            row, verify_input, config.num_steps, self.model, self._pools, self._choices, self._operations
        )
        paths, predict = verify_output.accept_index, verify_output.predict
        self._told = tell(row, output, paths, predict, self._choices, self._operations)
        truncation = self._ledger.end_requests(
            verify_output.accept_index, verify_output.predict, self._operations.truncate_at_stop
        )
        everyone, extend_input = self._reclaim(verify_input, verify_output, truncation, scratch)
        self.batch = replace(self.batch, info=extend_input, seq_lens=everyone.seq_lens, mode=ForwardMode.DECODE)
        self.batch = replace(self.batch, info=self._extend(self.batch, config.num_steps))
        self._phases = (draft_input, verify_input, verify_output, extend_input)
        return Iteration.of(truncation, config.num_draft_tokens)

    def resized(self, config: SpecConfig) -> "ReferenceWorkerV1":
        """Return a worker of other sizes in the same pools and maps, with an empty batch of its own."""
        return type(self)(
            config,
            self.model,
            self.sizes,
            self._operations,
            self.name,
            self.device,
            self.has_dp_attention,
            make_pools=lambda *_: self._pools,
            make_side=self._make_side,
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
        return {**self._pools.state(), **by_row((info, self._joining), self.sizes), **self._side.state()}

    def _form_batch(self, rows: Sequence[int]) -> Batch:
        """Let requests leave and join; nobody waits to join afterwards."""
        carried = require_kind("what is carried", self.batch.info, DraftInput)
        info = form_batch(carried, self._joining, rows, self._operations)
        self._joining = self._idle_draft_input()
        return Batch(ForwardMode.DECODE, info.req_pool_indices, info.seq_lens, info)

    def _draft(self, phase: DraftInput, config: SpecConfig) -> VerifyInput:
        pools, operations = self._pools, self._operations
        row = phase.req_pool_indices
        if self._side.facts.borrows:
            self.assign_slots(self._ledger.borrow_draft_slots(config.topk, config.num_steps))

        def verify_slots() -> Array:
            self.assign_slots(self._ledger.allocate_verify_slots(config.num_draft_tokens))
            return pools.read_slots(row, phase.seq_lens, config.num_draft_tokens, operations)

        return self._side.draft(phase, config, pools, verify_slots, operations)

    def _reclaim(
        self, verify_input: VerifyInput, verify_output: VerifyOutput, truncation: Truncation, scratch: Buffers
    ) -> Reclaimed:
        """Free what was rejected, keep states and slots of what was accepted, and write both into the books."""
        row = self.batch.req_pool_indices
        everyone, extend_input = reclaim(
            row,
            verify_input,
            verify_output,
            truncation,
            self.config.topk,
            self.sizes.page_size,
            self._pools,
            self._ledger.free,
            self._operations,
        )
        paths, counts = truncation.accept_index, everyone.num_accepted_tokens
        self._pools.commit_states(scratch, row, verify_input, paths, counts, self._operations)
        ends = np.cumsum(everyone.num_accepted_tokens)
        kept = [slots.tolist() for slots in np.split(everyone.out_cache_loc, ends[:-1])[: len(row)]]
        self._ledger.commit(kept, is_caught_up=not self._side.facts.has_kv)
        return everyone, self._side.to_extend_input(extend_input)

    def _extend(self, batch: Batch, num_steps: int) -> DraftInput:
        """Return what starts the next draft of the requests that go on; without any, an idle input that can merge."""
        expect_phase(batch.info, PhaseTag.EAGLE_DRAFT_EXTEND, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
        if not batch.info.num_requests and not self.has_dp_attention:
            return self._idle_draft_input()
        prepared = prepare_extend_after_decode(batch, num_steps, self._operations)
        return self._side.extend_ragged(prepared, self._pools, self._operations)

    def _idle_draft_input(self) -> DraftInput:
        facts, told = self._side.facts, self._side.facts.description
        width = told.draft_hidden_width if told.has_draft_hidden else None
        return facts.draft_input.create_idle_input(facts.num_candidates, width, told.hidden_dtype)
