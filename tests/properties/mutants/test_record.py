"""Faults in parts of workers: made when a run asks for them, and offered to it as the correct part is."""

from inspect import signature

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.record import in_loops, in_scheduler, mutants_of_sides, unchanged, with_facts
from specsim.reference.worker.sides.ngram import NgramSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.loops import loop_of
from specsim.simulation.scheduler import Scheduler


def test_loops_stand_where_a_mutant_has_them_and_take_what_correct_ones_take():
    parts = in_loops(unchanged, EAGLE_V1, EAGLE_V2, "dflash")
    assert parts["workers"].keys() == {"dflash"}
    for made, loop in ((parts["worker"], ReferenceWorker), (parts["worker_v1"], ReferenceWorkerV1)):
        assert signature(made).parameters.keys() == signature(loop).parameters.keys()


def test_a_fault_is_injected_once_and_not_before_a_run_asks_for_it():
    asked = []

    def inject(correct):
        asked.append(correct)
        return lambda *given, **named: given

    make = in_scheduler(inject)["scheduler"]
    assert asked == []
    assert (make(1), make(2), asked) == ((1,), (2,), [Scheduler])


def test_facts_of_a_side_are_others():
    made = []

    def inject(correct):
        made.append(with_facts(counts_only_output=True)(correct))
        return lambda *given: made[0]

    (mutant,) = mutants_of_sides("NgramStore", ["ngram"], [("X1", "Counts as another drafter.", inject)])
    assert mutant.workers["ngram"].func is loop_of("ngram").func
    assert mutant.workers["ngram"].keywords["make_side"](None) is made[0]
    assert issubclass(made[0], NgramSide)
