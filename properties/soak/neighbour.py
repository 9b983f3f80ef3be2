"""Another rank beside the one that is tried: it has requests of its own, and both run their forwards together."""

from contextlib import suppress
from typing import Any

from specsim.assertion import require
from specsim.properties.host.ranks.local_ranks import LocalGroup, run_threads
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.padding import Padding, padded_model_of
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.sides import engine_around
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.properties.soak.texts import SampledOutputs, Watch, check_output
from specsim.rejection import WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.events import Observer, Tag
from specsim.simulation.turns.priorities import Priorities
from specsim.simulation.worker import Iteration

MOST_REQUESTS = 8
"""Requests of the other rank, whose outputs are checked alone."""


class Neighbour:
    """The other rank; the one of the two that has nothing to run takes part in the forwards of the one that has.

    Parameters
    ----------
    subject : Subject
        Whose operations both ranks run on, and whose meetings bring them together.
    setup : Setup
        That of the rank that is tried.
    observer : callable
        Called with turns that both take, and of those in which one waits.
    """

    def __init__(self, subject: Subject, setup: Setup, observer: Observer) -> None:
        self._setup = setup
        worker = subject.worker(setup)
        self._padding = Padding(setup, observer)
        padded_model_of(worker).agree = self._padding
        self.engine = engine_around(worker, setup, subject)
        functions = subject.backend if subject.backend.has("Meeting") else REFERENCE
        self._make_meeting = functions.host("Meeting")
        self._observer = observer
        self.priorities = Priorities(setup.schedule.stream_seed)
        self.num_asked = 0
        self._num_checked = 0

    def submit(self, asked: Arrival) -> None:
        """Ask the other rank for an output; it is greedy, so that plain decoding says what it is."""
        with suppress(WorkerRefusal):
            self.engine.submit(asked.unreported().request(self.num_asked))
            self.num_asked += 1

    def take_turn(self, engine: Engine, padding: Padding) -> Iteration | None:
        """Let both ranks take a turn, and return what the one that is tried resolved."""
        ranks = ((engine, padding), (self.engine, self._padding))
        had_work = [one.has_work for one, _ in ranks]
        models = [padded_model_of(one.worker) for one, _ in ranks]
        before = [model.forwards.copy() for model in models]

        def run(group: LocalGroup) -> Any:
            one, agreeing = ranks[group.rank]
            meeting = self._make_meeting(group, models[group.rank].run_padding)
            agreeing.meeting = meeting
            try:
                resolved = one.step() if had_work[group.rank] else None
                while meeting.attend():
                    pass
            finally:
                agreeing.meeting = None
            return resolved

        resolved, lost = run_threads(len(ranks), run, self.priorities.pick)
        require(not lost, "ranks that were given up", [str(one) for one in lost], "none")
        own, other = (model.forwards - was for model, was in zip(models, before, strict=True))
        require(own == other, "forwards of the rank that is tried", dict(own), dict(other))
        if own:
            self._observer(Tag.RANKS)
            if not all(had_work):
                self._observer(Tag.IDLE)
                self._observer(Tag.IDLE_RANK)
        iteration: Iteration | None = resolved[0]
        return iteration

    def check(self) -> None:
        """Raise AssertionError unless what the other rank owns and outputs is right."""
        scheduler = self.engine.scheduler
        scheduler.check_ledger()
        for request in scheduler.finished[self._num_checked :]:
            check_output(self._setup, Watch(request), SampledOutputs())
        self._num_checked = len(scheduler.finished)

    def check_end(self) -> None:
        """Raise AssertionError unless every request of the other rank has ended."""
        require(self._num_checked == self.num_asked, "ends next door", self._num_checked, self.num_asked)
