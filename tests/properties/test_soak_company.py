"""Batches of a soak are padded to buckets that change, run idle and beside another rank; faults of these show."""

from dataclasses import replace
from random import Random

import pytest

from specsim.config import SpecConfig
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.drawing import draw_setup, with_padding
from specsim.properties.soak.history import replay
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.padding import BUCKETS
from specsim.properties.soak.rules import Action, apply_action
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.events import Tag
from specsim.simulation.models.agreement import ForwardKind
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.padded import PaddedModel
from specsim.simulation.ranks import Meeting
from specsim.simulation.schedule import Schedule

STEP, NO_ONE = Action("step"), Action("idle batch")
EVERYBODY = [Action("admit", Arrival((3, 1, 4, 1, number), 16)) for number in range(2)]
NEXT_DOOR = Action("admit next door", Arrival((2, 7, 1), 8))
PADDED = {"is_padded": True}
RANKED = {"is_padded": True, "num_ranks": 2}


def machine_with(is_v1=False, is_overlapped=False, **company):
    return setup_of(
        SpecConfig(2, 2, 4),
        HashModel(VOCABULARY, 5, 0.9),
        2,
        Schedule(is_overlapped=is_overlapped, has_prefix_cache=True),
        is_v1=is_v1,
        longest_output=16,
        num_spare_slots=80,
        **company,
    )


def changing_buckets():
    """Change buckets back and forth while two requests run."""
    changes = [Action("change buckets", place) for place in (4, 3, 2, 0)]
    return [*EVERYBODY, *(one for change in changes for one in (change, STEP))]


def beside_another():
    """Let each rank wait for the other once."""
    return [*EVERYBODY, STEP, NEXT_DOOR, STEP, *[STEP] * 8, NEXT_DOOR, STEP, STEP, EVERYBODY[0], STEP]


def with_model(model):
    return Subject(REFERENCE.with_function("PaddedModel", model, "somebody's"))


def with_worker(worker):
    return Subject(replace(REFERENCE, worker=worker))


class StaleInput(PaddedModel):
    """Reads, in the first verify of another bucket, the token ids that the bucket before had."""

    held = None

    def _enter(self, kind, *args):
        before, padded = super()._enter(kind, *args)
        if kind is ForwardKind.VERIFY:
            stale, self.held = self.held, padded.input_ids
            if stale is not None and len(stale) > len(self.held):
                padded = replace(padded, input_ids=stale[: len(self.held)])
        return before, padded


class ReplayingModel(PaddedModel):
    """Runs the slots of its last prompts again where it should run rows of padding."""

    last = None

    def prefill(self, batch, *pools):
        self.last = batch, pools
        return super().prefill(batch, *pools)

    def run_padding(self, kind, *args):
        super().run_padding(kind, *args)
        if kind is ForwardKind.TARGET_PREFILL and self.last is not None:
            batch, pools = self.last
            self.inner.prefill(replace(batch, input_ids=batch.input_ids * 0), *pools)


class LeavingMeeting(Meeting):
    """Leaves the others when nothing is to be done here."""

    def attend(self):
        return False


class ForgettingWorker(ReferenceWorker):
    """Takes the lengths of all rows for those of a batch, and brings them back to 1 where that has no row."""

    def decode(self, rows, num_steps=None):
        iteration = super().decode(rows, num_steps)
        if not rows:
            self._waiting.carried["seq_lens"][:] = 1
        return iteration


class WritingWorker(ReferenceWorker):
    """Lets an iteration without requests write the first slot after the dump."""

    def decode_from(self, read, rows, num_steps=None):
        iteration = super().decode_from(read, rows, num_steps)
        if not rows:
            for layers in self._pools.kv.values():
                layers.layers()[0][1] = 0
        return iteration


class LongestWorker(ReferenceWorker):
    """Asks for the longest of no requests."""

    def decode(self, rows, num_steps=None):
        self.longest = self._waiting.carried["seq_lens"][list(rows)].max()
        return super().decode(rows, num_steps)


def without(name, actions):
    return [one for one in actions if one.rule != name]


@pytest.mark.parametrize("is_overlapped", [False, True], ids=["in turn", "overlapped"])
def test_buckets_change_while_requests_run(is_overlapped):
    setup = machine_with(is_overlapped=is_overlapped, **PADDED)
    assert replay(Subject(REFERENCE), setup, changing_buckets()) is None
    assert replay(Subject(REFERENCE), setup.having(is_v1=True, schedule=Schedule()), changing_buckets()) is None


def test_padded_rows_and_other_buckets_are_counted():
    machine = Machine(Subject(REFERENCE), machine_with(**PADDED))
    for action in changing_buckets():
        assert apply_action(machine, action)
    assert (machine.reach.counts[Tag.PAD], machine.reach.counts[Tag.BUCKET]) == (2, 3)
    assert machine.padding.buckets == BUCKETS[0]


def test_what_a_bucket_keeps_of_another_one_is_found():
    subject, setup = with_model(StaleInput), machine_with(**PADDED)
    assert replay(subject, setup, changing_buckets()).error.startswith("lockstep: iteration 2, ")
    assert replay(subject, setup, without("change buckets", changing_buckets())) is None


def test_workers_of_somebody_run_on_padded_forwards_too():
    machine = Machine(with_worker(ReferenceWorker), machine_with(**PADDED))
    assert isinstance(machine.engine.worker.model, PaddedModel)


@pytest.mark.parametrize("company", [{}, PADDED], ids=["plain", "padded"])
def test_iterations_run_without_requests(company):
    actions = [NO_ONE, *EVERYBODY, STEP, NO_ONE, STEP, NO_ONE, NO_ONE, *[STEP] * 12, NO_ONE, EVERYBODY[1]]
    for is_v1, is_overlapped in ((False, False), (False, True), (True, False)):
        assert replay(Subject(REFERENCE), machine_with(is_v1, is_overlapped, **company), actions) is None


def test_v1_keeps_its_batch_as_long_as_requests_run():
    machine = Machine(Subject(REFERENCE), machine_with(is_v1=True))
    for action in (EVERYBODY[0], STEP):
        apply_action(machine, action)
    assert not apply_action(machine, NO_ONE)
    with pytest.raises(SpecRejection) as caught:
        machine.engine.run_idle_batch()
    assert caught.value.reason is Reason.WRONG_PHASE


@pytest.mark.parametrize("worker", [ForgettingWorker, WritingWorker, LongestWorker], ids=lambda worker: worker.__name__)
def test_what_an_idle_iteration_does_to_others_is_found(worker):
    actions = [*EVERYBODY, STEP, NO_ONE]
    failure = replay(with_worker(worker), machine_with(), actions)
    assert failure is not None
    assert failure.actions[-1] == NO_ONE
    assert replay(with_worker(worker), machine_with(), without("idle batch", actions)) is None


@pytest.mark.parametrize("worker", [None, ReferenceWorker], ids=["the reference's", "somebody's"])
@pytest.mark.parametrize(("is_v1", "is_overlapped"), [(False, False), (False, True), (True, False)], ids=str)
def test_ranks_run_their_forwards_together(is_v1, is_overlapped, worker):
    subject = Subject(replace(REFERENCE, worker=worker, worker_v1=worker and ReferenceWorkerV1))
    assert replay(subject, machine_with(is_v1, is_overlapped, **RANKED), beside_another()) is None


def test_turns_of_ranks_are_counted_and_who_waits_in_them():
    machine = Machine(Subject(REFERENCE), machine_with(**RANKED))
    for action in (NEXT_DOOR, STEP, *EVERYBODY, STEP):
        assert apply_action(machine, action)
    counts = machine.reach.counts
    assert (counts[Tag.RANKS], counts[Tag.IDLE_RANK], counts[Tag.IDLE]) == (2, 1, 1)
    assert machine.neighbour.engine.num_iterations == 2


def test_what_a_rank_does_while_it_waits_is_found():
    subject, setup = with_model(ReplayingModel), machine_with(**RANKED)
    failure = replay(subject, setup, beside_another())
    assert failure is not None
    assert failure.kind == "AssertionError"
    assert replay(subject, setup, without("admit next door", beside_another())) is None


def test_a_rank_that_leaves_is_found():
    subject = Subject(REFERENCE.with_function("Meeting", LeavingMeeting, "somebody's"))
    failure = replay(subject, machine_with(**RANKED), beside_another())
    assert failure.error.startswith("ranks that were given up = ['rank ")
    assert replay(subject, machine_with(**PADDED), beside_another()) is None


def test_of_machines_whose_sizes_never_change_one_in_three_is_padded():
    drawn = [with_padding(draw_setup(Random(number))) for number in range(200)]
    padded = [one for one in drawn if one.is_padded]
    assert all(not one.candidates and not one.others for one in padded)
    assert 20 < len(padded) < 65
    assert 5 < sum(one.is_ranked for one in padded) < 25
