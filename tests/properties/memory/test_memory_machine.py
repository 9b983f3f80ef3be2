"""The machine over an engine's memory."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from specsim.conformance.backend import load
from specsim.properties.memory.machine import memory_machine
from specsim.properties.mutants import all_mutants

REFERENCE = load("specsim.reference")
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
QUICK = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def test_memory_survives_any_order_of_events():
    run_state_machine_as_test(memory_machine(REFERENCE), settings=QUICK)


def test_the_machine_finds_a_fault():
    mutant = MUTANTS["K01"]
    faulty = mutant.inject(REFERENCE.functions[mutant.operation])
    machine = memory_machine(REFERENCE.with_function(mutant.operation, faulty, mutant.id))
    # NOTE: one machine in seven shows it, and each run draws others.
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=300))
