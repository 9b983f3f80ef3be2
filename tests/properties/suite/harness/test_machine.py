import runpy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from specsim.properties.harness import WorkerMachine
from specsim.properties.soak.drawing import draw_ranked, draw_setup
from specsim.rejection import Reason, SpecRejection

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "my_worker_machine.py"


def small_setups(random):
    """Draw the smallest trees: interpreted kernels take their time."""
    setup = draw_setup(random)
    few = min(setup.room.max_batch, 2)
    return setup.having(longest_prompt=4, longest_output=6, max_batch=few, has_sampling=False)


class ReferenceMachine(WorkerMachine):
    implementation = "specsim.reference"


class PaddedMachine(ReferenceMachine):
    draw = staticmethod(draw_ranked)


class KernelMachine(WorkerMachine):
    implementation = "specsim.gpu"
    draw = staticmethod(small_setups)


class NamelessMachine(WorkerMachine):
    pass


def run(machine, examples, steps, phases=(Phase.generate, Phase.shrink)):
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        phases=phases,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


@pytest.mark.parametrize(
    ("machine", "examples", "steps"), [(ReferenceMachine, 30, 25), (PaddedMachine, 3, 12), (KernelMachine, 2, 4)]
)
def test_engine_survives_any_order_of_events(machine, examples, steps):
    phases = (Phase.generate, Phase.shrink) if machine is ReferenceMachine else (Phase.generate,)
    run(machine, examples, steps, phases)


def test_a_machine_says_what_it_tries():
    with pytest.raises(SpecRejection) as caught:
        NamelessMachine.subject()
    assert caught.value.reason is Reason.MISSING_ARGUMENT


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def test_the_example_runs_its_own_worker(example):
    setups = []

    class Watched(example["MyMachine"]):
        def teardown(self):
            setups.append((type(self.machine.engine.worker), self.machine.setup.is_v1))
            super().teardown()

    run(Watched, 4, 10)
    assert {worker for worker, _ in setups} == {example["MyWorker"]}
    assert {is_v1 for _, is_v1 in setups} == {False}


def test_the_example_finds_a_planted_fault(example):
    class ForgetfulWorker(example["MyWorker"]):
        """Writes the slots of three requests of a turn, and forgets those of others."""

        def assign_slots(self, ranges):
            super().assign_slots(ranges[:3])

    class ForgetfulMachine(example["MyMachine"]):
        worker = ForgetfulWorker

    # NOTE: one machine in three shows it.
    with pytest.raises(AssertionError):
        run(ForgetfulMachine, 100, 20, phases=(Phase.generate,))


def test_a_failing_history_is_reported_action_by_action(example, capsys):
    class StuckWorker(example["MyWorker"]):
        """Fails at its second prefill."""

        count = 0

        def prefill(self, rows, chunks):
            self.count += 1
            assert self.count < 2
            return super().prefill(rows, chunks)

    class StuckMachine(example["MyMachine"]):
        worker = StuckWorker

    with pytest.raises(AssertionError) as caught:
        run(StuckMachine, 50, 20, phases=(Phase.generate,))
    reported = "\n".join(caught.value.__notes__)
    assert "state.admit" in reported
    assert "\nadmit Arrival(prompt=" in reported
