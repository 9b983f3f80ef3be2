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
        (1, 0, 2, "num_steps"),
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


def test_a_tree_may_keep_every_candidate():
    assert SpecConfig(2, 3, 11).num_draft_tokens == 11


def test_mask_modes_have_the_values_of_the_engines():
    assert [mode.value for mode in TreeMaskMode] == [0, 1, 2]
