"""Whole runs whose draft reads the target's KV: no token is lost, and a draft that sees what it should is right."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import SMALL_VOCABULARY, parts_of
from specsim.properties.laws.support.named_workers import worker_named
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import most_positions, sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

OPERATIONS = (
    "prepare_for_frozen_kv_draft",
    "select_last_verified",
    "frozen_kv_draft_forward",
    "generate_attn_arg_prefill",
    "filter_batch",
    "merge_batch",
)
SHARINGS = ((0,), (1, 0), (1,), (0, 0, 1))
"""The target's layer of each draft layer: one, both, the upper one, and one of them twice."""

WORKERS = ("frozen_kv_mtp", "frozen_kv_mtp_v2")
"""A run is played on both."""


@dataclass(frozen=True)
class FrozenRun:
    """Requests whose prompts begin alike, in which steps one gives way, and whether one comes when all have ended."""

    config: SpecConfig
    model: HashModel
    page_size: int
    schedule: Schedule
    prompts: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    eos_token: int | None
    retractions: tuple[int, ...]
    is_last_late: bool

    def requests(self) -> list[Request]:
        """Return fresh requests."""
        pairs = enumerate(zip(self.prompts, self.lengths, strict=True))
        return [Request(number, list(prompt), length, self.eos_token) for number, (prompt, length) in pairs]


@composite
def frozen_runs(draw: DrawFn) -> FrozenRun:
    """Draw chains and trees of a draft that is perfect, right to a depth or by chance, in pools that may run out.

    In the simplest case requests of one batch accept two of three drafts, after prompts of several tokens, and another
    comes when they have ended.
    """
    config = draw(st.sampled_from((SpecConfig(2, 3, 6), SpecConfig(1, 3, 4), SpecConfig(3, 2, 7), SpecConfig(1, 1, 2))))
    seed = draw(st.integers(0, 2**16))
    text = np.random.default_rng(seed)
    shared, num_requests = text.integers(0, SMALL_VOCABULARY, 6), draw(st.sampled_from((3, 4, 2, 1)))
    prompts = [
        (
            *shared[: draw(st.integers(0, 6))].tolist(),
            *text.integers(0, SMALL_VOCABULARY, draw(st.sampled_from((3, 1, 2, 4)))).tolist(),
        )
        for _ in range(num_requests)
    ]
    agreement, num_right = draw(st.sampled_from(((1.0, 2), (1.0, None), (0.6, None), (1.0, 1), (1.0, 0))))
    sharing = draw(st.sampled_from(SHARINGS))
    model = HashModel(SMALL_VOCABULARY, seed % 50, agreement, num_right, kv_sharing=sharing)
    return FrozenRun(
        config=config,
        model=model,
        page_size=draw(st.sampled_from((1, 1, 4))),
        schedule=Schedule(
            prefill_chunk=draw(st.sampled_from((None, 4))),
            promised=draw(st.sampled_from((Fraction(1), Fraction(0)))),
            has_prefix_cache=draw(st.booleans()),
        ),
        prompts=tuple(prompts),
        lengths=tuple(draw(st.sampled_from((12, 16, 9, 4, 1))) for _ in prompts),
        eos_token=draw(st.sampled_from((None, None, 5))),
        retractions=tuple(draw(st.lists(st.integers(1, 6), max_size=2))),
        is_last_late=draw(st.sampled_from((True, False))),
    )


def steps_of(run: FrozenRun, backend: Backend, name: str) -> Iterator[Engine]:
    """Step an engine around a worker to the end; yield it after every step, its books in order."""
    asked, max_batch = run.requests(), 3
    sizes = sizes_for(run.config, asked, max_batch, run.page_size)
    largest = max(most_positions(run.config, request, run.page_size) for request in asked)
    if run.schedule.promised == 0:
        sizes = replace(sizes, num_slots=min(sizes.num_slots, 2 * largest + run.page_size))
    worker = worker_named(name, backend, run.config, run.model, sizes)
    engine = Engine(worker, max_batch, shuffle_seed=1, schedule=run.schedule, operations=parts_of(backend))
    waiting = [asked.pop()] if run.is_last_late and len(asked) > 1 else []
    for request in asked:
        engine.submit(request)
    for step in range(400):
        if not engine.has_work and not waiting:
            return
        if not engine.has_work:
            engine.submit(waiting.pop())
        if step in run.retractions and engine.scheduler.holders:
            engine.scheduler.retract(engine.scheduler.holders[step % len(engine.scheduler.holders)])
        engine.step()
        engine.scheduler.check_ledger()
        yield engine
    require(False, "steps of the run", "more than 400", "a tenth of them")


def a_draft_over_committed_keys_loses_nothing(backend: Backend, run: FrozenRun) -> None:
    """Texts are those of plain decoding, and each verify accepts what the draft promises: all of a perfect one."""
    num_steps, model = run.config.num_steps, run.model
    for request in [one for name in WORKERS for one in _finished(run, backend, name)]:
        expected = greedy_decode(model, request.prompt, request.max_new_tokens, request.eos_token)
        require(request.output == expected, f"output of request {request.request_id}", request.output, expected)
        promised = num_steps if model.num_right is None else min(model.num_right, num_steps)
        if model.num_right is not None or model.agreement == 1.0:
            counters = request.counters
            total = promised * counters.num_verifies
            what = f"accepted drafts of request {request.request_id}"
            require(counters.num_accepted_drafts == total, what, counters.num_accepted_drafts, total)


def a_draft_does_not_see_its_neighbours(backend: Backend, run: FrozenRun) -> None:
    """What is accepted of each request, verify by verify, is what is accepted of the request alone."""
    together = replace(run, retractions=(), schedule=replace(run.schedule, promised=Fraction(1)))
    for name in WORKERS:
        for request in _finished(together, backend, name):
            number = request.request_id
            alone = replace(together, prompts=(run.prompts[number],), lengths=(run.lengths[number],))
            expected = _finished(alone, backend, name)[0].counters
            require(request.counters == expected, f"counters of request {number}", request.counters, expected)


def a_draft_leaves_no_trace(backend: Backend, run: FrozenRun) -> None:
    """After every step every layer has position and token of all that is committed, however it was drafted."""
    for name in WORKERS:
        for engine in steps_of(run, backend, name):
            check_committed(engine)


def check_committed(engine: Engine) -> None:
    """Raise AssertionError unless the KV of committed positions says where they are, and the map where it lies."""
    state = engine.worker.state()
    for request in engine.scheduler.running:
        text = [*request.prompt, *request.output][: request.num_committed]
        expected = [list(one) for one in enumerate(text)]
        for component, buffer in enumerate(state["target_kv"]):
            got = buffer[request.slots[: request.num_committed]][:, :2].tolist()
            require(got == expected, f"component {component} of request {request.request_id}", got, expected)
        written = state["req_to_token"][request.row, : len(request.slots)].tolist()
        require(written == list(request.slots), f"req_to_token[{request.row}]", written, request.slots)


def _finished(run: FrozenRun, backend: Backend, name: str) -> list[Request]:
    """Return the requests of a run after its end."""
    finished: list[Request] = []
    for engine in steps_of(run, backend, name):
        finished = list(engine.scheduler.finished)
    return finished


PROPERTIES = tuple(
    state_of_runs("frozen_engine", law, frozen_runs, OPERATIONS, catalogue, WORKERS, least_examples=3)
    for catalogue, law in (
        ("P06", a_draft_over_committed_keys_loses_nothing),
        ("P31", a_draft_does_not_see_its_neighbours),
        ("P40", a_draft_leaves_no_trace),
    )
)
