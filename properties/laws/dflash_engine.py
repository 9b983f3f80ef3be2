"""Whole runs that draft blocks: no token is lost, and each draft stands on the features of what was committed."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.conformance.backend import Backend
from specsim.host.dflash import DflashParameters
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import require, require_equal, state_of_runs
from specsim.properties.laws.support.histories import parts_of
from specsim.properties.laws.support.named_workers import worker_named
from specsim.reference.models import load_model
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import Schedule

OPERATIONS = (
    "prepare_block_draft",
    "block_draft_metadata",
    "organize_chain_draft_results",
    "build_tree",
    "verify_tree_greedy",
    "create_extend_after_decode_spec_info",
    "fill_block_tokens",
    "remap_accepted_slots",
    "truncate_at_stop",
)

TOGETHER = 2
"""Requests that join in a step."""

WORKERS = ("dflash", "dflash_v2")
"""A run is played on both."""


@dataclass(frozen=True)
class DflashRun:
    """Requests that join one after another; ``stops`` has for each how much of its text ends it, 0 for nothing.

    When all have ended one more may come, which goes on where the first of them ended.
    """

    parameters: DflashParameters
    model: HashModel
    page_size: int
    schedule: Schedule
    prompts: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    stops: tuple[int, ...]
    is_continued: bool


@composite
def dflash_runs(draw: DrawFn) -> DflashRun:
    """Draw runs whose prompts begin alike, so that the prefix cache has something to show."""
    size, page_size = draw(st.sampled_from((4, 2, 8, 3, 16))), draw(st.sampled_from((1, 3, 4)))
    window = draw(st.sampled_from((None, size, size + 3)))
    seed, num_requests = draw(st.integers(0, 2**16)), draw(st.sampled_from((4, 3, 2)))
    text = np.random.default_rng(seed)
    shared = text.integers(0, 32, 9).tolist()
    own = [text.integers(0, 32, draw(st.sampled_from((1, 4, 7)))).tolist() for _ in range(num_requests)]
    model = HashModel(32, seed % 50, draw(st.sampled_from((0.7, 1.0, 0.9))), reads_all_layers=seed % 4 < 3)
    return DflashRun(
        parameters=DflashParameters(size, draw(st.sampled_from((0, 31))), window),
        model=draw(st.sampled_from((model, model, replace(model, num_right=1)))),
        page_size=page_size,
        schedule=Schedule(
            prefill_chunk=draw(st.sampled_from((None, 2 * page_size))),
            has_prefix_cache=draw(st.sampled_from((True, False))),
        ),
        prompts=tuple((*shared[: draw(st.sampled_from((9, 5, 0)))], *one) for one in own),
        lengths=tuple(draw(st.sampled_from((20, 14, 6, 1))) for _ in own),
        stops=tuple(draw(st.sampled_from((0, 0, 3, 7))) for _ in own),
        is_continued=draw(st.sampled_from((True, True, False))),
    )


def blocks_stand_on_what_was_committed(backend: Backend, run: DflashRun) -> None:
    """Texts are those of plain decoding, the draft's KV that of a fresh prefill, and every request drafts as alone.

    Its counters are those that it has alone on the oracle: on V1 drafts that were output, and no histogram.
    """
    fresh = _Fresh(run, _requests_of(run))
    for name in WORKERS:
        _play(backend, run, name, fresh)


def _play(backend: Backend, run: DflashRun, name: str, fresh: "_Fresh") -> None:
    """Play a run on the worker of a name; raise AssertionError where it is not what the law says."""
    asked = _requests_of(run)
    worker = worker_named(name, backend, run.parameters, run.model, _sizes(run, asked))
    engine = Engine(worker, 3, shuffle_seed=1, schedule=run.schedule, operations=parts_of(backend))
    waiting = list(asked)
    while engine.has_work or waiting:
        for _ in range(TOGETHER):
            is_last = len(waiting) == 1 and run.is_continued
            if waiting and not (is_last and engine.has_work):
                engine.submit(waiting.pop(0))
        engine.step()
        engine.scheduler.check_ledger()
        state = worker.state()
        for request in engine.scheduler.running:
            if request.output:
                fresh.compare(state, request)
    for request, again in zip(asked, _requests_of(run), strict=True):
        truth = greedy_decode(run.model, request.prompt, request.max_new_tokens)
        cut = truth[: len(request.output)]
        require(request.output == cut, f"output of request {request.request_id}", request.output, truth)
        alone = Engine(loop_of(name)(run.parameters, load_model(run.model), _sizes(run, asked)), 1)
        alone.submit(again)
        alone.run()
        require(
            request.counters == again.counters,
            f"counters of request {request.request_id}",
            request.counters,
            again.counters,
        )
        require(request.output == again.output, f"end of request {request.request_id}", request.output, again.output)


class _Fresh:
    """A worker in which nothing but one prefill has ever run."""

    def __init__(self, run: DflashRun, asked: list[Request]) -> None:
        self._worker = loop_of("dflash")(run.parameters, load_model(run.model), _sizes(run, asked))
        self._first = run.page_size

    def compare(self, state: dict[str, Any], request: Request) -> None:
        """Raise AssertionError unless the draft has of a request what a prefill of its committed text leaves."""
        text, row = request.fill[: request.num_committed], request.row
        slots = np.arange(self._first, self._first + len(text))
        self._worker.assign_slots([SlotRange(row=1, start=0, end=len(text), slots=tuple(slots.tolist()))])
        self._worker.prefill([1], [PromptChunk.whole(text)])
        expected = self._worker.state()
        own = state["req_to_token"][row, : len(text)]
        for layer, (got, wanted) in enumerate(zip(state["draft_kv"], expected["draft_kv"], strict=True)):
            require_equal(f"draft KV {layer} of request {request.request_id}", got[own], wanted[slots])
        for name, value in (("seq_lens", len(text)), ("bonus_tokens", request.fill[-1])):
            require_equal(f"{name} of request {request.request_id}", state[name][row], value)


def _requests_of(run: DflashRun) -> list[Request]:
    """Return fresh requests; a stop token is one of the request's own text."""
    asked = []
    for number, (prompt, length, stop) in enumerate(zip(run.prompts, run.lengths, run.stops, strict=True)):
        truth = greedy_decode(run.model, prompt, length)
        stop_tokens = truth[stop - 1 : stop] if stop else []
        asked.append(Request(number, list(prompt), length, stop_tokens=stop_tokens))
    if run.is_continued:
        text = _text_of(run, asked[0])
        asked.append(Request(len(asked), [*text, text[0]], run.lengths[0]))
    return asked


def _text_of(run: DflashRun, request: Request) -> list[int]:
    """Return prompt and output of a request up to its end."""
    output = greedy_decode(run.model, request.prompt, request.max_new_tokens)
    ends = [place + 1 for place, token in enumerate(output) if token in request.stop_tokens]
    return [*request.prompt, *output[: ends[0] if ends else None]]


def _sizes(run: DflashRun, asked: list[Request]) -> Any:
    sizes = sizes_for(run.parameters.config, asked, len(asked), run.page_size, schedule=run.schedule)
    return replace(sizes, num_rows=len(asked) + 1)


PROPERTIES = (
    state_of_runs(
        "dflash_engine",
        blocks_stand_on_what_was_committed,
        dflash_runs,
        OPERATIONS,
        "P48",
        WORKERS,
        least_examples=3,
        weight=2,
    ),
)
