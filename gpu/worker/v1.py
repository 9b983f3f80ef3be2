"""The V1 loop on the device: an iteration allocates and frees slots, and ends requests, with the books of its engine.

The fallback where the rules do not allow V2. Its state lies on the device; the host waits for it once an iteration, to
see what was accepted, and then ends requests and frees slots. What it decides goes back without waiting.
"""

from collections.abc import Sequence

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.ends import end_requests
from specsim.gpu.worker.logprobs import score
from specsim.gpu.worker.loop import Loop
from specsim.gpu.worker.pools import flat_ranges
from specsim.gpu.worker.reclaim import reclaim
from specsim.gpu.worker.stages import BORROWING, SETTLING, Parts
from specsim.gpu.worker.transfer import upload
from specsim.simulation.numbers import Steps
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration


class GpuWorkerV1(Loop):
    """Borrow draft slots, draft, verify, end requests, free what was rejected, follow.

    Draft, target forward and acceptance can be captured; what follows the accepted tokens, whose number the host has
    just learnt, is always eager.

    Notes
    -----
    Source: semantics J.1.
    """

    is_v1, default_name = True, "gpu-v1"

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration; the host waits for the device once, and once more for a grammar or a budget."""
        side, ledger, pools, choices, live = self.side, self._ledger, self._pools, self._choices, len(rows)
        widths, asked = side.facts.widths_at(self.config, num_steps, live), choices.asked(rows)
        config = widths.config
        start = self._waiting.take(rows)
        num_written = config.num_steps + side.facts.writes_root
        borrowed = flat_ranges(ledger.borrow_draft_slots(config.topk, num_written)) if side.facts.borrows else []
        given = ledger.allocate_verify_slots(config.num_draft_tokens)
        uploaded = upload([*borrowed, *flat_ranges(given)], DEVICE)
        window = uploaded[-1]
        stages = self._batches.load(start, widths, asked, self._parts(), window, limits)
        if borrowed:
            pools.assign_slots(uploaded[: len(borrowed)])
        stages.run("draft")
        pools.assign_slots(uploaded[len(borrowed) :])
        stages.run("target")
        if asked.is_constrained:
            constrain_trees(stages.output, stages.verify_input, asked.choices)
        stages.run("accept")
        row, verify_input, accepted = stages.start.req_pool_indices[:live], stages.verify_input, stages.verify_output
        scored = score(asked, row, stages.output, accepted.accept_index, accepted.predict, choices)
        self._scored = scored, live
        truncation, proposals = end_requests(verify_input, accepted, live, side.facts, ledger, widths)
        iteration = Iteration.of(truncation, config.num_draft_tokens, proposals, stages.verified(live))
        everyone, going_on = reclaim(
            row,
            verify_input,
            accepted,
            window,
            given,
            truncation,
            self._branches,
            self.sizes.page_size,
            stages.scratch,
            pools,
            ledger,
            is_caught_up=not side.facts.catches_up,
        )
        self._waiting.hear(rows, iteration)
        followed = side.follow_ragged(start, everyone, going_on, config, pools)
        unfinished = [one for one, finish in zip(rows, truncation.finishes, strict=True) if finish is None]
        self._waiting.keep(followed.start, rows=unfinished)
        self._last = stages, followed, live
        return iteration

    def _parts(self, is_interrupted: bool = False) -> Parts:
        return BORROWING if self.side.facts.borrows else SETTLING
