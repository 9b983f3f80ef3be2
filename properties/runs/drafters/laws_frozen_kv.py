"""Whole runs whose draft reads the target's KV: no token is lost, and a draft that sees what it should is right."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.histories import SMALL_VOCABULARY
from specsim.properties.runs.play import Play, require_same
from specsim.properties.runs.scenario import AFTER_ALL, Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.laws_tokens import check_map
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.schedule import Schedule

OPERATIONS = (
    *("prepare_for_frozen_kv_draft", "select_last_verified", "frozen_kv_draft_forward"),
    *("generate_attn_arg_prefill", "filter_batch", "merge_batch"),
)
SHARINGS = ((0,), (1, 0), (1,), (0, 0, 1))
"""The target's layer of each draft layer: one, both, the upper one, and one of them twice."""

WORKERS = ("frozen_kv_mtp", "frozen_kv_mtp_v2")
"""A run is played on both."""


@composite
def frozen_runs(draw: DrawFn) -> Scenario:
    """Draw chains and trees of a draft that is perfect, right to a depth or by chance, in pools that may run out.

    In the simplest case requests of one batch accept two of three drafts, after prompts of several tokens, and another
    comes when they have ended.
    """
    config = draw(st.sampled_from((SpecConfig(2, 3, 6), SpecConfig(1, 3, 4), SpecConfig(3, 2, 7), SpecConfig(1, 1, 2))))
    seed = draw(st.integers(0, 2**16))
    text = np.random.default_rng(seed)
    shared, num_requests = text.integers(0, SMALL_VOCABULARY, 6), draw(st.sampled_from((3, 4, 2, 1)))
    prompts = []
    for _ in range(num_requests):
        front = shared[: draw(st.integers(0, 6))].tolist()
        prompts.append((*front, *text.integers(0, SMALL_VOCABULARY, draw(st.sampled_from((3, 1, 2, 4)))).tolist()))
    agreement, num_right = draw(st.sampled_from(((1.0, 2), (1.0, None), (0.6, None), (1.0, 1), (1.0, 0))))
    sharing = draw(st.sampled_from(SHARINGS))
    model = HashModel(SMALL_VOCABULARY, seed % 50, agreement, num_right, kv_sharing=sharing)
    schedule = Schedule(
        prefill_chunk=draw(st.sampled_from((None, 4))),
        promised=draw(st.sampled_from((Fraction(1), Fraction(0)))),
        has_prefix_cache=draw(st.booleans()),
    )
    lengths = [draw(st.sampled_from((12, 16, 9, 4, 1))) for _ in prompts]
    eos_token = draw(st.sampled_from((None, None, 5)))
    is_last_late = draw(st.sampled_from((True, False)))
    arrivals = [
        Arrival(prompt, length, eos_token, AFTER_ALL if is_last_late and number == num_requests - 1 else 0)
        for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
    ]
    scenario = scenario_of(
        config,
        model,
        arrivals,
        max_batch=3,
        shuffle_seed=1,
        drafter="FROZEN_KV_MTP",
        page_size=draw(st.sampled_from((1, 1, 4))),
        schedule=schedule,
        retractions=tuple((step, step) for step in draw(st.lists(st.integers(1, 6), max_size=2))),
    )
    return scenario if schedule.promised else scenario.having(num_spare_slots=scenario.largest)


def plays_of(scenario: Scenario, backend: Backend) -> Iterator[Play]:
    """Yield a play of a run on either worker."""
    return (Play(scenario.having(is_v1=is_v1), backend) for is_v1 in (True, False))


def a_draft_over_committed_keys_loses_nothing(backend: Backend, scenario: Scenario) -> None:
    """Texts are those of plain decoding, and each verify accepts what the draft promises: all of a perfect one."""
    num_steps, model = scenario.config.num_steps, scenario.model
    promised = num_steps if model.num_right is None else min(model.num_right, num_steps)
    for play in plays_of(scenario, backend):
        play.run(checks_ledger=True).require_outputs()
        for request in play.requests if model.num_right is not None or model.agreement == 1.0 else ():
            got, total = request.counters.num_accepted_drafts, promised * request.counters.num_verifies
            require(got == total, f"accepted drafts of request {request.request_id}", got, total)


def a_draft_does_not_see_its_neighbours(backend: Backend, scenario: Scenario) -> None:
    """What is accepted of each request, verify by verify, is what is accepted of the request alone."""
    together = scenario.having(retractions=(), promised=Fraction(1), num_spare_slots=None)
    for play in plays_of(together, backend):
        for number, request in enumerate(play.run(checks_ledger=True).requests):
            (alone,) = Play(play.scenario.alone(number), backend).run(checks_ledger=True).requests
            require_same(request, alone, "counters")


def a_draft_leaves_no_trace(backend: Backend, scenario: Scenario) -> None:
    """After every step every layer has position and token of all that is committed, however it was drafted."""
    for play in plays_of(scenario, backend):
        for _ in play.turns(checks_ledger=True):
            check_committed(play.engine)


def check_committed(engine: Engine) -> None:
    """Raise AssertionError unless the KV of committed positions says where they are, and the map where it lies."""
    state = engine.worker.state()
    for request in engine.scheduler.running:
        text = [*request.prompt, *request.output][: request.num_committed]
        expected = [list(one) for one in enumerate(text)]
        for component, buffer in enumerate(state["target_kv"]):
            got = buffer[request.slots[: request.num_committed]][:, :2].tolist()
            require(got == expected, f"component {component} of request {request.request_id}", got, expected)
        check_map(state, request)


PROPERTIES = states_of_runs(
    "frozen_engine",
    (a_draft_over_committed_keys_loses_nothing, frozen_runs, OPERATIONS, "P06"),
    (a_draft_does_not_see_its_neighbours, frozen_runs, OPERATIONS, "P31"),
    (a_draft_leaves_no_trace, frozen_runs, OPERATIONS, "P40"),
    plays=WORKERS,
    least_examples=3,
)
