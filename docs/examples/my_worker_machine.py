"""A decode loop of one's own as a state machine for Hypothesis: ``python -m pytest my_worker_machine.py``."""

from hypothesis.stateful import invariant

from specsim.properties import harness
from specsim.reference.worker.v2 import ReferenceWorker


class MyWorker(ReferenceWorker):
    """The loop that is tried; one that inherits nothing has the methods of ``specsim.simulation.worker.Worker``."""


class MyMachine(harness.WorkerMachine):
    """Everything that a soak does to an engine, and one invariant more."""

    worker = MyWorker

    @invariant()
    def waiting_requests_have_no_row(self):
        """No request is in the batch and in the queue at once."""
        if self.machine is not None:
            scheduler = self.machine.engine.scheduler
            assert not {one.request_id for one in scheduler.waiting} & {one.request_id for one in scheduler.holders}


TestMyWorker = MyMachine.TestCase
