"""Sampled verify in whole runs of every drafter: the output is what the target draws alone, token by token."""

from functools import partial

import pytest

from specsim.config import SpecConfig
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.properties.operations.sampled_verify.faults import MUTANTS
from specsim.properties.runs.sampling import sampled_law
from specsim.properties.runs.sampling.sampled_law import check_drawn_outputs
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel

PLAIN = HashModel(3, 11, 0.9)
BOTH = ("", "_v2")


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("config", [SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)], ids=["tree", "chain"])
def test_frozen_kv_mtp(config, version):
    model = HashModel(3, 11, 0.9, kv_sharing=(0,))
    check_drawn_outputs(partial(loop_of(f"frozen_kv_mtp{version}"), config), config, model, (0, 1))


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("mode", TreeMode)
def test_ngram(mode, version):
    parameters = NgramParameters(max_depth=3, max_breadth=2, capacity=50, num_draft_tokens=4, mode=mode)
    check_drawn_outputs(partial(loop_of(f"ngram{version}"), parameters), parameters.config, PLAIN, (0, 1, 0, 1))


@pytest.mark.parametrize("version", BOTH)
def test_dflash(version):
    parameters = DflashParameters(3)
    check_drawn_outputs(partial(loop_of(f"dflash{version}"), parameters), parameters.config, PLAIN, (1, 2))


@pytest.mark.parametrize("version", ["_v1", "_v2"])
def test_multi_layer_eagle(version):
    model = HashModel(3, 11, 0.9, num_draft_layers=2, draft_source=DraftSource.LAYERS)
    config = SpecConfig(1, 2, 3)
    check_drawn_outputs(partial(loop_of(f"multi_layer_eagle{version}"), config), config, model, (0, 1, 2))


@pytest.mark.parametrize("number", ["OWN-4200", "OWN-4203", "OWN-4206", "OWN-4207"])
def test_faults_show_in_a_whole_run(number, monkeypatch):
    (mutant,) = [one for one in MUTANTS if one.id == number]
    monkeypatch.setattr(sampled_law, "ORACLE", mutant.plant(sampled_law.ORACLE))
    with pytest.raises(AssertionError, match="output of seed "):
        test_frozen_kv_mtp(SpecConfig(2, 2, 5), "_v2")
