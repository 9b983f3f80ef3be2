"""A law of whole runs: users are handed one hidden state a token, that of the text before it, on every schedule."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import state_of_runs
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.play import Play
from specsim.properties.runs.reports.reported import check_reported
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.properties.runs.schedules.scheduled_runs import scheduled_runs
from specsim.simulation.worker import is_telling


def hidden_states_are_those_of_plain_decoding(backend: Backend, scenario: Scenario) -> None:
    """Each output token comes with the hidden state that it was chosen from, in order, and nothing after the end.

    Each run is played on V2, and in turn on V1 if that takes its trees on its pages.
    """
    runs = [scenario]
    if scenario.room.page_size == 1 or scenario.config.topk == 1:
        runs.append(scenario.having(is_v1=True, is_overlapped=False))
    for one in runs:
        play = Play(one, backend, has_own_scheduler=True)
        if is_telling(play.worker):
            for request in play.run().finished:
                check_reported(one.model, request)


def handed_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of runs that hand out hidden states; the simplest is one of neighbours."""
    return st.one_of(neighbouring_runs(), schedules_that_hand())


@composite
def neighbouring_runs(draw: DrawFn) -> Scenario:
    """Draw requests of different texts that are decoded side by side for a while, and are all handed hidden states.

    Their prompts most often run in chunks, and one that has output something loses its slots and comes back.
    """
    run = draw(scheduled_runs(is_v1=False))
    token = st.integers(0, VOCABULARY - 1)
    prompts = draw(st.lists(st.lists(token, min_size=3, max_size=5), min_size=2, max_size=3))
    length = draw(st.sampled_from((12, 9)))
    arrivals = [Arrival((number, *prompt), length, returns_hidden_states=True) for number, prompt in enumerate(prompts)]
    size = run.room.page_size
    return run.having(
        arrivals=tuple(arrivals),
        max_batch=len(arrivals),
        prefill_chunk=draw(st.sampled_from((size + 1, None, size))),
        aborts=(),
        retractions=((draw(st.sampled_from((5, 4, 6))), draw(st.integers(0, 2))),),
        num_spare_slots=(run.room.num_spare_slots or 0) + ROOM,
    )


@composite
def schedules_that_hand(draw: DrawFn) -> Scenario:
    """Draw runs of any schedule in which some requests are handed hidden states, and some scores as well or instead.

    Most have room for everybody and several requests to a batch, all of which last for some iterations and are handed
    states, and one that has output something is retracted.
    """
    run = draw(scheduled_runs(is_v1=False))
    asked = st.sampled_from(((None, True), (1, True), (None, True), (None, False), (0, False)))
    first, *others = run.arrivals
    arrivals = [replace(first, returns_hidden_states=True)]
    for one in others:
        top_logprobs, is_handed = draw(asked)
        arrivals.append(replace(one, top_logprobs=top_logprobs, returns_hidden_states=is_handed))
    if draw(st.sampled_from((True, False, False))):
        return run.having(arrivals=tuple(draw(st.permutations(arrivals))))
    lasting = [replace(one, max_new_tokens=12, eos_token=None, step=0, returns_hidden_states=True) for one in arrivals]
    resting = (draw(st.sampled_from((4, 3, 5, 6))), draw(st.integers(0, 3)))
    return run.having(
        arrivals=tuple(draw(st.permutations(lasting))),
        max_batch=4,
        retractions=(resting, *run.course.retractions[1:]),
        num_spare_slots=(run.room.num_spare_slots or 0) + ROOM,
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
        weight=2,
    ),
)
