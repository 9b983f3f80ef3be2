"""A law of whole runs: users get one score a token, that of the text before it, whatever the worker drafted."""

from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.conformance.backend import Backend
from specsim.host.sampling import SamplingParameters
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import state_of_runs
from specsim.properties.laws.support.histories import Scenario, own_worker, parts_of, tree_scenarios
from specsim.properties.laws.support.reported import check_reported
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.schedule import Schedule
from specsim.simulation.worker import is_telling

ValueT = TypeVar("ValueT")

NOT_ONE = (0.7, 2.0)
TEMPERATURES = (None, None, *NOT_ONE)


@dataclass(frozen=True)
class ReportedRun:
    """A run, and what each of its requests asks for.

    How many alternatives, which listed tokens, whether scores at temperature 1, and the temperature it is sampled at.
    """

    scenario: Scenario
    asked: tuple[int | None, ...]
    listed: tuple[tuple[int, ...], ...]
    originals: tuple[bool, ...]
    temperatures: tuple[float | None, ...]

    @property
    def schedules(self) -> tuple[Schedule, Schedule]:
        """In turn, and overlapped, where scores are asked for when another forward has been launched."""
        return Schedule(), Schedule(is_overlapped=True, stream_seed=self.scenario.shuffle_seed)


def tokens_are_told_of_as_plain_decoding_would(backend: Backend, run: ReportedRun) -> None:
    """Each output token comes with the log-probability that a prefill of its text gives it.

    So do alternatives and the tokens that its request lists.
    """
    scenario = run.scenario
    for schedule in run.schedules:
        worker = own_worker(backend, scenario)
        if not is_telling(worker):
            because = f"{worker.name} has no told()"
            raise WorkerRefusal(
                SpecRejection(Reason.BAD_CONFIGURATION, what="top_logprobs", got=0, expected="None", because=because)
            )
        operations = parts_of(backend)
        engine = Engine(worker, scenario.max_batch, scenario.shuffle_seed, schedule=schedule, operations=operations)
        asking = zip(run.asked, run.listed, run.originals, run.temperatures, strict=True)
        for request, (asked, listed, is_original, temperature) in zip(scenario.requests(), asking, strict=True):
            request.top_logprobs = asked
            if asked is not None:
                request.token_ids_logprob, request.has_original_logprobs = listed, is_original
            request.sampling = None if temperature is None else SamplingParameters(temperature, seed=request.request_id)
            engine.submit(request)
        for request in engine.run():
            check_reported(scenario.model, request)


@composite
def reported_runs(draw: DrawFn) -> ReportedRun:
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
    return ReportedRun(scenario, tuple(asked), tuple(listed), tuple(originals), tuple(temperatures))


PROPERTIES = (
    state_of_runs(
        "logprobs_engine", tokens_are_told_of_as_plain_decoding_would, reported_runs, ("gather_output_logprobs",), "P28"
    ),
)
