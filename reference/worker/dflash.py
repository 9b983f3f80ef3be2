"""The V1 worker of DFLASH in NumPy: a block is drafted at once, over KV that is made of the target's features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.choice import TokenChoice
from specsim.host.dflash import DflashParameters
from specsim.host.truncation import Truncation
from specsim.phases import DflashDraftInput, EagleDraftExtendInput, Phase, VerifyOutput
from specsim.reference.worker.block import draft_block, project
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.reclaim import reclaim
from specsim.reference.worker.verify import verify
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.block import BlockModel, require_block_model
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration


class ReferenceDflashWorker:
    """Draft a block on borrowed slots, verify it as a chain, end requests, free what was rejected, project features.

    Parameters
    ----------
    parameters : DflashParameters
        The block.
    model : BlockModel
        Target and draft, on NumPy arrays.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : CallsByName, optional
        Who computes, host functions included; the oracle by default.
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or one that drafts no blocks.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """

    name = "reference-dflash"
    has_plain_keys = True

    def __init__(
        self,
        parameters: DflashParameters,
        model: BlockModel[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
    ) -> None:
        description = require_block_model(model, "numpy")
        self.parameters = parameters
        self.config = parameters.config
        self.model: Model[Array] = model
        self._block_model = model
        self.sizes = sizes
        self.device = "cpu"
        self._operations: CallsByName = operations or Direct(load("specsim.reference"))
        self._choices = ChoiceRows(sizes.num_rows, is_top_k_exact=True)
        self._pools = make_pools(description, sizes, reads)
        self._bonus_tokens = np.zeros(sizes.num_rows, dtype=np.int64)
        self._draft_seq_lens = np.zeros(sizes.num_rows, dtype=np.int32)
        self._phases: tuple[Phase, ...] = ()

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def check_request(self, request: Request) -> None:
        """Refuse a request that brings a grammar or asks for log-probabilities."""
        check_dflash_request(request)

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(ranges, self._operations)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target, and make KV of their features; return the token behind each."""
        self._pools.start_iteration()
        behind = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)
        lengths = behind.lengths.astype(np.int32)
        features = require_present("hidden_states", behind.output.hidden_states)
        roots, ends = behind.following.astype(np.int64), behind.ends.astype(np.int32)
        self._commit(DflashDraftInput(behind.row, roots, features, lengths, ends))
        return [int(token) for token in behind.following]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a block has the positions of the parameters, whatever number of steps is asked for."""
        self._pools.start_iteration()
        row, config, size = np.array(rows, dtype=np.int64), self.config, self.parameters.block_size
        started_from = self._started_from(row)
        self.assign_slots(self._ledger.borrow_draft_slots(1, size))

        def verify_slots() -> Array:
            self.assign_slots(self._ledger.allocate_verify_slots(size))
            return self._pools.read_slots(row, started_from.draft_seq_lens, size, self._operations)

        phase = draft_block(
            started_from,
            self.parameters,
            self._block_model,
            self._pools,
            verify_slots,
            self._operations,
            self.sizes.page_size,
        )
        verify_output, scratch, _ = verify(
            row, phase, config.num_steps, self.model, self._pools, self._choices, self._operations
        )
        truncation = self._end_requests(verify_output)
        page_size, free = self.sizes.page_size, self._ledger.free
        everyone, _ = reclaim(row, phase, verify_output, truncation, 1, page_size, self._pools, free, self._operations)
        counts = everyone.num_accepted_tokens
        self._pools.commit_states(scratch, row, phase, truncation.accept_index, counts, self._operations)
        committed = self._committed(everyone)
        self._commit(committed)
        kept = np.split(everyone.out_cache_loc, np.cumsum(counts)[:-1])
        self._ledger.commit([slots.tolist() for slots in kept[: len(row)]], is_caught_up=True)
        self._phases = (started_from, phase, verify_output, committed)
        return Iteration.of(truncation, size)

    def resized(self, parameters: DflashParameters) -> "ReferenceDflashWorker":
        """Return a worker of another block in the same pools and maps; what starts blocks waits in rows of its own."""
        return type(self)(
            parameters, self._block_model, self.sizes, self._operations, make_pools=lambda *_: self._pools
        )

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, roots and lengths by request row."""
        carried = {"seq_lens": self._draft_seq_lens, "bonus_tokens": self._bonus_tokens}
        return {**self._pools.state(), **carried}

    def _started_from(self, row: Array) -> DflashDraftInput:
        """Return what starts the blocks of these rows; every feature is KV already."""
        roots, lengths = self._bonus_tokens[row], self._draft_seq_lens[row]
        return DflashDraftInput(row, roots, None, np.zeros(len(row), dtype=np.int32), lengths)

    def _committed(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        """Return the features of the tokens that were output, and the last of these as the roots to come."""
        counts, ends = everyone.num_accepted_tokens, everyone.seq_lens
        laid_out = self._operations.create_extend_after_decode_spec_info(everyone.input_ids, ends, counts)
        return DflashDraftInput(
            req_pool_indices=everyone.req_pool_indices,
            bonus_tokens=laid_out.bonus_tokens.astype(np.int64),
            target_hidden=everyone.hidden_states,
            ctx_lens=counts,
            draft_seq_lens=ends.astype(np.int32),
        )

    def _commit(self, phase: DflashDraftInput) -> None:
        """Make KV of features before anybody else may see the slots, and keep what starts the next block."""
        self._project(phase)
        self._bonus_tokens[phase.req_pool_indices] = phase.bonus_tokens
        self._draft_seq_lens[phase.req_pool_indices] = phase.draft_seq_lens

    def _project(self, phase: DflashDraftInput) -> None:
        """Write the draft's KV of the positions whose features a phase carries."""
        project(phase, self._block_model, self._pools, self._operations)

    def _end_requests(self, phase: VerifyOutput) -> Truncation:
        """Append tokens up to the ends of requests; these count the drafts among them."""
        truncate = self._operations.truncate_at_stop
        return self._ledger.end_requests(phase.accept_index, phase.predict, truncate, counts_only_output=True)
