"""Faults in workers that show when an iteration verifies as many drafts as a budget admits."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.conformance.arrays import Array
from specsim.phases import DflashDraftInput, VerifyInput, VerifyOutput
from specsim.properties.mutants.record import Function, Mutant, mutants_of_sides, unchanged
from specsim.properties.runs.steps.budget_runs import CHAIN_WORKERS
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.scheduled import Admitted
from specsim.reference.worker.sides.dflash import DflashSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.loops import loop_of
from specsim.simulation.numbers import Widths
from specsim.simulation.sides import Followed
from specsim.simulation.verification import VerifyLimits

Admit = Callable[[Any, Callable[..., Admitted | None], VerifyInput, VerifyLimits, Widths], Admitted | None]
"""Takes a worker, how it admits drafts, and what it is asked; returns what it admits."""

OTHERS = tuple(name for name in CHAIN_WORKERS if not name.startswith("eagle"))


def _admitting(admit: Admit) -> dict[str, Any]:
    """Return the fault in the loops of every drafter of chains."""

    def changed(loop: type[Loop]) -> Any:
        def _admit(self: Any, drafted: VerifyInput, limits: VerifyLimits | None, widths: Widths) -> Admitted | None:
            correct: Function = partial(loop._admit, self)
            admitted: Admitted | None = correct(drafted, limits, widths)
            return admitted if limits is None else admit(self, correct, drafted, limits, widths)

        return type(loop.__name__, (loop,), {"_admit": _admit})

    others = {}
    for name in OTHERS:
        made: Any = loop_of(name)
        others[name] = partial(changed(made.func), **made.keywords)
    return {"worker": changed(ReferenceWorker), "worker_v1": changed(ReferenceWorkerV1), "workers": others}


def _by_current_survivals(
    worker: Any, correct: Function, drafted: VerifyInput, limits: VerifyLimits, widths: Widths
) -> Admitted | None:
    """Verify as many drafts as these very drafts are expected to have accepted."""
    admitted: Admitted = require_present("admitted", correct(drafted, limits, widths))
    expected = int(np.multiply.accumulate(admitted.confidence, axis=1).sum())
    changed: Admitted = correct(drafted, replace(limits, budget=expected), widths)
    return changed


def _remainder_of_the_last(
    worker: Any, correct: Function, drafted: VerifyInput, limits: VerifyLimits, widths: Widths
) -> Admitted | None:
    """Verify further drafts of the last request in the rows that are left of the bucket."""
    admitted: Admitted = require_present("admitted", correct(drafted, limits, widths))
    lengths = admitted.verify_lens.copy()
    left = admitted.num_tokens - int(lengths.sum())
    lengths[-1] = min(int(lengths[-1]) + left, drafted.num_draft_tokens)
    return replace(admitted, verify_lens=lengths)


def _of_the_neighbour(
    worker: Any, correct: Function, drafted: VerifyInput, limits: VerifyLimits, widths: Widths
) -> Admitted | None:
    """Give each request the verify length of the one before it."""
    admitted: Admitted = require_present("admitted", correct(drafted, limits, widths))
    return replace(admitted, verify_lens=np.roll(admitted.verify_lens, 1))


def _blind_to_numbers(
    worker: Any, correct: Function, drafted: VerifyInput, limits: VerifyLimits, widths: Widths
) -> Admitted | None:
    """Admit drafts that requests do not have."""
    admitted: Admitted | None = correct(drafted, limits, replace(widths, own_steps=None))
    return admitted


class UngatedSide(DflashSide):
    """Stores the features of all rows of a verify, whether or not their tokens are committed."""

    def follow(
        self, start: DflashDraftInput, verify_input: VerifyInput, verify_output: VerifyOutput, config: Any, pools: Pools
    ) -> Followed[Array]:
        """Store everything, then what is committed."""
        features = require_present("hidden_states", verify_output.hidden_states)
        followed = super().follow(start, verify_input, verify_output, config, pools)
        self._store(verify_input.positions, verify_input.out_cache_loc, features, pools)
        return followed


class DraftsAloneSide(DflashSide):
    """Stores the features of as many rows as drafts were accepted: that of the last is missing."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        counts = phase.ctx_lens
        ends = np.cumsum(counts)
        is_last = np.isin(np.arange(len(phase.target_hidden)), ends - 1)
        has_rows = bool((counts > 1).any()) and len(phase.target_hidden) == int(counts.sum())
        if not has_rows or int(counts.max()) > self.parameters.block_size:
            super()._project(phase, pools)
            return
        shorter = replace(
            phase,
            target_hidden=phase.target_hidden[~is_last],
            ctx_lens=(counts - 1).astype(counts.dtype),
            draft_seq_lens=(phase.draft_seq_lens - 1).astype(phase.draft_seq_lens.dtype),
        )
        super()._project(shorter, pools)


_FAULTS: tuple[tuple[str, str, str, Admit], ...] = (
    ("OWN-4950", "schedule_verify_lens", "A budget is made of the survivals that it cuts.", _by_current_survivals),
    (
        "OWN-4951",
        "pad_verify_lens_to_bucket",
        "Rows that are left verify more of the last request.",
        _remainder_of_the_last,
    ),
    ("OWN-4952", "schedule_verify_lens", "Verify lengths are those of the neighbours.", _of_the_neighbour),
    ("OWN-4953", "schedule_verify_lens", "Drafts are admitted that a request does not have.", _blind_to_numbers),
)

MUTANTS = (
    *(Mutant(number, operation, fault, unchanged, **_admitting(admit)) for number, operation, fault, admit in _FAULTS),
    *mutants_of_sides(
        "cap_accepted_drafts",
        ("dflash_v2",),
        (
            ("OWN-4954", "Features of rows that are not committed enter the draft cache.", UngatedSide),
            ("OWN-4955", "Features of the accepted drafts enter without that of the root.", DraftsAloneSide),
        ),
    ),
)
