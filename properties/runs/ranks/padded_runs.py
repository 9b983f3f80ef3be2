"""Whole runs of every algorithm that are played on padded forwards: their workers, models and forwards by kind."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.sampling import SamplingParameters
from specsim.phases import SyncPlan
from specsim.properties.composite import composite
from specsim.properties.runs.drafted import ALL_WORKERS, drafted_by
from specsim.properties.runs.histories import scenarios, tree_scenarios
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.scenario import Scenario
from specsim.reference.models import ToyModel
from specsim.simulation.models.agreement import Agreement, ForwardKind
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.requests import Request

POOLS = (PoolKind.MHA, PoolKind.SWA, PoolKind.HYBRID, PoolKind.MHA)
"""What targets are stored in: slots alone, SWA slots beside them, recurrent state beside them."""

DROPPED_EVERY = 3
"""One of so many requests is sampled."""


def waiting_of(scenario: Scenario) -> dict[str, bool]:
    """Return what tells a worker that other ranks wait for it, where it has to know."""
    return {"has_dp_attention": True} if scenario.is_v1 and scenario.drafter.extends else {}


def plain_play(scenario: Scenario) -> Play:
    """Return a play of the reference on forwards as they come."""
    return Play(scenario, options=waiting_of(scenario))


def padded_play(scenario: Scenario, backend: Backend, has_own_worker: bool = False) -> tuple[Play, Any]:
    """Return a play on padded forwards and their model: of the implementation's own worker if so wanted and it has one.

    Else it is the reference's loop on the implementation's operations.
    """
    padded: list[Any] = []

    def wrap(model: Any) -> Any:
        padded.append(_padded(scenario, backend, model))
        return padded[-1]

    options = waiting_of(scenario)
    if has_own_worker and scenario.worker_name in backend.workers:
        return Play(scenario, backend, wrap=wrap, options=options), padded[-1]
    return Play(scenario, operations=parts_of(backend), wrap=wrap, options=options), padded[-1]


def forwards_of_an_iteration(scenario: Scenario) -> Counter[ForwardKind]:
    """Return how many forwards of each kind an iteration runs, with or without requests."""
    drafter, num_steps = scenario.drafter, scenario.config.num_steps
    own = {ForwardKind.DRAFT_STEP: num_steps - 1, ForwardKind.DRAFT_EXTEND: 1}
    if drafter.is_multi_layer:
        own = {ForwardKind.LAYER_EXTEND: num_steps}
    elif drafter.cuts_by_company:
        own = {ForwardKind.DRAFT_BLOCK: 1, ForwardKind.FEATURES: 1}
    elif drafter.reads_target_kv:
        own = {ForwardKind.FROZEN_STEP: num_steps}
    elif drafter.reads_texts:
        own = {}
    return +Counter({ForwardKind.VERIFY: 1, **own})


def ends_of(requests: Sequence[Request]) -> list[Any]:
    """Return how requests ended, by their numbers: output, reason and counters."""
    return sorted((one.request_id, tuple(one.output), one.finish_reason, one.counters) for one in requests)


def rows_of_a_request(scenario: Scenario, kind: ForwardKind) -> int | None:
    """Return the rows of a request that an idle batch cannot know, and that a rank with requests says."""
    config = scenario.config
    return {ForwardKind.DRAFT_STEP: config.topk, ForwardKind.VERIFY: config.num_draft_tokens}.get(kind)


def _padded(scenario: Scenario, backend: Backend, model: Any) -> Any:
    config, shares = scenario.config, scenario.ranks.shares
    width = path_width(config.num_steps) if scenario.is_v1 else config.num_draft_tokens
    padding = {} if isinstance(model, ToyModel) else padding_for(backend)
    padded = backend.host("PaddedModel")(model, width, frozen_width=config.topk, **padding)
    if shares is not None:
        padded.agree = partial(_to_shares, backend.host("plan_mlp_sync_batch"), shares)
    return padded


def padding_for(backend: Backend) -> dict[str, Any]:
    """Return what pads the arrays of an implementation."""
    if backend.arrays.KIND == "numpy":
        return {}
    from specsim.gpu.worker.arrays import zeros
    from specsim.gpu.worker.ranks import torch_pad

    return {"pad": torch_pad, "zeros": zeros}


def _to_shares(
    plan: Callable[..., SyncPlan],
    shares: tuple[int, int],
    kind: ForwardKind,
    num_requests: int,
    num_tokens: int,
    width: int | None,
    layer: int = 0,
) -> Agreement:
    """Agree on rows that a group can share and that cut no request, as a rank alone is padded."""
    del layer
    rows = num_tokens if width is None else num_requests * width
    planned = plan([rows], None if width is None else max(width, 1), *shares, is_extend_in_batch=kind.is_prefill)
    return Agreement(planned.num_tokens[0], width)


@composite
def padded_runs(draw: st.DrawFn, has_shares: bool = True) -> Scenario:
    """Draw a run of any algorithm on either worker; batches of three, which no bucket has, are common."""
    name = draw(st.sampled_from(("eagle_v1", "eagle_v2", *ALL_WORKERS)))
    scenario = draw(st.one_of(tree_scenarios(), scenarios()))
    run = drafted_by(name, scenario, target_pool=draw(st.sampled_from(POOLS)))
    shares = draw(st.sampled_from((None, None, (2, 1), (4, 1), (2, 4)))) if has_shares else None
    return dropping(run).having(shares=shares)


def dropping(scenario: Scenario) -> Scenario:
    """Return a run some of whose requests are sampled."""
    arrivals = list(scenario.arrivals)
    for number in range(1, len(arrivals), DROPPED_EVERY):
        arrivals[number] = replace(arrivals[number], sampling=SamplingParameters(temperature=0.7, top_k=8, seed=number))
    return scenario.having(arrivals=tuple(arrivals))
