import pytest

from specsim.config import SpecConfig, TreeMaskMode
from specsim.rejection import Reason, SpecRejection


def test_sizes_that_follow_from_the_configuration():
    config = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)
    assert (config.path_width, config.reserve) == (4, 12)


@pytest.mark.parametrize(
    ("topk", "num_steps", "num_draft_tokens", "what"),
    [
        (0, 3, 4, "topk"),
        (1, -1, 0, "num_steps"),
        (1, 0, 2, "num_draft_tokens"),
        (1, 0, 0, "num_draft_tokens"),
        (2, 0, 1, "topk"),
        (2, 3, 3, "num_draft_tokens"),
        (2, 3, 12, "num_draft_tokens"),
        (1, 3, 5, "num_draft_tokens"),
        (64, 40, 1025, "num_draft_tokens"),
    ],
)
def test_contradictions_name_the_field(topk, num_steps, num_draft_tokens, what):
    with pytest.raises(SpecRejection) as caught:
        SpecConfig(topk, num_steps, num_draft_tokens)
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, what)


def test_a_chain_without_steps_is_its_root():
    config = SpecConfig(topk=1, num_steps=0, num_draft_tokens=1)
    assert (config.path_width, config.reserve) == (1, 2)
    assert SpecConfig(1, 3, 4).at_steps(0) == config


@pytest.mark.parametrize(("config", "num_steps"), [((1, 3, 4), -1), ((1, 0, 1), 1), ((2, 3, 6), 0)])
def test_steps_of_an_iteration_are_none_to_those_of_the_chain(config, num_steps):
    with pytest.raises(SpecRejection) as caught:
        SpecConfig(*config).at_steps(num_steps)
    assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_a_tree_may_keep_every_candidate():
    assert SpecConfig(2, 3, 11).num_draft_tokens == 11


def test_mask_modes_have_the_values_of_the_engines():
    assert [mode.value for mode in TreeMaskMode] == [0, 1, 2]
