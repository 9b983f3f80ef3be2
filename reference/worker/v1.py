"""The V1 loop in NumPy: an iteration allocates and frees slots, and ends requests, with the books of its engine."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.phases import Batch, ForwardMode
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.reclaim import reclaim
from specsim.reference.worker.verify import verify
from specsim.simulation.numbers import Steps
from specsim.simulation.sides import handed_over
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration


class ReferenceWorkerV1(Loop):
    """Borrow draft slots, draft, verify, end requests, free what was rejected, follow: one step after another.

    Notes
    -----
    Source: semantics J.1, of which an iteration runs the steps 1 to 10 in order.
    """

    is_v1, default_name = True, "reference-v1"

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration."""
        self._pools.start_iteration()
        side, ledger, pools = self.side, self._ledger, self._pools
        choices, operations = self._choices, self._operations
        widths = side.facts.widths_at(self.config, num_steps, len(rows))
        config = widths.config
        start = self._waiting.take(rows)
        row = start.req_pool_indices
        if side.facts.borrows:
            self.assign_slots(ledger.borrow_draft_slots(config.topk, config.num_steps + side.facts.writes_root))

        def verify_slots() -> Array:
            self.assign_slots(ledger.allocate_verify_slots(config.num_draft_tokens))
            return pools.read_slots(row, start.seq_lens, config.num_draft_tokens, operations)

        verify_input = self._cut(side.draft(start, config, pools, verify_slots), widths)
        admitted = self._admit(verify_input, limits, widths)
        verify_output, scratch, output, verified = verify(
            row, verify_input, config.num_steps, self.model, pools, choices, operations, admitted
        )
        paths, predict = verify_output.accept_index, verify_output.predict
        self._reported = tell(row, output, paths, predict, choices, operations)
        truncation = ledger.end_requests(paths, predict, operations.truncate_at_stop, side.facts.counts_only_output)
        everyone, going_on = reclaim(
            row,
            verify_input,
            verify_output,
            truncation,
            self._branches,
            self.sizes.page_size,
            pools,
            ledger.free,
            operations,
        )
        counts = everyone.num_accepted_tokens
        pools.commit_states(scratch, row, verify_input, truncation.accept_index, counts, operations)
        kept = np.split(everyone.out_cache_loc, np.cumsum(counts)[:-1])
        ledger.commit([slots.tolist() for slots in kept[: len(row)]], is_caught_up=not side.facts.catches_up)
        followed = side.follow_ragged(start, everyone, going_on, config, pools)
        self._waiting.keep(followed.start)
        self.batch = Batch(ForwardMode.DECODE, row, everyone.seq_lens, followed.start)
        self._phases = handed_over(start, verify_input, verify_output, followed.phase)
        proposals = side.facts.proposals(verify_input, widths)
        return Iteration.of(truncation, config.num_draft_tokens, proposals, verified)
