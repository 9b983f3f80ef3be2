"""The V2 loop on the device: positions are allocated ahead, and an iteration is queued without waiting for it."""

from collections.abc import Callable, Sequence

from specsim.assertion import require_kind, require_present
from specsim.gpu.worker.carried import WaitingRows
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.ends import proposals_of, proposed_trees
from specsim.gpu.worker.logprobs import score
from specsim.gpu.worker.loop import Loop
from specsim.gpu.worker.stages import HALVES, WHOLE, Parts
from specsim.gpu.worker.transfer import download
from specsim.simulation.numbers import Steps
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration


class GpuWorker(Loop):
    """Draft, verify, bring what was accepted to the front, follow: nothing is freed, and no request ends.

    Notes
    -----
    Source: semantics J.2.
    """

    is_v1, default_name = False, "gpu"

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration and bring its tokens and counts to the host."""
        self.launch(rows, num_steps, limits)
        stages, followed, live = require_present("launched", self._last)
        accepted, tokens = stages.verify_output, require_present("tokens", followed.tokens)
        output, drafts, counts, *trees = download(
            [
                tokens[:live],
                accepted.num_accepted_drafts[:live],
                accepted.num_accepted_tokens[:live],
                *proposed_trees(stages.verify_input, live, self._branches, stages.own_steps),
            ]
        )
        iteration = Iteration(output, drafts, counts, proposals_of(trees, stages.own_steps), stages.verified(live))
        self._waiting.hear(rows, iteration)
        return iteration

    def launch(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> None:
        """Queue one iteration on the device without waiting for it.

        A request with a processor or a grammar lets the batch wait for its logits in the middle. A draft of the host
        follows while the device is busy.
        """
        side, choices = self.side, self._choices
        widths, asked = side.facts.widths_at(self.config, num_steps, len(rows)), choices.asked(rows)
        start = self._waiting.take(rows)
        parts = self._parts(asked.is_constrained or asked.wants_report)
        stages = self._batches.load(start, widths, asked, parts, limits=limits)
        stages.run("target")
        if asked.is_constrained:
            constrain_trees(stages.output, stages.verify_input, asked.choices)
        stages.run("settle")
        accepted, scored = stages.verify_output, None
        if asked.wants_report:
            row = stages.start.req_pool_indices
            scored = score(asked, row, stages.output, accepted.accept_index, accepted.predict, choices)
        self._scored = scored, len(rows)
        if side.facts.drafts_on_host:
            stages.followed = side.follow(start, stages.verify_input, accepted, widths.config, self._pools)
        self._last = stages, stages.followed, len(rows)

    def rewinder(self) -> Callable[[], object]:
        """Return a function that brings the lengths back to what they are now, to run one iteration many times."""
        lengths = require_kind("what waits", self._waiting, WaitingRows).carried["seq_lens"]
        saved = lengths.clone()
        return lambda: lengths.copy_(saved)

    def _parts(self, is_interrupted: bool = False) -> Parts:
        return HALVES if is_interrupted else WHOLE
