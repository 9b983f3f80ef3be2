"""Laws of whole runs of several ranks on the same requests: whatever each of them computes, all commit the same."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import start
from specsim.properties.laws.support.local_ranks import LocalGroup, run_threads
from specsim.properties.laws.support.padded_runs import PaddedRun, padded_runs
from specsim.reference.models import load_model
from specsim.simulation.requests import Request


@dataclass(frozen=True)
class SharedRun:
    """A run that so many ranks play."""

    run: PaddedRun
    num_ranks: int


class OfAnotherRank:
    """A model that says of every token what it would say of a neighbour, and does everything else like another model.

    The last bits of what ranks gather differ seldom and little; this differs always and much, so that one row that a
    rank decides by itself shows.
    """

    def __init__(self, model: Any, rank: int, roll: Callable[[Any, int, int], Any] = np.roll) -> None:
        self.inner = model
        self.description = model.description
        self._rank = rank
        self._roll = roll

    def prefill(self, *args: Any) -> Any:
        """Run chunks of prompts."""
        return self._other(self.inner.prefill(*args))

    def verify(self, *args: Any) -> Any:
        """Run trees."""
        return self._other(self.inner.verify(*args))

    def draft_step(self, *args: Any) -> Any:
        """Run one token a beam."""
        return self._other(self.inner.draft_step(*args))

    def draft_extend(self, *args: Any) -> Any:
        """Run the tokens with which the draft catches up."""
        return self._other(self.inner.draft_extend(*args))

    def draft_layer(self, *args: Any) -> Any:
        """Run the window of a layer."""
        return self._other(self.inner.draft_layer(*args))

    def draft_frozen(self, *args: Any) -> Any:
        """Run one token a beam over the target's KV."""
        return self._other(self.inner.draft_frozen(*args))

    def draft_block(self, *args: Any) -> Any:
        """Run blocks."""
        return self._other(self.inner.draft_block(*args))

    def project_features(self, *args: Any) -> None:
        """Make KV of features."""
        self.inner.project_features(*args)

    def _other(self, output: Any) -> Any:
        names = ("logits", "sampling_logits", "probabilities")
        rows = {name: vars(output)[name] for name in names if vars(output).get(name) is not None}
        return replace(output, **{name: self._roll(values, self._rank, 1) for name, values in rows.items()})


def ranks_of_one_batch_commit_the_same(backend: Backend, shared: SharedRun) -> None:
    """Each rank outputs and counts what the first one does, which is what it would alone; no rank leaves the others."""
    reported, lost = run_threads(shared.num_ranks, partial(_run_one, backend, shared.run))
    require(not lost, "ranks that were given up", [str(one) for one in lost], "none")
    alone = start(shared.run.plain_worker(), shared.run.scenario)
    for request in shared.run.requests():
        alone.submit(request)
    alone.run()
    expected = _reported(alone.scheduler.finished)
    for rank, finished in enumerate(reported):
        got = _reported(finished)
        require(got == expected, f"what requests of rank {rank} came to", got, expected)


def _run_one(backend: Backend, run: PaddedRun, group: LocalGroup) -> list[Request]:
    operations = Completed(backend, load("specsim.reference"))
    own = OfAnotherRank(load_model(run.scenario.model, operations), group.rank)
    model = backend.host("OneVoiceModel")(own, group)
    engine = start(run.worker_on(model, operations=operations), run.scenario, backend)
    for request in run.requests():
        engine.submit(request)
    engine.run()
    return engine.scheduler.finished


def _reported(requests: list[Request]) -> list[Any]:
    return sorted((one.request_id, tuple(one.output), one.finish_reason, one.counters) for one in requests)


def _shared_runs() -> st.SearchStrategy[SharedRun]:
    return st.builds(SharedRun, padded_runs(has_shares=False), st.integers(2, 3))


PROPERTIES = (
    state_of_runs(
        "one_voice_engine", ranks_of_one_batch_commit_the_same, _shared_runs, ("OneVoiceModel",), "P57", plays=()
    ),
)
