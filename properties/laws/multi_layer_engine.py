"""Whole runs of multi-layer drafts: no token is lost, and every draft is that of a text which was prefilled afresh."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import require, require_equal, state_of_runs
from specsim.properties.laws.support.histories import SMALL_VOCABULARY, parts_of
from specsim.properties.laws.support.named_workers import worker_named
from specsim.reference.models import load_model
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import Schedule

OPERATIONS = ("assign_new_state", "rotate_input_ids", "assign_hidden_states_pool")
WORKERS = ("multi_layer_eagle_v1", "multi_layer_eagle_v2")
"""A run is played on both."""


@dataclass(frozen=True)
class LayeredRun:
    """Requests of one engine; ``retractions`` are steps after which one of those that run loses what it has.

    On V1 nothing overlaps, whatever the schedule says.
    """

    model: HashModel
    page_size: int
    schedule: Schedule
    prompts: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    max_batch: int
    retractions: tuple[int, ...]

    @property
    def config(self) -> SpecConfig:
        """One draft step a layer."""
        return SpecConfig(1, self.model.num_draft_layers, self.model.num_draft_layers + 1)


@composite
def layered_runs(draw: DrawFn) -> LayeredRun:
    """Draw runs of one to four layers; prompts begin alike, and many are shorter than there are layers.

    In some, a chunk after a cached front is shorter than windows grow, so that the next one could reach into it. The
    simplest case is one of them: three requests whose verifies often reject a part, and go on for a while.
    """
    is_narrow = draw(st.sampled_from((True, False)))
    source = np.random.default_rng(draw(st.integers(0, 2**16)))
    common, prompts = source.integers(0, SMALL_VOCABULARY, 9).tolist(), []
    page_size = 1 if is_narrow else draw(st.sampled_from((1, 3, 1)))
    chunks = (2,) if is_narrow else (None, 5, 3, 4)
    for _ in range(draw(st.sampled_from((3, 4, 2)))):
        num_shared = 9 if is_narrow else draw(st.sampled_from((9, 7, 9, 0, 4)))
        own = source.integers(0, SMALL_VOCABULARY, 4 if is_narrow else draw(st.sampled_from((1, 2, 3, 6)))).tolist()
        prompts.append((*common[:num_shared], *own))
    return LayeredRun(
        model=HashModel(
            SMALL_VOCABULARY,
            int(source.integers(0, 50)),
            draw(st.sampled_from((0.7, 0.9, 1.0, 0.4))),
            num_draft_layers=4 if is_narrow else draw(st.sampled_from((3, 4, 2, 1))),
            draft_source=DraftSource.LAYERS,
        ),
        page_size=page_size,
        schedule=Schedule(
            is_overlapped=draw(st.booleans()),
            prefill_chunk=draw(st.sampled_from(chunks)),
            stream_seed=draw(st.integers(0, 2**16)),
            has_prefix_cache=is_narrow or draw(st.booleans()),
        ),
        prompts=tuple(prompts),
        lengths=tuple(draw(st.sampled_from((12, 7, 16, 2))) for _ in prompts),
        max_batch=draw(st.sampled_from((2, 3))),
        retractions=tuple(draw(st.lists(st.integers(2, 9), max_size=2))),
    )


def drafts_are_those_of_a_fresh_prefill(backend: Backend, run: LayeredRun) -> None:
    """Texts are those of plain decoding; layers propose what a prefill of the text lets them, and verifies accept it.

    What any layer keeps of proposals that came out otherwise, of a chunk's end, of a cached front or of another request
    changes a later proposal, which seldom changes how many are accepted.
    """
    fresh = FreshPrefills(run.model, run.config)
    for name in WORKERS:
        _play(backend, run, name, fresh)


def _play(backend: Backend, run: LayeredRun, name: str, fresh: "FreshPrefills") -> None:
    """Play a run on the worker of a name; raise AssertionError where it is not what the law says."""
    schedule = replace(run.schedule, is_overlapped=run.schedule.is_overlapped and name.endswith("v2"))
    asked = [Request(number, list(prompt), run.lengths[number]) for number, prompt in enumerate(run.prompts)]
    sizes = sizes_for(run.config, asked, run.max_batch, run.page_size, 0, schedule)
    worker = worker_named(name, backend, run.config, run.model, sizes)
    engine = Engine(worker, run.max_batch, shuffle_seed=3, schedule=schedule, operations=parts_of(backend))
    truths = [greedy_decode(run.model, one.prompt, one.max_new_tokens + run.config.num_steps + 1) for one in asked]
    for request in asked:
        engine.submit(request)
    known = [(0, 0)] * len(asked)
    is_waiting = [True] * len(asked)
    step = 0
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
        step += 1
        for number, request in enumerate(asked):
            (num_before, verifies_before), truth, output = known[number], truths[number], request.output
            require(output == truth[: len(output)], f"output of request {number}", output, truth)
            # NOTE: a step that resolves a prefill, which outputs one token, may go on with a verify.
            if is_waiting[number] and len(output) > num_before:
                is_waiting[number], num_before = False, num_before + 1
            if request.counters.num_verifies == verifies_before:
                continue
            text = [*request.prompt, *output[: num_before - 1]]
            num_right = fresh.accepted(text, truth[num_before:])
            expected = min(num_right + 1, request.max_new_tokens - num_before)
            got = len(output) - num_before
            require(got == expected, f"tokens of {text}, {output[num_before - 1]} after a verify", got, expected)
        known = [(len(request.output), request.counters.num_verifies) for request in asked]
        carried = worker.state()
        for request in engine.scheduler.running:
            if request.output:
                # NOTE: what is launched ahead is after the output; a text goes on as it would alone.
                text = [*request.prompt, *truths[request.request_id]][: int(carried["seq_lens"][request.row])]
                require_equal(f"proposals after {text}", carried["topk_index"][request.row], fresh.proposals(text))
        if step in run.retractions and engine.scheduler.running:
            retracted = engine.scheduler.running[-1]
            is_waiting[retracted.request_id] = True
            engine.scheduler.retract(retracted)


class FreshPrefills:
    """What each layer of the reference proposes after texts that one prefill runs over."""

    def __init__(self, model: HashModel, config: SpecConfig) -> None:
        self._model, self._config = model, config
        self._known: dict[tuple[int, ...], list[int]] = {}

    def proposals(self, text: Sequence[int]) -> list[int]:
        """Return one proposal a layer."""
        key = tuple(text)
        if key not in self._known:
            self._known[key] = self._prefilled(key)
        return self._known[key]

    def accepted(self, text: Sequence[int], following: Sequence[int]) -> int:
        """Return how many proposals are the tokens that follow the next one of the text."""
        proposed = self.proposals(text)
        is_right = [token == truth for token, truth in zip(proposed, following, strict=False)]
        return is_right.index(False) if False in is_right else len(proposed)

    def _prefilled(self, text: tuple[int, ...]) -> list[int]:
        length = len(text)
        worker = loop_of("multi_layer_eagle_v2")(
            self._config, load_model(self._model), PoolSizes(length + 1, 2, length)
        )
        worker.assign_slots([SlotRange(1, 0, length, tuple(range(1, length + 1)))])
        worker.prefill([1], [PromptChunk.whole(list(text))])
        proposed: list[int] = worker.state()["topk_index"][1].tolist()
        return proposed


PROPERTIES = (
    state_of_runs(
        "multi_layer_engine",
        drafts_are_those_of_a_fresh_prefill,
        layered_runs,
        OPERATIONS,
        "P48",
        WORKERS,
        least_examples=4,
        weight=2,
    ),
)
