"""Laws of whole runs whose number of steps adapts or rests: nothing is lost, and batches draft what was decided."""

from itertools import chain

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot, adapt_num_steps, route_batch_size
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_present, states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Adapting, Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.laws_state import check_goes_on
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.simulation.models.hash_model import HashModel

_CALLED = ("adapt_num_steps", "build_tree", "route_batch_size", "target_verify_metadata", "verify_tree_greedy")


def adapting_steps_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """Whatever the controller decides, the output is that of autoregressive decoding, and slots have one owner."""
    Play(scenario, backend).run(checks_ledger=True).require_outputs()


def batches_draft_as_many_steps_as_was_decided(backend: Backend, scenario: Scenario) -> None:
    """Trees are as deep as the controller's rules say after the drafts that were accepted so far."""
    play, adapting = Play(scenario, backend), require_present("adapting", scenario.drafting.adapting)
    slots = adapting.config.slots
    states = {slot.batch_size: adapting.controller(backend).states[slot.batch_size] for slot in slots}
    for iteration in play.iterations():
        drafts = iteration.num_accepted_drafts.tolist()
        key = route_batch_size(len(drafts), adapting.graph_sizes, [slot.batch_size for slot in slots])
        got, expected = play.last_verify_input().num_draft_tokens, path_width(states[key].num_steps)
        require(got == expected, f"num_draft_tokens of iteration {play.engine.num_iterations}", got, expected)
        (slot,) = (slot for slot in slots if slot.batch_size == key)
        states[key] = adapt_num_steps(states[key], drafts, slot, adapting.config)


@composite
def adaptive_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run long enough for a controller that decides early to change its mind, up and down."""
    candidates = draw(st.sampled_from(((1, 2, 4), (1, 3), (2, 4), (1, 2, 3, 4), (0, 1, 3), (0, 2))))
    fewer = candidates[:-1]
    every, *larger = [AdaptiveSlot(1, candidates), AdaptiveSlot(2, fewer), AdaptiveSlot(2, (0,))]
    slots = draw(st.sampled_from(((every,), *((every, one) for one in larger))))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4), min_size=1, max_size=3))
    model = HashModel(VOCABULARY, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.3, 0.6, 0.9))))
    return scenario_of(
        SpecConfig(1, candidates[-1], path_width(candidates[-1])),
        model,
        [Arrival(tuple(prompt), draw(st.integers(12, 24))) for prompt in prompts],
        max_batch=draw(st.integers(1, 3)),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.booleans()),
        adapting=Adapting(
            AdaptiveConfig(slots, alpha=draw(st.sampled_from((0.5, 1.0))), warmup=draw(st.integers(0, 1)), interval=1),
            draw(st.sampled_from(candidates)),
            draw(st.sampled_from(((), (2, 4), (1, 2, 4)))),
        ),
    )


LONGEST_REST = 8
"""Iterations without a step that follow each other: more than a reserve of two iterations has room for."""


@composite
def resting_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run that rests, drafts and rests again; most rests outlast what is reserved when they begin."""
    deepest = draw(st.sampled_from((3, 2, 3, 2, 1)))
    others = st.lists(st.sampled_from((deepest, 1)), max_size=1)
    rests = draw(st.lists(st.sampled_from((LONGEST_REST, 1, 2)), max_size=1))
    pattern = tuple(chain.from_iterable((*[0] * count, deepest, *draw(others)) for count in (LONGEST_REST, *rests)))
    model, is_perfect = draw(models()), draw(st.booleans())
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4), min_size=1, max_size=2))
    return scenario_of(
        SpecConfig(1, deepest, path_width(deepest)),
        model,
        [Arrival(tuple(prompt), draw(st.integers(14, 18))) for prompt in prompts],
        max_batch=draw(st.integers(1, 2)),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.sampled_from((False, True, False))),
        adapting=Adapting(AdaptiveConfig((AdaptiveSlot(1, (*sorted({*pattern}),)),)), pattern[0], pattern=pattern),
        **({"agreement": 1.0, "num_right": None} if is_perfect else {}),
    )


def rests_draft_nothing_and_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """An iteration sends a root and a node a step to the target, and accepts as many drafts at most.

    What it drafts is its own affair, not that of the iteration before or of the next one. Outputs are those of
    autoregressive decoding, and slots have one owner.
    """
    play, adapting = Play(scenario, backend, has_own_scheduler=True), scenario.drafting.adapting
    for number, iteration in enumerate(play.iterations()):
        play.engine.scheduler.check_ledger()
        num_steps = require_present("adapting", adapting).num_steps(number)
        num_nodes, drafts = len(play.last_verify_input().draft_token), iteration.num_accepted_drafts.tolist()
        expected = len(drafts) * path_width(num_steps)
        require(num_nodes == expected, f"nodes of iteration {number}", num_nodes, expected)
        is_possible = all(0 <= count <= num_steps for count in drafts)
        require(is_possible, f"num_accepted_drafts of iteration {number}", drafts, f"0 to {num_steps}")
    play.require_outputs()


def drafts_go_on_as_if_there_had_been_no_rest(backend: Backend, scenario: Scenario) -> None:
    """Both caches, and what starts the next draft, are those of a fresh prefill, at rest and after it."""
    play = Play(scenario, backend, has_own_scheduler=True)
    for _ in play.iterations():
        check_goes_on(play.engine, scenario)


PROPERTIES = (
    *states_of_runs(
        "adaptive_engine",
        (adapting_steps_change_no_output, adaptive_runs, _CALLED, "P01"),
        (batches_draft_as_many_steps_as_was_decided, adaptive_runs, _CALLED, "P60"),
    ),
    *states_of_runs(
        "resting_engine",
        (rests_draft_nothing_and_change_no_output, resting_runs, SPINE, "P01"),
        (drafts_go_on_as_if_there_had_been_no_rest, resting_runs, SPINE, "P49"),
        plays=OF_ENGINES,
    ),
)
