"""Whole runs of drafts that consume something else than the last hidden states: EAGLE3's and STANDALONE's."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.property import OF_EAGLE
from specsim.properties.runs.drafted import drafted_by
from specsim.properties.runs.histories import VOCABULARY, scenarios, tree_scenarios
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.requests import Request


@composite
def sided_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run whose draft is right to a depth, or as long as it knows the target's choice.

    Most requests begin with another token: a draft that consumes tokens alone must not need to know it. All end with
    another one, so that proposals differ. Most drafts have ids of their own, also in the simplest case.
    """
    scenario = draw(st.one_of(tree_scenarios(), tree_scenarios(), scenarios()))
    hot_seed = draw(st.integers(0, 255))
    hot = np.random.default_rng(hot_seed).permutation(VOCABULARY)[: VOCABULARY - 6] if hot_seed % 4 < 3 else None
    is_v1, page_size = draw(st.sampled_from((False, False, True))), draw(st.sampled_from((1, 1, 4)))
    return scenario.having(
        arrivals=tuple(replace(one, prompt=(*one.prompt, place)) for place, one in enumerate(scenario.arrivals)),
        is_v1=is_v1,
        page_size=page_size,
        num_target_layers=draw(st.sampled_from((2, 3))),
        agreement=1.0,
        num_right=draw(st.sampled_from((1, None, None))),
        hot_token_id=hot,
    )


def drafts_are_right_as_far_as_they_know(backend: Backend, scenario: Scenario) -> None:
    """No output changes, and every verify accepts what the target chooses up to a token that no draft proposes.

    Each run is played with a draft that consumes hidden states of all layers, and on both loops with one that consumes
    tokens alone, whose workers no other law plays.
    """
    for name in ("eagle3_v1" if scenario.is_v1 else "eagle3_v2", "standalone_v1", "standalone_v2"):
        _require_counted(Play(drafted_by(name, scenario), backend).run())


def _require_counted(play: Play) -> None:
    """Raise AssertionError where an output or a count is not what the law says."""
    play.require_outputs()
    for request in play.requests:
        # NOTE: what follows a prompt goes on beyond the end of its request.
        count = request.max_new_tokens + play.scenario.config.path_width
        truth = [*request.prompt, *greedy_decode(play.scenario.model, request.prompt, count)]
        counted = request.counters.num_verifies, request.counters.num_accepted_drafts
        wanted = _verified(play.scenario, request, truth)
        require(counted == wanted, f"verifies and accepted drafts of request {request.request_id}", counted, wanted)


def _verified(scenario: Scenario, request: Request, truth: Sequence[int]) -> tuple[int, int]:
    """Return how many verifies a request takes, and how many drafts they accept."""
    num_verifies = num_accepted_drafts = 0
    end, root = len(request.prompt) + len(request.output), len(request.prompt)
    while root + 1 < end:
        known = _num_known(scenario, truth[root + 1 :][: scenario.config.num_steps])
        num_verifies, num_accepted_drafts, root = num_verifies + 1, num_accepted_drafts + known, root + known + 1
    return num_verifies, num_accepted_drafts


def _num_known(scenario: Scenario, following: Sequence[int]) -> int:
    """Return how many of the tokens that follow a draft proposes first."""
    model = scenario.model
    hot = None if model.hot_token_id is None else set(model.hot_token_id.tolist())
    most = len(following) if model.num_right is None else min(model.num_right, len(following))
    unknown = (depth for depth in range(most) if hot is not None and following[depth] not in hot)
    return next(unknown, most)


PROPERTIES = states_of_runs(
    "draft_sides_engine",
    (drafts_are_right_as_far_as_they_know, sided_scenarios, (*SPINE, "map_hot_tokens"), "P06", {"weight": 2}),
    plays=(*OF_EAGLE, "standalone_v1", "standalone_v2"),
)
