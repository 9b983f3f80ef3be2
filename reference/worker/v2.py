"""The V2 worker in NumPy: EAGLE with a chain or a tree, on pages of any size.

It takes its operations as a parameter, so that the same loop runs on the oracle, on a foreign implementation, or on an
implementation with a planted fault; and any model, of which it knows what the protocol says.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.choice import TokenChoice
from specsim.phases import DraftInput, Phase
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.compact import compact
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import CARRIED, MakePools, Pools, carried_rows
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.sides import MakeSide, StepwiseSide
from specsim.reference.worker.verify import verify
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration

Maps = tuple[Array, Array]
"""The request-to-token map, and the SWA slot of each full one."""


class ReferenceWorker:
    """Draft, verify, compact and extend, one obvious step after another.

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
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.
    make_side : callable
        Makes what drafts.
    name : str
        What reports call it.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or one that this worker cannot run; NO_MOVE: one whose KV would have to move, and
        cannot.
    """

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
        make_side: MakeSide = StepwiseSide.of,
        name: str = "reference",
    ) -> None:
        self._make_side = make_side
        self._side = make_side(model, config, sizes, False)
        description = self._side.facts.description
        require_moves(description, sides_that_move(config, sizes.page_size, is_v1=False))
        self.name = name
        self.has_plain_keys = not self._side.facts.has_kv
        self.config = config
        self.model = model
        self.sizes = sizes
        self.device = "cpu"
        self._operations: CallsByName = operations or Direct(load("specsim.reference"))
        self._choices = ChoiceRows(sizes.num_rows)
        self._pools = make_pools(description, sizes, reads)
        self._carried = carried_rows(description, self._side.facts.num_candidates, sizes)
        self._phases: tuple[Phase, ...] = ()
        self._told: Told = ()

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
        phase = self._side.prefill(behind, self._pools, self._operations)
        self._stash(phase)
        paths = alone(len(rows))
        self._told = tell(behind.row, behind.output, paths, phase.bonus_tokens, self._choices, self._operations)
        return [int(token) for token in phase.bonus_tokens]

    def read_map(self) -> Maps:
        """Return the request-to-token map and the SWA slots of full ones, as they are."""
        return self._pools.req_to_token.copy(), self._pools.full_to_swa.copy()

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration: draft, verify, compact, extend."""
        return self.decode_from((self._pools.req_to_token, self._pools.full_to_swa), rows, num_steps)

    def decode_from(self, read: Maps, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration on maps that were read before."""
        self._pools.start_iteration()
        config, model, operations = self.config.at_steps(num_steps), self.model, self._operations
        pools = replace(self._pools, req_to_token=read[0], full_to_swa=read[1])
        row, width = np.array(rows, dtype=np.int64), config.num_draft_tokens
        draft_input = DraftInput(req_pool_indices=row, **self._gather(row))

        def verify_slots() -> Array:
            return pools.read_slots(row, draft_input.seq_lens, width, operations)

        verify_input = self._side.draft(draft_input, config, pools, verify_slots, operations)
        verify_output, scratch, output = verify(
            row, verify_input, config.num_steps, model, pools, self._choices, operations
        )
        paths, predict = verify_output.accept_index, verify_output.predict
        self._told = tell(row, output, paths, predict, self._choices, operations)
        extend_input = compact(
            row, verify_input, verify_output, config.topk == 1, config.num_steps, pools, scratch, operations
        )
        self._stash(self._side.extend(row, verify_input, verify_output, extend_input, pools, operations))
        self._phases = (draft_input, verify_input, verify_output, extend_input)
        return Iteration(
            tokens=extend_input.input_ids.astype(np.int32).reshape(len(row), width),
            num_accepted_drafts=verify_output.num_accepted_drafts,
            num_accepted_tokens=verify_output.num_accepted_tokens,
        )

    def resized(self, config: SpecConfig) -> "ReferenceWorker":
        """Return a worker of other sizes in the same pools and maps; what starts drafts waits in rows of its own."""
        return type(self)(
            config,
            self.model,
            self.sizes,
            operations=self._operations,
            make_pools=lambda *_: self._pools,
            make_side=self._make_side,
            name=self.name,
        )

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return self._told

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the carried state by name."""
        return {**self._pools.state(), **self._carried, **self._side.state()}

    def _gather(self, row: Array) -> dict[str, Array | None]:
        """Return what starts the next draft of each request."""
        return {name: None if name not in self._carried else self._carried[name][row] for name in CARRIED}

    def _stash(self, phase: DraftInput) -> None:
        """Keep what starts the next draft of each request, by row."""
        for name, values in self._carried.items():
            values[phase.req_pool_indices] = getattr(phase, name)
