"""Whole runs of every algorithm that are played on padded forwards: their workers, models and forwards by kind."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.counts import path_width
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.phases import SyncPlan
from specsim.properties.composite import composite
from specsim.properties.laws.support.histories import Scenario, model_for, scenarios, tree_scenarios
from specsim.reference.models import load_model
from specsim.simulation.loops import loop_of
from specsim.simulation.models.agreement import Agreement, ForwardKind
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.worker import Worker

V1_WORKERS = ("eagle_v1", "multi_layer_eagle_v1", "dflash", "ngram", "frozen_kv_mtp", "standalone_v1", "eagle3_v1")
V2_WORKERS = (
    "eagle_v2",
    "multi_layer_eagle_v2",
    "dflash_v2",
    "ngram_v2",
    "frozen_kv_mtp_v2",
    "standalone_v2",
    "eagle3_v2",
)
"""Every algorithm by the name of its worker; EAGLE3 has EAGLE's, and a draft that reads all layers."""

FEW_TOKENS = 3
"""Tokens of a vocabulary in which some path of a store goes on as the target does, and some does not."""

POOLS = (PoolKind.MHA, PoolKind.SWA, PoolKind.HYBRID, PoolKind.MHA)
"""What targets are stored in: slots alone, SWA slots beside them, recurrent state beside them."""

DROPPED_EVERY = 3
"""One of so many requests is sampled."""


@dataclass(frozen=True)
class PaddedRun:
    """A run of a worker; forwards are padded to what a group of ``shares`` can share, or to buckets without one."""

    scenario: Scenario
    name: str
    shares: tuple[int, int] | None = None

    @property
    def base_name(self) -> str:
        """The name by which the worker is found; EAGLE3's is EAGLE's."""
        return self.name.replace("eagle3", "eagle")

    @property
    def is_v1(self) -> bool:
        """Whether the worker allocates, frees and ends requests inside an iteration."""
        return self.name in V1_WORKERS

    @property
    def parameters(self) -> Any:
        """What the worker takes first."""
        config = self.scenario.config
        if self.name.startswith("ngram"):
            return NgramParameters(max_depth=4, max_breadth=2, num_draft_tokens=config.num_draft_tokens)
        return DflashParameters(config.num_draft_tokens) if self.name.startswith("dflash") else config

    @property
    def config(self) -> SpecConfig:
        """The sizes of an iteration."""
        parameters = self.parameters
        config: SpecConfig = parameters if isinstance(parameters, SpecConfig) else parameters.config
        return config

    @property
    def waiting(self) -> dict[str, bool]:
        """What tells the worker that other ranks wait for it, where it has to know."""
        wants_report = self.is_v1 and ("eagle" in self.name or "standalone" in self.name)
        return {"has_dp_attention": True} if wants_report else {}

    def requests(self) -> list[Request]:
        """Return fresh requests, some of which are sampled."""
        asked = self.scenario.requests()
        for request in asked[1::DROPPED_EVERY]:
            request.sampling = SamplingParameters(temperature=0.7, top_k=8, seed=request.request_id)
        return asked

    def sizes(self) -> PoolSizes:
        """Return pools that the run needs."""
        scenario = self.scenario
        window = window_of(scenario.model)
        return sizes_for(self.config, scenario.requests(), scenario.max_batch, scenario.page_size, window)

    def plain_worker(self) -> Worker:
        """Return the reference's worker, on forwards as they come."""
        return self.worker_on(load_model(self.scenario.model))

    def own_worker(self, backend: Backend, sizes: PoolSizes | None = None) -> Worker:
        """Return the implementation's own worker, or the reference's loop on its operations if it has none."""
        model, sizes = self.scenario.model, sizes or self.sizes()
        if self.base_name in backend.workers:
            own: Worker = backend.build_worker(self.base_name, self.parameters, model_for(backend, model), sizes)
            return own
        operations = Completed(backend, load("specsim.reference"))
        return self.worker_on(load_model(model, operations), sizes, operations=operations)

    def own_padded_worker(self, backend: Backend, **options: Any) -> tuple[Worker, Any]:
        """Return the implementation's own worker on padded forwards, or the reference's loop, and their model."""
        if self.base_name not in backend.workers:
            return self.padded_worker(backend)
        padded = self._padded(backend, model_for(backend, self.scenario.model), **padding_for(backend))
        reported = {**self.waiting, **options}
        worker: Worker = backend.build_worker(self.base_name, self.parameters, padded, self.sizes(), **reported)
        return worker, padded

    def believed_padded_worker(self) -> tuple[Worker, Any]:
        """Return the reference's worker on padded forwards, and their model."""
        padded = self._padded(load("specsim.reference"), load_model(self.scenario.model))
        return self.worker_on(padded), padded

    def padded_worker(self, backend: Backend) -> tuple[Worker, Any]:
        """Return the reference's loop on an implementation's operations and padded forwards, and their model."""
        operations = Completed(backend, load("specsim.reference"))
        padded = self._padded(backend, load_model(self.scenario.model, operations))
        return self.worker_on(padded, operations=operations), padded

    def forwards_of_an_iteration(self) -> Counter[ForwardKind]:
        """Return how many forwards of each kind an iteration runs, with or without requests."""
        name, num_steps = self.name, self.config.num_steps
        own = {ForwardKind.DRAFT_STEP: num_steps - 1, ForwardKind.DRAFT_EXTEND: 1}
        if name.startswith("multi_layer"):
            own = {ForwardKind.LAYER_EXTEND: num_steps}
        elif name.startswith("dflash"):
            own = {ForwardKind.DRAFT_BLOCK: 1, ForwardKind.FEATURES: 1}
        elif name.startswith("frozen"):
            own = {ForwardKind.FROZEN_STEP: num_steps}
        elif name.startswith("ngram"):
            own = {}
        return +Counter({ForwardKind.VERIFY: 1, **own})

    def rows_of_a_request(self, kind: ForwardKind) -> int | None:
        """Return the rows of a request that an idle batch cannot know, and that a rank with requests says."""
        widths = {
            ForwardKind.DRAFT_STEP: self.config.topk,
            ForwardKind.VERIFY: self.config.num_draft_tokens,
        }
        return widths.get(kind)

    def worker_on(self, model: Any, sizes: PoolSizes | None = None, **options: Any) -> Worker:
        """Return the reference's worker on a model."""
        options |= self.waiting
        worker: Worker = loop_of(self.base_name)(self.parameters, model, sizes or self.sizes(), **options)
        return worker

    def _padded(self, backend: Backend, model: Any, **padding: Any) -> Any:
        config = self.config
        width = path_width(config.num_steps) if self.is_v1 else config.num_draft_tokens
        padded = backend.host("PaddedModel")(model, width, frozen_width=config.topk, **padding)
        if self.shares is not None:
            padded.agree = partial(_to_shares, backend.host("plan_mlp_sync_batch"), self.shares)
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


def run_of(name: str, scenario: Scenario, pool: PoolKind = PoolKind.MHA) -> PaddedRun:
    """Return a run of a worker like one of EAGLE: with a draft, drafts and a vocabulary that the worker can run."""
    config, model = scenario.config, scenario.model
    if name.startswith(("multi_layer", "dflash")):
        config = SpecConfig(1, config.num_steps, path_width(config.num_steps))
    if name.startswith("ngram"):
        model = replace(model, vocab_size=FEW_TOKENS, hot_token_id=None)
        few = [tuple(token % FEW_TOKENS for token in one.prompt) for one in scenario.arrivals]
        arrivals = [
            replace(one, prompt=prompt, eos_token=None) for one, prompt in zip(scenario.arrivals, few, strict=True)
        ]
        scenario = replace(scenario, arrivals=tuple(arrivals))
    is_frozen = name.startswith("frozen")
    model = replace(_with_draft(model, name, config), target_pool=PoolKind.MHA if is_frozen else pool, window=3)
    return PaddedRun(replace(scenario, config=config, model=model, is_v1=name in V1_WORKERS), name)


def _with_draft(model: HashModel, name: str, config: SpecConfig) -> HashModel:
    if name.startswith("multi_layer"):
        return replace(model, draft_source=DraftSource.LAYERS, num_draft_layers=config.num_steps)
    if name.startswith("dflash"):
        return replace(model, hot_token_id=None)
    if name.startswith("frozen"):
        return replace(model, kv_sharing=(model.num_target_layers - 1,))
    if name.startswith("standalone"):
        return replace(model, draft_source=DraftSource.TOKENS)
    return replace(model, reads_all_layers=name.startswith("eagle3"))


@composite
def padded_runs(draw: st.DrawFn, has_shares: bool = True) -> PaddedRun:
    """Draw a run of any algorithm on either worker; batches of three, which no bucket has, are common."""
    name = draw(st.sampled_from(("eagle_v1", "eagle_v2", *V1_WORKERS, *V2_WORKERS)))
    run = run_of(name, draw(st.one_of(tree_scenarios(), scenarios())), draw(st.sampled_from(POOLS)))
    shares = draw(st.sampled_from((None, None, (2, 1), (4, 1), (2, 4)))) if has_shares else None
    return replace(run, shares=shares)
