"""The V2 loop in NumPy: positions are allocated ahead, and nothing is freed inside an iteration."""

from collections.abc import Sequence
from dataclasses import replace

from specsim.assertion import require_present
from specsim.conformance.arrays import Array
from specsim.reference.worker.compact import move_accepted
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.verify import verify
from specsim.simulation.numbers import Steps
from specsim.simulation.sides import handed_over
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration

Maps = tuple[Array, Array]
"""The request-to-token map, and the SWA slot of each full one."""


class ReferenceWorker(Loop):
    """Draft, verify, bring what was accepted to the front, follow: one obvious step after another.

    Notes
    -----
    Source: semantics J.2, of which an iteration runs the steps 2 to 11 in order.
    """

    is_v1, default_name = False, "reference"

    def read_map(self) -> Maps:
        """Return the request-to-token map and the SWA slots of full ones, as they are."""
        return self._pools.req_to_token.copy(), self._pools.full_to_swa.copy()

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration."""
        read = self._pools.req_to_token, self._pools.full_to_swa
        # NOTE: a loop that overrides what runs on a map need not know of limits.
        return self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))

    def decode_from(
        self, read: Maps, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None
    ) -> Iteration:
        """Run one iteration on maps that were read before."""
        self._pools.start_iteration()
        side, choices, operations = self.side, self._choices, self._operations
        pools = replace(self._pools, req_to_token=read[0], full_to_swa=read[1])
        widths = side.facts.widths_at(self.config, num_steps, len(rows))
        config = widths.config
        start = self._waiting.take(rows)
        row = start.req_pool_indices

        def verify_slots() -> Array:
            return pools.read_slots(row, start.seq_lens, config.num_draft_tokens, operations)

        verify_input = self._cut(side.draft(start, config, pools, verify_slots), widths)
        admitted = self._admit(verify_input, limits, widths)
        verify_output, scratch, output, verified = verify(
            row, verify_input, config.num_steps, self.model, pools, choices, operations, admitted
        )
        paths, counts = verify_output.accept_index, verify_output.num_accepted_tokens
        self._reported = tell(row, output, paths, verify_output.predict, choices, operations)
        pools.commit_states(scratch, row, verify_input, paths, counts, operations)
        if self._branches > 1:
            move_accepted(verify_input, verify_output, config.num_steps, pools, operations)
        followed = side.follow(start, verify_input, verify_output, config, pools)
        self._waiting.keep(followed.start)
        self._phases = handed_over(start, verify_input, verify_output, followed.phase)
        tokens = require_present("tokens", followed.tokens)
        proposals = side.facts.proposals(verify_input, widths)
        return Iteration(tokens, verify_output.num_accepted_drafts, counts, proposals, verified)
