"""Whole runs of chains whose iterations draft as many steps as a pattern says, none at all among them."""

from itertools import chain

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.properties.composite import composite
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.scenario import Adapting, Arrival, Scenario, scenario_of

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
