"""Every small tree on this machine's device: up to eight nodes on a GPU, up to five where kernels are interpreted."""

import pytest

from specsim.conformance.backend import load
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.suite.small_trees.every import FORMS, NUM_NODES
from specsim.properties.suite.small_trees.trial import try_all

GPU = load("specsim.gpu")
INTERPRETED_NODES = 5


@pytest.mark.parametrize("name", FORMS)
def test_every_small_tree_conforms(name):
    num_nodes = INTERPRETED_NODES if is_interpreted(GPU) else NUM_NODES
    tried = try_all(FORMS[name], GPU, num_nodes)
    assert (tried.error, tried.cases) == (None, FORMS[name].count_up_to(num_nodes))
