"""A rule-based machine: submit, step and drain an engine in any order; the ledger and the text must hold throughout."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import require
from specsim.properties.laws.support.histories import (
    Arrival,
    Scenario,
    arrivals,
    configurations,
    make_worker,
    models,
    own_worker,
    start,
)
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.requests import Request

LONGEST = Arrival(prompt=(0,) * 6, max_new_tokens=9, eos_token=None, delay=0)


def engine_machine(backend: Backend, is_v1: bool = False) -> type[RuleBasedStateMachine]:
    """Return the machine of an implementation's worker, or of the V1 loop, for ``run_state_machine_as_test``."""

    class EngineMachine(RuleBasedStateMachine):
        """Requests arrive at any time, in any number; the engine steps when the machine says so."""

        engine: Engine

        @initialize(
            config=configurations(3, 3, 8), model=models(), max_batch=st.integers(1, 3), seed=st.integers(0, 99)
        )
        def build(self, config: Any, model: Any, max_batch: int, seed: int) -> None:
            scenario = Scenario(config, model, (LONGEST,) * max_batch, max_batch, seed, is_v1)
            self.model = model
            self.engine = start((make_worker if is_v1 else own_worker)(backend, scenario), scenario)
            self.num_submitted = 0

        @rule(arrival=arrivals())
        def submit(self, arrival: Arrival) -> None:
            request = Request(self.num_submitted, arrival.prompt, arrival.max_new_tokens, arrival.eos_token)
            self.engine.submit(request)
            self.num_submitted += 1

        @rule()
        def step(self) -> None:
            self.engine.step()

        @rule()
        def drain(self) -> None:
            self.engine.run()
            scheduler = self.engine.scheduler
            free, everything = scheduler.slots.num_free, scheduler.sizes.num_slots - 1
            require(free == everything, "free slots after draining", free, everything)
            num_finished = len(scheduler.finished)
            require(num_finished == self.num_submitted, "finished requests", num_finished, self.num_submitted)

        @invariant()
        def ledger_balances(self) -> None:
            if hasattr(self, "engine"):
                self.engine.scheduler.check_ledger()

        @invariant()
        def finished_text_is_autoregressive(self) -> None:
            if not hasattr(self, "engine"):
                return
            for request in self.engine.scheduler.finished[-2:]:
                expected = greedy_decode(self.model, request.prompt, request.max_new_tokens, request.eos_token)
                what = f"output of request {request.request_id}"
                require(request.output == expected, what, request.output, expected)

    return EngineMachine
