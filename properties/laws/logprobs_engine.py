"""A law of whole runs: users are told one score a token, that of the text before it, whatever the worker drafted."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.conformance.backend import Backend
from specsim.host.sampling import SamplingParameters
from specsim.properties.laws.support.checks import state_of_runs
from specsim.properties.laws.support.histories import Scenario, own_worker, tree_scenarios
from specsim.properties.laws.support.told import check_told
from specsim.simulation.engine import Engine
from specsim.simulation.schedule import Schedule
from specsim.simulation.worker import TellingWorker

TEMPERATURES = (None, None, 0.7, 2.0)


@dataclass(frozen=True)
class ToldRun:
    """A run, and for each of its requests how many alternatives it asks for, and at which temperature it is sampled."""

    scenario: Scenario
    asked: tuple[int | None, ...]
    temperatures: tuple[float | None, ...]

    @property
    def schedules(self) -> tuple[Schedule, Schedule]:
        """In turn, and overlapped, where scores are asked for when another forward has been launched."""
        return Schedule(), Schedule(is_overlapped=True, stream_seed=self.scenario.shuffle_seed)


def tokens_are_told_of_as_plain_decoding_would(backend: Backend, run: ToldRun) -> None:
    """Each output token comes with the log-probability that a prefill of its text gives it, and so do alternatives."""
    scenario = run.scenario
    for schedule in run.schedules:
        worker = own_worker(backend, scenario)
        if not isinstance(worker, TellingWorker):
            return
        engine = Engine(worker, scenario.max_batch, scenario.shuffle_seed, schedule=schedule)
        for request, asked, temperature in zip(scenario.requests(), run.asked, run.temperatures, strict=True):
            request.top_logprobs = asked
            request.sampling = None if temperature is None else SamplingParameters(temperature, seed=request.request_id)
            engine.submit(request)
        for request in engine.run():
            check_told(scenario.model, request)


@st.composite
def told_runs(draw: DrawFn) -> ToldRun:
    """Draw runs on trees in which requests ask for different things, or for nothing."""
    scenario = draw(tree_scenarios())
    count = len(scenario.arrivals)
    others = st.lists(st.sampled_from((None, 0, 2)), min_size=count - 2, max_size=count - 2)
    asked = draw(st.permutations([draw(st.sampled_from((0, 1))), 3, *draw(others)]))
    temperatures = draw(st.lists(st.sampled_from(TEMPERATURES), min_size=count, max_size=count))
    return ToldRun(scenario, tuple(asked), tuple(temperatures))


PROPERTIES = (
    state_of_runs(
        "logprobs_engine", tokens_are_told_of_as_plain_decoding_would, told_runs, ("gather_output_logprobs",), "P28"
    ),
)
