"""Faults planted in the device's V1 worker, one at a time: books, phases or state show each of them."""

from dataclasses import replace

import numpy as np
import pytest

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker import carried, reclaim, stages, v1
from specsim.gpu.worker.pools import Pools
from specsim.phases import merge_batch
from specsim.rejection import SpecRejection
from specsim.simulation.synchronous import IterationLedger
from tests.gpu.worker.v1_runs import CHAIN, PERFECT, joining_and_leaving, pair
from tests.worker_faults import keeping_what_is_borrowed


def evicting(change):
    """Return ``evicted_nodes`` with one entry changed: where the mask is ``change``, the first becomes its opposite."""
    original = reclaim.evicted_nodes

    def evicted_nodes(*arguments):
        mask = original(*arguments)
        mask.flat[np.flatnonzero(mask == change)[:1]] = not change
        return mask

    return evicted_nodes


def reclaiming(**wrong):
    """Return ``reclaim`` that gives wrong fields to the requests that go on."""
    original = reclaim.reclaim

    def reclaimed(*arguments, **named):
        everyone, going_on = original(*arguments, **named)
        return everyone, replace(going_on, **{name: change(everyone, going_on) for name, change in wrong.items()})

    return reclaimed


def assigning_other_than_trees():
    """Return ``assign_slots`` that leaves ranges of four positions, which trees of a chain have, out of the map."""
    original = Pools.assign_slots

    def assign_slots(self, assigned):
        _, starts, ends, *_ = assigned
        if (ends - starts != 4).all():
            original(self, assigned)

    return assign_slots


def swapped(phase, other):
    """Join draft inputs in the wrong order, after rows in the right one."""
    return merge_batch(other, phase)


LEAKED = r"owners of slot \d+ = none"

FAULTS = {
    "freed one too many": (reclaim, "evicted_nodes", evicting(False), "DOUBLE_FREE: freed slots"),
    "kept one too many": (reclaim, "evicted_nodes", evicting(True), LEAKED),
    "lengths before verify": (
        v1,
        "reclaim",
        reclaiming(seq_lens=lambda _, phase: phase.seq_lens - phase.num_accepted_tokens),
        "seq_lens",
    ),
    "lengths of the first request": (
        v1,
        "reclaim",
        reclaiming(seq_lens=lambda everyone, phase: everyone.seq_lens[: len(phase.seq_lens)].clone()),
        "seq_lens",
    ),
    "slots of the first request": (
        v1,
        "reclaim",
        reclaiming(out_cache_loc=lambda everyone, phase: everyone.out_cache_loc[: len(phase.out_cache_loc)].clone()),
        "out_cache_loc",
    ),
    "merged in the wrong order": (carried, "merge_batch", swapped, "req_pool_indices"),
    "trees in slots that the map does not name": (
        Pools,
        "assign_slots",
        assigning_other_than_trees(),
        "VerifyOutput.target_predict",
    ),
    "restore forgotten": (IterationLedger, "borrow_draft_slots", keeping_what_is_borrowed, LEAKED),
    "nothing was committed": (IterationLedger, "commit", lambda *_, **__: None, LEAKED),
    "an old batch was replayed": (stages.Stages, "load", lambda *_: None, "DraftInput.req_pool_indices"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    place, name, planted, message = FAULTS[fault]
    monkeypatch.setattr(place, name, planted)
    asked, delays = joining_and_leaving()
    both = pair(CHAIN, asked[:3], 2, PERFECT, use_graphs=DEVICE.type == "cuda", pads=True)
    with pytest.raises((AssertionError, SpecRejection), match=message):
        both.play(asked[:3], delays[:3])
