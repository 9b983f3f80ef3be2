"""Faults in workers that show when an iteration verifies as many drafts as a budget admits."""

from collections.abc import Callable
from dataclasses import replace

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Mutant, in_loops, mutants_of_sides, unchanged
from specsim.properties.runs.drafters.faults_dflash import without_last_rows
from specsim.properties.runs.steps.laws_budgets import CHAIN_WORKERS
from specsim.reference.worker.loop import Loop
from specsim.simulation.draft_sides.dflash import BlockSide

WORKERS = (EAGLE_V1, EAGLE_V2, *(name for name in CHAIN_WORKERS if not name.startswith("eagle")))

_ADMITTED = "admit(drafted, limits, widths, self.model.description, self._operations)"


def _admitting(statements: str) -> Callable[[Function], Function]:
    """Inject what happens to what is admitted within limits."""
    instead = f"admitted = {_ADMITTED}\nif limits is None:\n    return None\n{statements}"
    return edited(f"return {_ADMITTED}", instead, within=Loop._admit, replace=replace)


_FAULTS = (
    ("OWN-4950", "schedule_verify_lens", "A budget is made of the survivals that it cuts.",
     _admitting("limits = replace(limits, budget=int(np.multiply.accumulate(admitted.confidence, axis=1).sum()))\n"
                f"return {_ADMITTED}")),
    ("OWN-4951", "pad_verify_lens_to_bucket", "Rows that are left verify more of the last request.",
     _admitting("lengths = admitted.verify_lens.copy()\n"
                "left = admitted.num_tokens - int(lengths.sum())\n"
                "lengths[-1] = min(int(lengths[-1]) + left, drafted.num_draft_tokens)\n"
                "return replace(admitted, verify_lens=lengths)")),
    ("OWN-4952", "schedule_verify_lens", "Verify lengths are those of the neighbours.",
     _admitting("return replace(admitted, verify_lens=np.roll(admitted.verify_lens, 1))")),
    ("OWN-4953", "schedule_verify_lens", "Drafts are admitted that a request does not have.",
     edited("widths", "replace(widths, own_steps=None)", within=Loop._admit, replace=replace)),
)  # fmt: skip

MUTANTS = (
    *(
        Mutant(number, operation, fault, unchanged, **in_loops(inject, *WORKERS))
        for number, operation, fault, inject in _FAULTS
    ),
    *mutants_of_sides("cap_accepted_drafts", ("dflash_v2",), (
        ("OWN-4954", "Features of rows that are not committed enter the draft cache.",
         edited("return Followed(committed, committed, tokens)",
                "everything = verify_input.positions, verify_input.out_cache_loc, verify_output.hidden_states\n"
                "self._store(*everything, pools)\n"
                "return Followed(committed, committed, tokens)",
                within="DflashSide.follow")),
        ("OWN-4955", "Features of the accepted drafts enter without that of the root.",
         edited("expect_phase(phase, PhaseTag.DFLASH_DRAFT)",
                "if (phase.ctx_lens > 1).any() and phase.ctx_lens.max() <= self.parameters.block_size:\n"
                "    phase = without_last_rows(phase, phase.ctx_lens > 0)",
                within=BlockSide._project, without_last_rows=without_last_rows)),
    )),
)  # fmt: skip
