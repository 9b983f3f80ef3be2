"""The V2 worker of DFLASH in NumPy: positions are allocated ahead, and nothing is freed inside an iteration."""

from collections.abc import Sequence
from dataclasses import replace
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
from specsim.phases import DflashDraftInput, Phase, VerifyOutput
from specsim.reference.worker.block import draft_block, project
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.verify import verify
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.block import BlockModel, require_block_model
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.worker import Iteration

Maps = tuple[Array, Array]
"""The request-to-token map, and the SWA slot of each full one."""


class ReferenceDflashWorkerV2:
    """Draft a block where the verify will write, verify it as a chain, project the features of what was accepted.

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
    Source: semantics A.14b.
    """

    name = "reference-dflash-v2"
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
        features = require_present("hidden_states", behind.output.hidden_states)
        roots, ends = behind.following.astype(np.int64), behind.ends.astype(np.int32)
        self._commit(DflashDraftInput(behind.row, roots, features, behind.lengths.astype(np.int32), ends), self._pools)
        return [int(token) for token in behind.following]

    def read_map(self) -> Maps:
        """Return the request-to-token map and the SWA slots of full ones, as they are."""
        return self._pools.req_to_token.copy(), self._pools.full_to_swa.copy()

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a block has the positions of the parameters, whatever number of steps is asked for."""
        return self.decode_from((self._pools.req_to_token, self._pools.full_to_swa), rows, num_steps)

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration on maps that were read before."""
        self._pools.start_iteration()
        pools = replace(self._pools, req_to_token=read[0], full_to_swa=read[1])
        row, size, operations = np.array(rows, dtype=np.int64), self.parameters.block_size, self._operations
        lengths = self._draft_seq_lens[row]
        started_from = DflashDraftInput(row, self._bonus_tokens[row], None, np.zeros_like(lengths), lengths)

        def verify_slots() -> Array:
            return pools.read_slots(row, lengths, size, operations)

        phase = draft_block(
            started_from, self.parameters, self._block_model, pools, verify_slots, operations, self.sizes.page_size
        )
        verify_output, scratch, _ = verify(
            row, phase, self.config.num_steps, self.model, pools, self._choices, operations
        )
        counts = verify_output.num_accepted_tokens
        pools.commit_states(scratch, row, phase, verify_output.accept_index, counts, operations)
        tokens = operations.fill_block_tokens(
            phase.draft_token.reshape(-1, size), verify_output.num_accepted_drafts, verify_output.bonus_tokens
        )
        committed = self._committed(row, lengths, verify_output)
        self._commit(committed, pools)
        self._phases = (started_from, phase, verify_output, committed)
        return Iteration(tokens.astype(np.int32), verify_output.num_accepted_drafts, counts)

    def resized(self, parameters: DflashParameters) -> "ReferenceDflashWorkerV2":
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

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        """Return the features along the accepted paths, whatever ends them later, and the roots to come."""
        features = require_present("hidden_states", phase.hidden_states)
        return DflashDraftInput(
            req_pool_indices=row,
            bonus_tokens=phase.bonus_tokens.astype(np.int64),
            target_hidden=features[phase.accept_index[phase.accept_index >= 0]],
            ctx_lens=phase.num_accepted_tokens,
            draft_seq_lens=lengths + phase.num_accepted_tokens,
        )

    def _commit(self, phase: DflashDraftInput, pools: Pools) -> None:
        """Make KV of features before anybody else may see the slots, and keep what starts the next block."""
        project(phase, self._block_model, pools, self._operations)
        self._bonus_tokens[phase.req_pool_indices] = phase.bonus_tokens
        self._draft_seq_lens[phase.req_pool_indices] = phase.draft_seq_lens
