"""What a soak tries: an implementation, whose worker, operations, parts and scheduler take the place of ours."""

from dataclasses import dataclass, replace
from inspect import signature

from specsim.algorithms import Drafter
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.runs.play import model_for
from specsim.properties.runs.ranks.padded_runs import padding_for
from specsim.properties.soak.loops import reference_loop
from specsim.properties.soak.setups import Setup
from specsim.rejection import WorkerRefusal
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.worker import Worker

REFERENCE = load("specsim.reference")


@dataclass(frozen=True)
class Subject:
    """What is tried.

    Its own worker takes the place of the reference's, if it has one of that kind; otherwise its operations do. Its
    scheduler takes the place of ours.
    """

    backend: Backend

    def brought(self, name: str) -> Drafter | None:
        """Return the record of a drafter that the implementation brings, None if it brings none of the name."""
        return self.backend.drafters.get(name)

    def has_own_worker(self, setup: Setup) -> bool:
        """Return whether the implementation brings the loop that a setup needs."""
        return setup.worker_name in self.backend.workers

    def takes_rule(self, setup: Setup) -> bool:
        """Return whether the implementation's own loop takes the rule by which a setup accepts drafts."""
        return setup.rule.keys() <= signature(self.backend.workers[setup.worker_name]).parameters.keys()

    def has_own_drafts(self, setup: Setup) -> bool:
        """Return whether a setup's loop drafts what no reference drafts, so that outputs alone are compared."""
        return self.backend.has_own_drafts(setup.worker_name)

    @property
    def is_reference(self) -> bool:
        """Whether the functions of the reference are tried, as they are."""
        return replace(self.backend, name=REFERENCE.name, scheduler=None) == REFERENCE

    def worker(self, setup: Setup) -> Worker:
        """Return the worker that is tried.

        The loop runs what one of the implementation's refuses by name, where there are functions to run it on.
        """
        if self.has_own_worker(setup):
            try:
                return self.own_worker(setup)
            except WorkerRefusal:
                if not self.backend.functions:
                    raise
        if self.is_reference:
            return reference_loop(setup, is_padded=setup.is_padded, reads=Reads.DRAWN)
        operations = Completed(self.backend, REFERENCE)
        return reference_loop(setup, operations=operations, is_padded=setup.is_padded)

    def own_worker(self, setup: Setup) -> Worker:
        """Return the worker that the implementation brings, or raise ``WorkerRefusal``."""
        model = model_for(self.backend, setup.model)
        if setup.is_padded:
            pad = Completed(self.backend, REFERENCE).host("PaddedModel")
            model = pad(model, **setup.widths, **padding_for(self.backend))
        worker: Worker = self.backend.build_worker(
            setup.worker_name, setup.drafting, model, setup.sizes(), **setup.rule
        )
        return worker
