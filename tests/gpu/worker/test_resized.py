"""Workers on the device go on in each other's pools, in lockstep with the reference's, which do the same."""

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.history import replay
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.subject import Subject
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.schedule import Schedule

STEP, THERE, BACK = Action("step"), Action("change engine", 1), Action("change engine", 0)


@pytest.mark.parametrize(("is_v1", "pool"), [(False, PoolKind.HYBRID), (True, PoolKind.MHA)], ids=["V2", "V1"])
def test_workers_of_two_widths_take_turns_on_the_same_pools(is_v1, pool):
    setup = setup_of(
        SpecConfig(1, 1, 2),
        HashModel(VOCABULARY, 5, target_pool=pool),
        1,
        Schedule(has_prefix_cache=pool is PoolKind.MHA),
        is_v1=is_v1,
        others=(SpecConfig(2, 1, 3),),
        longest_prompt=4,
        longest_output=4,
    )
    actions = [Action("admit", Arrival((3, 1, 4), 4)), STEP, THERE, STEP, BACK]
    assert replay(Subject(load("specsim.gpu")), setup, actions) is None


@pytest.mark.parametrize("is_v1", [False, True], ids=["V2", "V1"])
@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("NGRAM", NgramParameters(3, max_breadth=2, num_draft_tokens=2), NgramParameters(4, num_draft_tokens=3)),
        ("DFLASH", DflashParameters(2), DflashParameters(3)),
    ],
)
def test_workers_of_two_parameters_take_turns_on_the_same_pools(name, own, other, is_v1):
    setup = setup_of(
        own,
        HashModel(VOCABULARY, 5),
        1,
        Schedule(),
        is_v1=is_v1,
        drafter=name,
        others=(other,),
        longest_prompt=4,
        longest_output=4,
    )
    actions = [Action("admit", Arrival((3, 1, 3), 4)), STEP, THERE, STEP, BACK]
    assert replay(Subject(load("specsim.gpu")), setup, actions) is None
