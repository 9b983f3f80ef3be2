"""What a soak tries: an implementation, whose worker, operations, parts and scheduler take the place of ours."""

from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

from specsim.algorithms import Drafter
from specsim.conformance.backend import Backend, load
from specsim.properties.runs.play import loop_on, model_for, parts_of, rule_of
from specsim.properties.runs.ranks.padded_runs import padding_for
from specsim.properties.soak.setups import Setup
from specsim.rejection import WorkerRefusal
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.padded import PaddedModel
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
        return rule_of(setup).keys() <= signature(self.backend.workers[setup.worker_name]).parameters.keys()

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
        operations = None if self.is_reference else parts_of(self.backend)
        options: dict[str, Any] = {"reads": Reads.DRAWN} if operations is None else {}
        if not setup.is_padded:
            return loop_on(setup, operations, **options)
        if setup.drafter.extends and setup.is_v1:
            options["has_dp_attention"] = True
        pad = PaddedModel if operations is None else operations.host("PaddedModel")
        return loop_on(setup, operations, partial(pad, **setup.widths), **options)

    def own_worker(self, setup: Setup) -> Worker:
        """Return the worker that the implementation brings, or raise ``WorkerRefusal``."""
        model = model_for(self.backend, setup.model)
        if setup.is_padded:
            pad = parts_of(self.backend).host("PaddedModel")
            model = pad(model, **setup.widths, **padding_for(self.backend))
        worker: Worker = self.backend.build_worker(
            setup.worker_name, setup.drafting.sizes, model, setup.sizes(), **rule_of(setup)
        )
        return worker
