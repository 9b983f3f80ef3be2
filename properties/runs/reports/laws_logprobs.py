"""A law of whole runs: users get one score a token, that of the text before it, whatever the worker drafted."""

from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.conformance.backend import Backend
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.laws.checks import state_of_runs
from specsim.properties.runs.histories import tree_scenarios
from specsim.properties.runs.play import Play
from specsim.properties.runs.reports.reported import check_reported
from specsim.properties.runs.scenario import Scenario
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


PROPERTIES = (
    state_of_runs(
        "logprobs_engine", tokens_are_told_of_as_plain_decoding_would, reported_runs, ("gather_output_logprobs",), "P28"
    ),
)
