"""Faults of whole engines are found in the cells that they live in, and in no others."""

import re
from dataclasses import dataclass, replace
from functools import partial

import pytest

from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import try_history
from specsim.properties.mutants import all_mutants
from specsim.properties.soak.history import replay
from specsim.properties.soak.shrinking import shrink
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.memory import prepare_for_decode
from specsim.simulation.scheduler import Scheduler

MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
MOST_HISTORIES = 5
"""As many as the smallest profile has."""

WRONG_KV = r"(target_kv|draft_kv)\[\d\] of request|output of request"
"""What a wrong entry shows as first: itself, or a token that was made of it."""


@dataclass(frozen=True)
class Planted:
    """A fault, the cells that have to find it with how they say it, and cells next to them, where it is none."""

    subject: Subject
    found_in: dict[str, str]
    not_found_in: tuple[str, ...]


def mutant(name):
    return Subject(MUTANTS[name].plant(REFERENCE))


class LateRelayWorker(ReferenceWorker):
    """Starts a draft from the top-k of the iteration before the last."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._late = self._waiting.carried["topk_index"].copy()

    def decode_from(self, read, rows, num_steps=None):
        """Run an iteration, and keep back what it found."""
        iteration = super().decode_from(read, rows, num_steps)
        latest = self._waiting.carried["topk_index"][list(rows)].copy()
        self._waiting.carried["topk_index"][list(rows)] = self._late[list(rows)]
        self._late[list(rows)] = latest
        return iteration


class CachingScheduler(Scheduler):
    """Leaves the whole text of an ended request to the prefix cache, whatever the draft has caught up on."""

    def finish(self):
        """Release every request that has ended."""
        for request in self.running:
            request.num_caught_up = None
        return super().finish()


def reserve_of_one_iteration(memory, batch, sizes):
    """Reserve what half as many nodes need."""
    return prepare_for_decode(memory, batch, replace(sizes, num_steps=1, num_draft_tokens=sizes.num_draft_tokens // 2))


def late_relay():
    return Subject(replace(REFERENCE, worker=LateRelayWorker))


def short_reserve():
    return Subject(REFERENCE.with_function("prepare_for_decode", reserve_of_one_iteration, "half of the reserve"))


APART = r"lockstep: iteration 0, Request\.output\[0, 0\] = "
"""A scheduler's fault beside the reference, which ours schedules."""

PLANTED = {
    "beams on a page of the text": Planted(
        mutant("OWN-726"),
        {"v2-page4-topk4-mha": "tree of request", "v2-page64-topk4-mha-cache": "tree of request"},
        ("v2-page1-topk4-mha", "v2-page4-topk1-mha"),
    ),
    "slots of pages in use freed by V1": Planted(
        mutant("OWN-700"),
        {"v1-page4-topk1-mha": "owners of page", "v1-page64-topk1-mha-cache": "owners of page"},
        ("v1-page1-topk4-mha", "v2-page4-topk1-mha"),
    ),
    "rejected tokens in the prefix cache": Planted(
        mutant("OWN-1127"),
        {"v2-page1-topk4-mha-cache": "SpecRejection: INCONSISTENT_LENGTHS: slots to insert"},
        ("v2-page1-topk4-mha",),
    ),
    "scratch in the prefix cache": Planted(
        mutant("OWN-1168"), {"v2-page1-topk1-mha-cache": WRONG_KV}, ("v2-page1-topk1-mha",)
    ),
    "branches of the draft in the prefix cache": Planted(
        Subject(replace(REFERENCE, scheduler=CachingScheduler)),
        {"v1-page1-topk1-mha-cache": WRONG_KV},
        ("v2-page1-topk1-mha-cache", "v1-page1-topk1-mha"),
    ),
    "the token after a chunk forgotten": Planted(
        mutant("OWN-1193"),
        dict.fromkeys(("v2-page1-topk4-mha-chunks", "v1-page16-topk1-mha-chunks"), APART),
        ("v2-page1-topk4-mha",),
    ),
    "rows read before they are written": Planted(
        mutant("OWN-610"), {"v2-page1-topk1-mha-overlap": WRONG_KV}, ("v2-page1-topk1-mha",)
    ),
    "half of the reserve": Planted(
        short_reserve(),
        {"v2-page1-topk1-mha-overlap": f"SpecRejection: COUNT_OUT_OF_RANGE: num_committed|{WRONG_KV}"},
        (),
    ),
    "a relay one iteration late": Planted(
        late_relay(),
        {"v2-page1-topk4-mha-overlap": "counters of request", "v2-page1-topk4-mha": "lockstep"},
        (),
    ),
}


def first_failure(subject, name):
    """Return the first failure of a cell in as many histories as the smallest profile has at least."""
    tried = (try_history(subject, cell_named(name), 0, number).failure for number in range(MOST_HISTORIES))
    return next((failure for failure in tried if failure is not None), None)


@pytest.mark.parametrize(
    ("name", "cell"), [(name, cell) for name, planted in PLANTED.items() for cell in planted.found_in]
)
def test_a_fault_is_found_in_its_cell(name, cell):
    failure = first_failure(PLANTED[name].subject, cell)
    assert failure is not None, f"{name} lives in {cell}"
    assert re.match(PLANTED[name].found_in[cell], failure.error), failure.error


@pytest.mark.parametrize(
    ("name", "cell"), [(name, cell) for name, planted in PLANTED.items() for cell in planted.not_found_in]
)
def test_a_fault_is_none_next_to_its_cell(name, cell):
    tried = try_history(PLANTED[name].subject, cell_named(cell), 0, 0)
    assert tried.failure is None


def test_a_failure_is_made_smaller():
    subject = PLANTED["slots of pages in use freed by V1"].subject
    failure = first_failure(subject, "v1-page4-topk1-mha")
    smallest = shrink(failure, partial(replay, subject), 60)
    assert len(smallest.actions) <= 2
    assert replay(subject, smallest.setup, smallest.actions) == smallest
    assert replay(Subject(REFERENCE), smallest.setup, smallest.actions) is None
