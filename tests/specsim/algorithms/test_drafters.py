"""The records of drafters agree with what they name."""

import pytest

from specsim.algorithms import DRAFTERS, WORKERS, SpeculativeAlgorithm
from specsim.config import SpecConfig
from specsim.discovery import import_class
from specsim.rules.order import DEFAULT_DFLASH_BLOCK
from specsim.rules.sizes import CHAIN_OF_THREE


def test_every_algorithm_that_drafts_has_a_record_of_its_name():
    names = {one.value for one in SpeculativeAlgorithm if not one.is_none()}
    assert names == DRAFTERS.keys() - {"MULTI_LAYER"}
    assert all(DRAFTERS[name].algorithm.value == name and DRAFTERS[name].summary for name in names)


@pytest.mark.parametrize("name", [name for name, one in DRAFTERS.items() if one.parameters])
def test_sizes_of_a_simulation_are_the_defaults_of_the_parameters(name):
    drafter = DRAFTERS[name]
    assert drafter.drafting(*drafter.default_sizes) == import_class(drafter.parameters)()


def test_sizes_of_a_simulation_are_those_of_the_rules():
    left_open = [name for name, one in DRAFTERS.items() if not one.parameters and name != "EAGLE"]
    sizes = {SpecConfig(*DRAFTERS[name].default_sizes) for name in left_open}
    assert sizes == {CHAIN_OF_THREE}
    assert DRAFTERS["DFLASH"].default_sizes[2] == DEFAULT_DFLASH_BLOCK


def test_eagle3_shares_the_workers_of_eagle():
    assert len(WORKERS) == 12
    assert WORKERS["eagle_v1"] == (DRAFTERS["EAGLE"], True)
    assert WORKERS["eagle_v2"] == (DRAFTERS["EAGLE"], False)
