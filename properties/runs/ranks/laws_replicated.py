"""Laws of whole runs of several ranks on the same requests: whatever each of them computes, all commit the same."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.host.ranks.local_ranks import LocalGroup, run_threads
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.ranks.padded_runs import ends_of, padded_runs, waiting_of
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.requests import Request

OfRank = Callable[[Any, int, int], Any]
"""Takes the rows of a model, a rank and the axis of tokens; returns the rows that the rank computes."""

FORWARDS = (
    *("prefill", "verify", "draft_step", "draft_extend"),
    *("draft_layer", "draft_frozen", "draft_block", "project_features"),
)
ROWS = ("logits", "sampling_logits", "probabilities")
"""What of the output of a forward has a row a token."""

CHANGED = 0.5
"""The share of values whose last bits a rank computes otherwise."""


class OfAnotherRank:
    """A model that says of every token what it would say of a neighbour, and does everything else like another model.

    The last bits of what ranks gather differ seldom and little; this differs always and much, so that one row that a
    rank decides by itself shows.
    """

    def __init__(self, model: Any, rank: int, roll: OfRank = np.roll) -> None:
        self.inner, self.description = model, model.description
        self._rank, self._roll = rank, roll
        for name in FORWARDS:
            setattr(self, name, partial(self._run, name))

    def _run(self, name: str, *args: Any) -> Any:
        """Run a forward of the other model; return its output with rows of a neighbour."""
        output = getattr(self.inner, name)(*args)
        if output is None:
            return None
        rows = {one: vars(output)[one] for one in ROWS if vars(output).get(one) is not None}
        return replace(output, **{one: self._roll(values, self._rank, 1) for one, values in rows.items()})


def with_last_bits(values: Any, rank: int, axis: int) -> Any:
    """Return rows whose two best entries tie, but for the last bits that ranks after the first compute otherwise."""
    del axis
    tied = np.minimum(values, np.partition(values, -2, axis=1)[:, -2:-1])
    if rank == 0 or not tied.size:
        return tied
    generator = np.random.default_rng((rank, tied.size))
    to = generator.choice([-1, 1], tied.shape)
    last_bits = tied + to if tied.dtype.kind == "i" else np.nextafter(tied, np.inf * to, dtype=tied.dtype)
    return np.where(generator.random(tied.shape) < CHANGED, last_bits, tied).astype(tied.dtype)


def ranks_of_one_batch_commit_the_same(backend: Backend, scenario: Scenario) -> None:
    """Each rank outputs and counts what the first one does, which is what it would alone; no rank leaves the others."""
    _require_same(backend, scenario, np.roll)


def last_bits_of_ranks_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """The same where what ranks compute differs in last bits alone, and those decide: the best tokens tie."""
    _require_same(backend, scenario, with_last_bits)


def _require_same(backend: Backend, scenario: Scenario, of_rank: OfRank) -> None:
    num_ranks, options = scenario.ranks.num_ranks, waiting_of(scenario)
    reported, lost = run_threads(num_ranks, partial(_run_one, backend, scenario, of_rank))
    require(not lost, "ranks that were given up", [str(one) for one in lost], "none")
    alone = Play(scenario, wrap=lambda model: OfAnotherRank(model, 0, of_rank), options=options)
    expected = ends_of(alone.run().finished)
    for rank, finished in enumerate(reported):
        got = ends_of(finished)
        require(got == expected, f"what requests of rank {rank} came to", got, expected)


def _run_one(backend: Backend, scenario: Scenario, of_rank: OfRank, group: LocalGroup) -> list[Request]:
    def wrap(model: Any) -> Any:
        return backend.host("OneVoiceModel")(OfAnotherRank(model, group.rank, of_rank), group)

    return Play(scenario, operations=parts_of(backend), wrap=wrap, options=waiting_of(scenario)).run().finished


@composite
def _shared_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run that two or three ranks play."""
    return draw(padded_runs(has_shares=False)).having(num_ranks=draw(st.integers(2, 3)))


PROPERTIES = states_of_runs(
    "one_voice_engine",
    (ranks_of_one_batch_commit_the_same, _shared_runs, ("OneVoiceModel",), "P57"),
    (last_bits_of_ranks_change_no_output, _shared_runs, ("OneVoiceModel",), "P57"),
    plays=(),
)
