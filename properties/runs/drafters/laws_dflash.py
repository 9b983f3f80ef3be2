"""Whole runs that draft blocks: no token is lost, and each draft stands on the features of what was committed."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.conformance.backend import Backend
from specsim.host.dflash import DflashParameters
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require_equal, states_of_runs
from specsim.properties.runs.play import Play, loop_on, require_same
from specsim.properties.runs.scenario import AFTER_ALL, Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.laws_state import prefill_whole
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule

OPERATIONS = (
    *("prepare_block_draft", "block_draft_metadata", "organize_chain_draft_results", "build_tree"),
    *("verify_tree_greedy", "create_extend_after_decode_spec_info"),
    *("fill_block_tokens", "remap_accepted_slots", "truncate_at_stop"),
)

TOGETHER = 2
"""Requests that join in a step."""

ROOM = 300
"""Slots beyond the largest request: all texts stay in the prefix cache."""

WORKERS = ("dflash", "dflash_v2")
"""A run is played on both."""


@composite
def dflash_runs(draw: DrawFn) -> Scenario:
    """Draw runs whose prompts begin alike, so that the prefix cache has something to show.

    Some requests have a stop token inside. When all have ended one more may come, which goes on where the first of them
    ended.
    """
    size, page_size = draw(st.sampled_from((4, 2, 8, 3, 16))), draw(st.sampled_from((1, 3, 4)))
    window = draw(st.sampled_from((None, size, size + 3)))
    seed, num_requests = draw(st.integers(0, 2**16)), draw(st.sampled_from((4, 3, 2)))
    text = np.random.default_rng(seed)
    shared = text.integers(0, 32, 9).tolist()
    own = [text.integers(0, 32, draw(st.sampled_from((1, 4, 7)))).tolist() for _ in range(num_requests)]
    model = HashModel(32, seed % 50, draw(st.sampled_from((0.7, 1.0, 0.9))), reads_all_layers=seed % 4 < 3)
    model = draw(st.sampled_from((model, model, replace(model, num_right=1))))
    arrivals = []
    for number, tokens in enumerate(own):
        prompt = (*shared[: draw(st.sampled_from((9, 5, 0)))], *tokens)
        length, stop = draw(st.sampled_from((20, 14, 6, 1))), draw(st.sampled_from((0, 0, 3, 7)))
        stop_tokens = greedy_decode(model, prompt, length)[stop - 1 : stop] if stop else ()
        arrivals.append(Arrival(prompt, length, step=number // TOGETHER, stop_tokens=tuple(stop_tokens)))
    if draw(st.sampled_from((True, True, False))):
        ended = _text_of(model, arrivals[0])
        arrivals.append(Arrival((*ended, ended[0]), arrivals[0].max_new_tokens, step=AFTER_ALL))
    return scenario_of(
        DflashParameters(size, draw(st.sampled_from((0, 31))), window),
        model,
        arrivals,
        max_batch=3,
        shuffle_seed=1,
        drafter="DFLASH",
        page_size=page_size,
        num_spare_slots=ROOM,
        schedule=Schedule(
            prefill_chunk=draw(st.sampled_from((None, 2 * page_size))),
            has_prefix_cache=draw(st.sampled_from((True, False))),
        ),
    )


def blocks_stand_on_what_was_committed(backend: Backend, scenario: Scenario) -> None:
    """Texts are those of plain decoding, the draft's KV that of a fresh prefill, and every request drafts as alone.

    Its counters are those that it has alone on the oracle: on V1 drafts that were output, and no histogram.
    """
    fresh = _Fresh(scenario)
    for is_v1 in (True, False):
        _require_committed(Play(scenario.having(is_v1=is_v1), backend), fresh)


def _require_committed(play: Play, fresh: "_Fresh") -> None:
    """Run a play; raise AssertionError where it is not what the law says."""
    for _ in play.turns(checks_ledger=True):
        state = play.worker.state()
        for request in play.engine.scheduler.running:
            if request.output:
                fresh.compare(state, request)
    play.require_outputs()
    for number, request in enumerate(play.requests):
        (alone,) = Play(play.scenario.alone(number).having(schedule=IN_TURN)).run().requests
        require_same(request, alone, "counters")


class _Fresh:
    """A worker in which nothing but one prefill has ever run."""

    def __init__(self, scenario: Scenario) -> None:
        self._worker = loop_on(scenario.having(is_v1=True))
        self._first = scenario.room.page_size

    def compare(self, state: dict[str, Any], request: Request) -> None:
        """Raise AssertionError unless the draft has of a request what a prefill of its committed text leaves."""
        text, row = request.fill[: request.num_committed], request.row
        slots = np.arange(self._first, self._first + len(text))
        prefill_whole(self._worker, text, self._first)
        expected = self._worker.state()
        own = state["req_to_token"][row, : len(text)]
        for layer, (got, wanted) in enumerate(zip(state["draft_kv"], expected["draft_kv"], strict=True)):
            require_equal(f"draft KV {layer} of request {request.request_id}", got[own], wanted[slots])
        for name, value in (("seq_lens", len(text)), ("bonus_tokens", request.fill[-1])):
            require_equal(f"{name} of request {request.request_id}", state[name][row], value)


def _text_of(model: HashModel, arrival: Arrival) -> tuple[int, ...]:
    """Return prompt and output of a request up to its end."""
    output = greedy_decode(model, arrival.prompt, arrival.max_new_tokens)
    ends = [place + 1 for place, token in enumerate(output) if token in arrival.stop_tokens]
    return (*arrival.prompt, *output[: ends[0] if ends else None])


PROPERTIES = states_of_runs(
    "dflash_engine",
    (blocks_stand_on_what_was_committed, dflash_runs, OPERATIONS, "P48", {"least_examples": 3, "weight": 2}),
    plays=WORKERS,
)
