"""A law of whole runs: users are handed one hidden state a token, that of the text before it, on every schedule."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import state_of_runs
from specsim.properties.laws.support.scheduled_runs import ScheduledRun, finished, play, scheduled_runs
from specsim.properties.laws.support.told import check_told
from specsim.simulation.worker import TellingWorker


def hidden_states_are_those_of_plain_decoding(backend: Backend, run: ScheduledRun) -> None:
    """Each output token comes with the hidden state that it was chosen from, in order, and nothing behind the end."""
    engine = run.engine(backend)
    if not isinstance(engine.worker, TellingWorker):
        return
    for _ in play(run, engine):
        pass
    for request in finished(engine):
        check_told(run.scenario.model, request)


@st.composite
def handed_runs(draw: DrawFn) -> ScheduledRun:
    """Draw runs of any schedule in which some requests are handed hidden states, and some scores as well or instead.

    Most have room for everybody and several requests to a batch, and one that has output something is retracted.
    """
    run = draw(scheduled_runs())
    asked = st.sampled_from(((None, True), (1, True), (None, True), (None, False), (0, False)))
    first, *others = run.scenario.arrivals
    arrivals = [replace(first, returns_hidden_states=True)]
    for one in others:
        top_logprobs, is_handed = draw(asked)
        arrivals.append(replace(one, top_logprobs=top_logprobs, returns_hidden_states=is_handed))
    scenario = replace(run.scenario, arrivals=tuple(draw(st.permutations(arrivals))))
    if draw(st.sampled_from((True, False, False))):
        return replace(run, scenario=scenario)
    resting = (draw(st.integers(2, 5)), draw(st.integers(0, 3)))
    return replace(
        run,
        scenario=replace(scenario, max_batch=4),
        retractions=(resting, *run.retractions[1:]),
        num_spare_slots=run.num_spare_slots + ROOM,
    )


ROOM = 80
"""Slots in which three more requests of these runs find place."""

PROPERTIES = (
    state_of_runs(
        "states_engine",
        hidden_states_are_those_of_plain_decoding,
        handed_runs,
        ("gather_output_logprobs", "compact_accepted_to_front"),
        "P28",
    ),
)
