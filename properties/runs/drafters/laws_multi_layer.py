"""Whole runs of multi-layer drafts: no token is lost, and every draft is that of a text which was prefilled afresh."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_equal, states_of_runs
from specsim.properties.runs.histories import SMALL_VOCABULARY
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.laws_state import prefill_whole
from specsim.reference.models import load_model
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.schedule import Schedule

OPERATIONS = ("assign_new_state", "rotate_input_ids", "assign_hidden_states_pool")
WORKERS = ("multi_layer_eagle_v1", "multi_layer_eagle_v2")
"""A run is played on both."""


@composite
def layered_runs(draw: DrawFn) -> Scenario:
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
    num_layers = 4 if is_narrow else draw(st.sampled_from((3, 4, 2, 1)))
    agreement = draw(st.sampled_from((0.7, 0.9, 1.0, 0.4)))
    return scenario_of(
        SpecConfig(1, num_layers, num_layers + 1),
        HashModel(
            SMALL_VOCABULARY,
            int(source.integers(0, 50)),
            agreement,
            num_draft_layers=num_layers,
            draft_source=DraftSource.LAYERS,
        ),
        [Arrival(prompt, draw(st.sampled_from((12, 7, 16, 2)))) for prompt in prompts],
        max_batch=draw(st.sampled_from((2, 3))),
        shuffle_seed=3,
        drafter="MULTI_LAYER",
        page_size=page_size,
        schedule=Schedule(
            is_overlapped=draw(st.booleans()),
            prefill_chunk=draw(st.sampled_from(chunks)),
            stream_seed=draw(st.integers(0, 2**16)),
            has_prefix_cache=is_narrow or draw(st.booleans()),
        ),
        retractions=tuple((step, -1) for step in draw(st.lists(st.integers(2, 9), max_size=2))),
    )


def drafts_are_those_of_a_fresh_prefill(backend: Backend, scenario: Scenario) -> None:
    """Texts are those of plain decoding; layers propose what a prefill of the text lets them, and verifies accept it.

    What any layer keeps of proposals that came out otherwise, of a chunk's end, of a cached front or of another request
    changes a later proposal, which seldom changes how many are accepted.
    """
    fresh = FreshPrefills(scenario.model, scenario.config)
    _require_proposals(Play(scenario.having(is_v1=True, is_overlapped=False), backend), fresh)
    _require_proposals(Play(scenario, backend), fresh)


def _require_proposals(play: Play, fresh: "FreshPrefills") -> None:
    """Run a play; raise AssertionError where it is not what the law says."""
    asked, num_steps = play.requests, play.scenario.config.num_steps
    truths = [greedy_decode(play.scenario.model, one.prompt, one.max_new_tokens + num_steps + 1) for one in asked]
    known = [(0, 0, 0)] * len(asked)
    is_waiting = [True] * len(asked)
    for _ in play.turns(checks_ledger=True):
        for number, request in enumerate(asked):
            (num_before, verifies_before, retractions_before), truth = known[number], truths[number]
            output = request.output
            is_waiting[number] |= request.num_retractions > retractions_before
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
        known = [(len(one.output), one.counters.num_verifies, one.num_retractions) for one in asked]
        carried = play.worker.state()
        for request in play.engine.scheduler.running:
            if request.output:
                # NOTE: what is launched ahead is after the output; a text goes on as it would alone.
                text = [*request.prompt, *truths[request.request_id]][: int(carried["seq_lens"][request.row])]
                require_equal(f"proposals after {text}", carried["topk_index"][request.row], fresh.proposals(text))


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
        prefill_whole(worker, list(text))
        proposed: list[int] = worker.state()["topk_index"][1].tolist()
        return proposed


PROPERTIES = states_of_runs(
    "multi_layer_engine",
    (drafts_are_those_of_a_fresh_prefill, layered_runs, OPERATIONS, "P48", {"least_examples": 4, "weight": 2}),
    plays=WORKERS,
)
