"""Laws of the state that a worker carries: KV tags of target and draft, proposals, and agreement step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.config import PoolSizes
from specsim.conformance.backend import EAGLE_V2, Backend
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.histories import asking, scenarios, trees_or_any_scenario
from specsim.properties.runs.play import Play, require_in_step, require_none, require_same, side_by_side
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.tags import Tags, check_tags_at, expected_tags
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.reference.models import load_model
from specsim.reference.worker.pools import CARRIED
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.reported_pairs import ReportedPairs
from specsim.simulation.engine import Engine
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.worker import Worker, is_telling


def check_tags(pool: str, buffers: Sequence[Any], request: Request, expected: Tags) -> None:
    """Raise AssertionError unless every committed position of a request holds its tag in every component."""
    slots = request.slots[: request.num_committed]
    check_tags_at(pool, [buffer[slots] for buffer in buffers], request, expected)


def check_texts(pools: Sequence[str], state: dict[str, Any], model: HashModel, request: Request) -> None:
    """Raise AssertionError unless some pools, of which the target's is first, have the tags of a request's own text."""
    for name, tags in zip(pools, expected_tags(model, request.fill), strict=False):
        check_tags(name, state[name], request, tags)


def _check_pool(backend: Backend, scenario: Scenario, pool: int) -> None:
    """Check every committed entry of the target's pool (0) or the draft's (1) after every iteration."""
    play, name = Play(scenario, backend), ("target_kv", "draft_kv")[pool]
    for _ in play.turns():
        buffers = play.worker.state()[name]
        for request in play.engine.scheduler.running:
            check_tags(name, buffers, request, expected_tags(scenario.model, [*request.prompt, *request.output])[pool])


def committed_kv_is_that_of_a_fresh_prefill(backend: Backend, scenario: Scenario) -> None:
    """After every iteration each committed position holds, in every component, the tag of its own token."""
    _check_pool(backend, scenario, 0)


def draft_cache_is_that_of_a_fresh_prefill(backend: Backend, scenario: Scenario) -> None:
    """The draft cache has no hole, no rejected row and no row made from the draft's own hidden states."""
    _check_pool(backend, scenario, 1)


def proposals_depend_on_the_committed_tokens_only(backend: Backend, scenario: Scenario) -> None:
    """What starts the next draft equals what a fresh prefill of the same tokens would start it with."""
    play = Play(scenario, backend)
    for _ in play.turns():
        state = play.worker.state()
        for request in play.engine.scheduler.running:
            bonus, expected = _prefilled(scenario, [*request.prompt, *request.output][:-1], play.worker.sizes)
            require(bonus == request.output[-1:], "bonus token", request.output[-1], bonus[0])
            _check_carried(state, request, expected)


def check_goes_on(engine: Engine, scenario: Scenario) -> None:
    """Raise AssertionError unless caches and what starts the next drafts are those of a fresh prefill."""
    state = engine.worker.state()
    for request in engine.scheduler.running:
        check_texts(("target_kv", "draft_kv"), state, scenario.model, request)
        _check_carried(state, request, _prefilled(scenario, request.fill[:-1], engine.worker.sizes)[1])


def _prefilled(scenario: Scenario, committed: Sequence[int], sizes: PoolSizes) -> tuple[list[int], dict[str, Any]]:
    """Return the bonus token and the state of a worker that has prefilled some tokens in row 1."""
    fresh = ReferenceWorker(scenario.config, load_model(scenario.model), sizes)
    return prefill_whole(fresh, committed), fresh.state()


def prefill_whole(worker: Worker, text: Sequence[int], first: int = 1) -> list[int]:
    """Run a prefill of a text in row 1, in slots from the first one on; return the token after it."""
    slots = tuple(range(first, first + len(text)))
    worker.assign_slots([SlotRange(row=1, start=0, end=len(text), slots=slots)])
    return worker.prefill([1], [PromptChunk.whole(text)])


def _check_carried(state: dict[str, Any], request: Request, expected: dict[str, Any]) -> None:
    for name in (name for name in CARRIED if name in expected):
        got, wanted = state[name][request.row].tolist(), expected[name][1].tolist()
        require(got == wanted, f"{name} of request {request.request_id}", got, wanted)


def draft_starts_from_the_committed_length(backend: Backend, scenario: Scenario) -> None:
    """The carried length is the committed one, and every tree sits on it."""
    play = Play(scenario, backend)
    lengths: dict[int, int] = {}
    for iteration in play.turns():
        state = play.worker.state()
        if iteration is not None:
            verify_input = play.worker.phases()[1]
            positions = vars(verify_input)["positions"].reshape(-1, scenario.config.num_draft_tokens)
            roots, starts = positions[:, 0].tolist(), vars(verify_input)["seq_lens"].tolist()
            require(roots == starts, "root positions", roots, starts)
            is_below = positions < positions[:, :1]
            require(not np.any(is_below), "positions", positions.tolist(), "at least that of their root")
        for request in play.engine.scheduler.running:
            length = int(state["seq_lens"][request.row])
            require(length == request.num_committed, "seq_lens", length, request.num_committed)
            least = lengths.get(request.request_id, 0)
            require(length >= least, "seq_lens", length, f"at least {least}, because it never shrinks")
            lengths[request.request_id] = length


def agrees_with_the_reference_in_lockstep(backend: Backend, scenario: Scenario) -> None:
    """Every phase of every iteration hands over what the reference's does, and users get the same reports.

    The first difference is named. Where drafts are the implementation's own, outputs and reports to users are
    compared alone: iterations differ.
    """
    reference, tried = plays = Play(scenario), Play(scenario, backend)
    reported = ReportedPairs(reference.worker.model.description)
    for one in plays:
        one.requests = asking(scenario).requests() if is_telling(tried.worker) else one.requests
    for pair in zip(reference.requests, tried.requests, strict=True):
        reported.add(*pair)
    if backend.limits.has_own_drafts:
        _require_same_ends(reference, tried, reported)
        return
    for number, _ in enumerate(require_in_step(reference, tried)):
        require_none(reported.first_divergence(number))


def _require_same_ends(reference: Play, tried: Play, reported: ReportedPairs) -> None:
    """Run two plays to their ends; raise AssertionError unless requests end alike and users get the same reports."""
    for _ in side_by_side(reference, tried):
        pass
    for one, other in zip(reference.requests, tried.requests, strict=True):
        require_same(other, one, "output", "finish")
    require_none(reported.first_divergence(0))


_TELLING = (*SPINE, "gather_output_logprobs")

PROPERTIES = states_of_runs(
    "worker",
    (committed_kv_is_that_of_a_fresh_prefill, scenarios, SPINE, "P40"),
    (draft_cache_is_that_of_a_fresh_prefill, scenarios, SPINE, "P48"),
    (proposals_depend_on_the_committed_tokens_only, scenarios, SPINE, "P49"),
    (draft_starts_from_the_committed_length, scenarios, SPINE, "P51"),
    (agrees_with_the_reference_in_lockstep, trees_or_any_scenario, _TELLING, "P62", {"least_examples": 8}),
    plays=(EAGLE_V2,),
)
