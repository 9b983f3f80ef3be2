"""Faults in the seeds that wait by row when positions are allocated ahead: the rows of whom, or of what width."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.phases import DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
from specsim.properties.mutants.record import mutants_of_sides
from specsim.reference.worker.pools import Pools
from specsim.simulation.draft_sides.frozen_kv_mtp import FrozenSide

Fault = Callable[[VerifyInput, VerifyOutput, DraftExtendInput], DraftExtendInput]


def _seeding(fault: Fault) -> type[FrozenSide]:
    """Return a side that keeps the seeds of other rows or other states."""

    class FaultySide(FrozenSide):
        def extend(
            self,
            row: Array,
            verify_input: VerifyInput,
            verify_output: VerifyOutput,
            phase: DraftExtendInput,
            seq_lens: Array,
            pools: Pools,
        ) -> DraftInput:
            changed = fault(verify_input, verify_output, phase)
            return super().extend(row, verify_input, verify_output, changed, seq_lens, pools)

    return FaultySide


def _of_the_root(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    return replace(phase, select_index=phase.select_index - output.num_accepted_drafts)


def _one_early(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    return replace(phase, select_index=phase.select_index - np.minimum(output.num_accepted_drafts, 1))


def _with_the_width_of_a_path(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    width = output.accept_index.shape[1]
    rows: Array = np.arange(len(phase.select_index)) * width + output.num_accepted_drafts
    return replace(phase, select_index=rows)


def _of_the_neighbour(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    return replace(phase, select_index=np.roll(phase.select_index, 1))


def _of_the_last_node(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    width = len(output.hidden_states) // len(phase.select_index)
    rows: Array = np.arange(1, len(phase.select_index) + 1) * width - 1
    return replace(phase, select_index=rows)


def _of_nodes_in_order(_: VerifyInput, output: VerifyOutput, phase: DraftExtendInput) -> DraftExtendInput:
    return replace(phase, hidden_states=output.hidden_states)


_FAULTS: tuple[tuple[str, str, Fault], ...] = (
    ("OWN-2655", "The seed that waits is the state of the root.", _of_the_root),
    ("OWN-2656", "The seed that waits is the state one row before the last.", _one_early),
    ("OWN-2657", "Rows of seeds are counted with the width of a path.", _with_the_width_of_a_path),
    ("OWN-2658", "The seed that waits is that of the neighbour.", _of_the_neighbour),
    ("OWN-2659", "Seeds are taken before the path is brought to the front.", _of_nodes_in_order),
    ("OWN-2661", "The seed that waits is the state of the last node.", _of_the_last_node),
)

MUTANTS = mutants_of_sides(
    "prepare_for_frozen_kv_draft",
    ["frozen_kv_mtp_v2"],
    [(number, summary, _seeding(fault)) for number, summary, fault in _FAULTS],
)
