"""A scenario played on an implementation: its worker, its engine, and what can be observed after each step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from types import MappingProxyType
from typing import Any, cast

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.acceptance import Acceptance
from specsim.host.stopping import Finish, FinishReason, StopRules
from specsim.phases import Phase, VerifyInput
from specsim.properties.property import OF_EAGLE
from specsim.properties.runs.scenario import Scenario
from specsim.reference.models import load_model
from specsim.rejection import SpecRejection, WorkerRefusal
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.comparing.history import Divergence, first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.events import Observer, ignore
from specsim.simulation.loops import loop_of
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.needs import fields_for
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.turns.fitting import require_schedule
from specsim.simulation.verification import Budget, Verification
from specsim.simulation.worker import Iteration, Worker

MOST_STEPS = 400
"""Steps beside one a token after which a run is taken to go on for ever."""

Compare = Callable[[int, tuple[Phase, ...], tuple[Phase, ...]], Divergence | None]

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})

Wrap = Callable[[Any], Any]
"""Returns the model that a worker runs in the place of the one that it is given."""


class Noted:
    """Calls a function, and keeps what it was given and what it returned, call by call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[tuple[tuple[Any, ...], Any]] = []

    def __call__(self, *given: Any) -> Any:
        """Call it."""
        self.calls.append((given, self._function(*given)))
        return self.calls[-1][1]


class Play:
    """A scenario on its way: the engine with its worker, and the requests.

    ``numbers`` and ``budgets`` keep what the schedule chose for each iteration, in the order of the launches.

    Parameters
    ----------
    backend : Backend or None
        Whose worker and decisions these are; None for the reference's.
    operations : CallsByName or None
        What the engine calls in the place of the implementation; without one, what the reference's loop calls too.
    worker : Worker or None
        What runs in the place of the implementation's own worker.
    has_own_scheduler : bool
        Whether the implementation's scheduler takes the place of ours, if it has one.
    make_scheduler : callable
        Makes the scheduler where it is not the implementation's.
    wrap : callable
        What the worker gets of its model.
    options : mapping
        What the worker takes beside drafts, model and pools.

    Raises
    ------
    WorkerRefusal
        The worker does not take the scenario.
    """

    def __init__(
        self,
        scenario: Scenario,
        backend: Backend | None = None,
        *,
        operations: CallsByName | None = None,
        worker: Worker | None = None,
        has_own_scheduler: bool = False,
        make_scheduler: Callable[..., Any] = Scheduler,
        observer: Observer = ignore,
        wrap: Wrap | None = None,
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> None:
        self.scenario = scenario
        self.requests = scenario.requests()
        if worker is None:
            if backend is None:
                worker = loop_on(scenario, operations, wrap, **options)
            else:
                worker = own_worker(backend, scenario, wrap, **options)
        self.worker = worker
        _require_fitting(worker, scenario.schedule)
        if operations is None and backend is not None:
            operations = parts_of(backend)
        schedule, adapting = self._noting(scenario.schedule), scenario.drafting.adapting
        self.engine = Engine(
            self.worker,
            scenario.room.max_batch,
            scenario.room.shuffle_seed,
            adaptive=None if adapting is None else adapting.controller(backend),
            schedule=schedule,
            operations=operations,
            observer=observer,
            make_scheduler=backend.make_scheduler(Scheduler) if backend and has_own_scheduler else make_scheduler,
        )

    @property
    def finished(self) -> list[Request]:
        """The requests that have ended, by number."""
        return sorted(self.engine.scheduler.finished, key=lambda request: request.request_id)

    def turns(self, checks_ledger: bool = False) -> Iterator[Iteration | None]:
        """Run to the end; yield after every step the iteration that was resolved, if one was.

        With ``checks_ledger`` each slot and row has one owner after every step.
        """
        for (iteration,) in side_by_side(self):
            if checks_ledger:
                self.engine.scheduler.check_ledger()
            yield iteration

    def iterations(self) -> Iterator[Iteration]:
        """Run to the end; yield every iteration after the step that resolved it."""
        return (iteration for iteration in self.turns() if iteration is not None)

    def run(self, checks_ledger: bool = False) -> "Play":
        """Run to the end."""
        for _ in self.turns(checks_ledger):
            pass
        return self

    def last_verify_input(self) -> VerifyInput:
        """Return the verify of the last iteration; which phases precede it depends on what drafts."""
        return next(phase for phase in self.worker.phases() if isinstance(phase, VerifyInput))

    def require_outputs(self) -> None:
        """Raise AssertionError unless all requests have ended, with the output of plain decoding under their rules.

        One that was to be aborted may have a front of it.
        """
        ids = [one.request_id for one in self.finished]
        may_abort = {number for _, number in self.scenario.course.aborts}
        require(ids == [*range(len(self.requests))], "requests that have ended", ids, f"all {len(self.requests)}")
        for request in self.finished:
            if request.request_id in may_abort and request.finish_reason is FinishReason.ABORT:
                require_front_decoded_alone(self.scenario.model, request)
            else:
                require_decoded_alone(self.scenario.model, request)

    def _noting(self, schedule: Schedule) -> Schedule:
        """Return a schedule that chooses the same, and whose choices are kept."""
        verification = schedule.verification
        self.numbers = Noted(schedule.num_drafts or _nothing)
        self.budgets = Noted(_nothing if verification is None else verification.budget)
        noting: dict[str, Any] = {}
        if schedule.num_drafts is not None:
            noting["num_drafts"] = self.numbers
        if verification is not None:
            noting["verification"] = Verification(verification.mode, cast(Budget, self.budgets))
        return replace(schedule, **noting)


def side_by_side(*plays: Play) -> Iterator[list[Iteration | None]]:
    """Run several plays in step, under the arrivals and events of the first; yield after every step."""
    first = plays[0].scenario
    return drive([one.engine for one in plays], first, [one.requests for one in plays])


def require_in_step(
    expected: Play, tried: Play, compare: Compare = first_divergence
) -> Iterator[tuple[Iteration | None, Iteration | None]]:
    """Run two plays side by side; yield after every step whose iterations and phases are alike.

    Raises
    ------
    AssertionError
        One has an iteration and the other none, or their phases differ.
    """
    for number, (wanted, got) in enumerate(side_by_side(expected, tried)):
        require((wanted is None) == (got is None), f"iteration {number}", got, wanted)
        if wanted is not None:
            require_none(compare(number, expected.worker.phases(), tried.worker.phases()))
        yield wanted, got


def require_none(divergence: object) -> None:
    """Raise AssertionError with what a divergence says, if there is one."""
    if divergence is not None:
        raise AssertionError(str(divergence))


def drive(
    engines: Sequence[Any], scenario: Scenario, asked: Sequence[Sequence[Request]] = ()
) -> Iterator[list[Iteration | None]]:
    """Run engines in step to the end of a scenario: requests come, are aborted and retracted; yield after every step.

    ``asked`` has the requests of each engine. A request comes before its step, or when all engines are idle.

    Raises
    ------
    AssertionError
        The run does not end.
    """
    asked = asked or [scenario.requests() for _ in engines]
    waiting = sorted(range(len(scenario.arrivals)), key=lambda number: scenario.arrivals[number].step)
    most = MOST_STEPS + sum(len(one.prompt) + one.max_new_tokens for one in scenario.arrivals)
    for step in range(most):
        while waiting and (scenario.arrivals[waiting[0]].step <= step or not any(one.has_work for one in engines)):
            number = waiting.pop(0)
            for engine, requests in zip(engines, asked, strict=True):
                engine.submit(requests[number])
        if not waiting and not any(one.has_work for one in engines):
            return
        for engine in engines:
            _disturb(engine, scenario, step)
        yield [engine.step() for engine in engines]
    require(False, "steps of the run", f"more than {most}", "a tenth of them")


def _disturb(engine: Engine, scenario: Scenario, step: int) -> None:
    """Abort and retract those requests that the scenario says."""
    for when, number in scenario.course.aborts:
        if when == step:
            engine.abort(number)
    for when, place in scenario.course.retractions:
        if when == step and engine.scheduler.holders:
            engine.scheduler.retract(engine.scheduler.holders[place % len(engine.scheduler.holders)])


def parts_of(backend: Backend) -> Completed:
    """Return what the engine of an implementation calls: its host functions and parts, and the oracle's for others."""
    return Completed(backend, load("specsim.reference"))


def loop_on(
    scenario: Scenario,
    operations: CallsByName | None = None,
    wrap: Wrap | None = None,
    sizes: PoolSizes | None = None,
    **options: Any,
) -> Worker:
    """Return the reference's loop of a scenario on some operations; the oracle's own without any.

    Its pools have the sizes of the scenario unless others are given.
    """
    model: Any = _described(scenario, load_model(scenario.model, operations))
    options |= rule_of(scenario)
    if operations is not None:
        options["operations"] = operations
    loop = loop_of(scenario.worker_name)
    worker: Worker = loop(scenario.drafting.sizes, wrap(model) if wrap else model, sizes or scenario.sizes(), **options)
    return worker


def own_worker(backend: Backend, scenario: Scenario, wrap: Wrap | None = None, **options: Any) -> Worker:
    """Return the implementation's own worker, or the reference's loop on its operations if it has none.

    The oracle supplies operations that it lacks. The loop also runs what a worker of EAGLE refuses by name, where the
    implementation has functions to run it on, and rules of acceptance that a worker has no parameter for.
    """
    name, rule = scenario.worker_name, rule_of(scenario)
    own = backend.workers.get(name)
    if own is not None and (not rule or rule.keys() <= signature(own).parameters.keys()):
        model: Any = _described(scenario, model_for(backend, scenario.model))
        model = wrap(model) if wrap else model
        try:
            worker: Worker = backend.build_worker(
                name, scenario.drafting.sizes, model, scenario.sizes(), **rule, **options
            )
        except WorkerRefusal:
            if not backend.functions or name not in OF_EAGLE:
                raise
        else:
            return worker
    return loop_on(scenario, parts_of(backend), wrap, **options)


def rule_of(scenario: Scenario) -> dict[str, Any]:
    """Return what a worker takes of the rule of acceptance by keyword, nothing of the one that every worker has."""
    acceptance = scenario.drafting.acceptance
    return {} if acceptance is Acceptance.TOKEN else {"acceptance": acceptance}


def model_for(backend: Backend, model: HashModel) -> Model[Any]:
    """Return a toy model on the arrays of an implementation: on its operations if they are NumPy's.

    It has what the drafter needs whose side the workers of the implementation have, where they have one.
    """
    if backend.drafted_by is not None:
        shared = [model.num_target_layers - 1] * model.num_draft_layers
        model = replace(model, **fields_for(backend.drafted_by, shared_layers=shared))
    if backend.arrays.KIND == "numpy":
        return load_model(model, parts_of(backend))
    from specsim.gpu.models import load_model as load_on_device

    return load_on_device(model)


def require_decoded_alone(model: HashModel, request: Request) -> None:
    """Raise AssertionError unless an ended request has output, and ended, as plain decoding does under its rules."""
    output, finish = decoded_alone(model, request, request.fresh().rules)
    require(request.output == output, f"output of request {request.request_id}", request.output, output)
    require(request.finish == finish, f"finish of request {request.request_id}", request.finish, finish)


def require_front_decoded_alone(model: HashModel, request: Request) -> None:
    """Raise AssertionError unless a request has output a front of what plain decoding outputs."""
    front = greedy_decode(model, request.prompt, max(len(request.output), 1))[: len(request.output)]
    require(request.output == front, f"output of request {request.request_id}", request.output, front)


def require_same(got: Request, expected: Request, *names: str) -> None:
    """Raise AssertionError unless a request has some fields as another one has them."""
    for name in names:
        one, other = getattr(got, name), getattr(expected, name)
        require(one == other, f"{name} of request {got.request_id}", one, other)


def decoded_alone(model: HashModel, request: Request, rules: StopRules) -> tuple[list[int], Finish | None]:
    """Return the output of plain decoding of the prompt of a request under some rules of stopping, and how it ends."""
    matcher = None if request.grammar is None else request.grammar()
    decoder = ExactDecoder(Prefix(model), request.choice_alone(matcher))
    return decode_alone(decoder, request.prompt, rules, matcher)


def _described(scenario: Scenario, model: Any) -> Any:
    """Return a model with the head of confidences that a scenario has, if it has one."""
    if scenario.drafting.head is not None:
        model.description = replace(model.description, confidence_head=scenario.drafting.head)
    return model


def _require_fitting(worker: Worker, schedule: Schedule) -> None:
    """Raise WorkerRefusal if requests are to draft or verify numbers of their own, and the worker has no such thing."""
    if schedule.num_drafts is None and schedule.verification is None:
        return
    try:
        require_schedule(worker, schedule)
    except SpecRejection as refusal:
        raise WorkerRefusal(refusal) from refusal


def _nothing(*given: Any) -> None:
    """Choose nothing: no schedule asks."""
