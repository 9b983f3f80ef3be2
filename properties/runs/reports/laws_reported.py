"""Laws of whole runs: users get one score and one hidden state a token, those of the text before it."""

from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.conformance.backend import Backend
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.laws.checks import states_of_runs
from specsim.properties.runs.histories import VOCABULARY, tree_scenarios
from specsim.properties.runs.play import Play
from specsim.properties.runs.reports.reported import check_reported
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.properties.runs.schedules.scheduled_runs import scheduled_runs
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.worker import is_telling

ValueT = TypeVar("ValueT")

NOT_ONE = (0.7, 2.0)
TEMPERATURES = (None, None, *NOT_ONE)


def tokens_are_told_of_as_plain_decoding_would(backend: Backend, scenario: Scenario) -> None:
    """Each output token comes with the log-probability that a prefill of its text gives it.

    So do alternatives and the tokens that its request lists. Each run is played in turn, and overlapped, where scores
    are asked for when another forward has been launched.
    """
    for is_overlapped in (False, True):
        play = Play(scenario.having(is_overlapped=is_overlapped), backend)
        if not is_telling(play.worker):
            because = f"{play.worker.name} has no told()"
            raise WorkerRefusal(
                SpecRejection(Reason.BAD_CONFIGURATION, what="top_logprobs", got=0, expected="None", because=because)
            )
        for request in play.run().requests:
            check_reported(scenario.model, request)


@composite
def reported_runs(draw: DrawFn) -> Scenario:
    """Draw runs on trees in which requests ask for different things, or for nothing.

    One that asks is sampled hot or cold and wants scores as at temperature 1, where the two differ.
    """
    scenario = draw(tree_scenarios())
    count = len(scenario.arrivals)
    others = st.lists(st.sampled_from((None, 0, 2)), min_size=count - 2, max_size=count - 2)
    asked = draw(st.permutations([draw(st.sampled_from((0, 1))), 3, *draw(others)]))

    def each(values: SearchStrategy[ValueT]) -> list[ValueT]:
        return draw(st.lists(values, min_size=count, max_size=count))

    token = st.integers(0, scenario.model.vocab_size - 1)
    listed = each(st.lists(token, max_size=3).map(tuple))
    originals, temperatures = each(st.booleans()), each(st.sampled_from(TEMPERATURES))
    differs = draw(st.sampled_from([place for place, number in enumerate(asked) if number is not None]))
    originals[differs], temperatures[differs] = True, draw(st.sampled_from(NOT_ONE))
    arrivals = [
        replace(
            one,
            top_logprobs=number,
            token_ids_logprob=() if number is None else tokens,
            has_original_logprobs=number is not None and is_original,
            sampling=None if temperature is None else SamplingParameters(temperature, seed=seed),
        )
        for seed, (one, number, tokens, is_original, temperature) in enumerate(
            zip(scenario.arrivals, asked, listed, originals, temperatures, strict=True)
        )
    ]
    return scenario.having(arrivals=tuple(arrivals), stream_seed=scenario.room.shuffle_seed)


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

_GATHERED, _COMPACTED = "gather_output_logprobs", "compact_accepted_to_front"

PROPERTIES = (
    *states_of_runs(
        "logprobs_engine", (tokens_are_told_of_as_plain_decoding_would, reported_runs, (_GATHERED,), "P28")
    ),
    *states_of_runs(
        "states_engine",
        (hidden_states_are_those_of_plain_decoding, handed_runs, (_GATHERED, _COMPACTED), "P28", {"weight": 2}),
    ),
)
