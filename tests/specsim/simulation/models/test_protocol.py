"""What a worker refuses before it allocates anything."""

from dataclasses import replace

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.description import DraftSource, Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.poison import poison_of
from specsim.simulation.models.protocol import Model, require_model

CHAIN, SIZES = SpecConfig(1, 2, 3), PoolSizes(8, 2, 8)


def facts(**changes):
    model = load_model(HashModel())
    model.description = replace(model.description, **changes)
    return model


def refusal(model, arrays="numpy"):
    with pytest.raises(SpecRejection) as caught:
        require_model(model, arrays)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    return str(caught.value)


@pytest.mark.parametrize("worker", [ReferenceWorker, ReferenceWorkerV1, GpuWorker, GpuWorkerV1])
def test_every_worker_refuses_what_is_no_model_and_says_how_to_load_one(worker):
    loader = "gpu" if worker in (GpuWorker, GpuWorkerV1) else "reference"
    with pytest.raises(SpecRejection) as caught:
        worker(CHAIN, HashModel(), SIZES)
    assert str(caught.value) == (
        "BAD_CONFIGURATION: model is HashModel, but should be a specsim.simulation.models.protocol.Model, because the "
        f"worker runs its forwards; specsim.{loader}.models.load_model makes a toy model one"
    )


def test_arrays_are_the_workers():
    assert "description.arrays is numpy, but should be torch" in refusal(load_model(HashModel()), "torch")
    assert "description.arrays is torch, but should be numpy" in refusal(load_on_device(HashModel()))


@pytest.mark.parametrize("source", [DraftSource.TARGET_KV, DraftSource.NOTHING])
def test_a_draft_without_kv_of_its_own_is_for_another_worker(source):
    assert f"draft_source is {source.name}, but should be HIDDEN or TOKENS" in refusal(facts(draft_source=source))


def test_components_of_a_side_have_different_names():
    keys = load_model(HashModel()).description.components_of(Side.DRAFT)[0]
    message = refusal(facts(kv_components=(keys, keys)))
    assert "DRAFT components is ['keys', 'keys'], but should be different names" in message


def test_the_draft_consumes_layers_that_the_target_returns():
    assert "draft_layers is [5]" in refusal(facts(draft_layers=(0, 5, -1), auxiliary_layers=(0, 1)))
    assert require_model(facts(draft_layers=(0, -1), auxiliary_layers=(0,)), "numpy").hidden_layers == (0, -1)


@pytest.mark.parametrize("worker", [GpuWorker, GpuWorkerV1])
def test_graphs_of_a_model_that_cannot_be_captured_are_refused(worker):
    model = load_on_device(HashModel())
    model.description = replace(model.description, is_capturable=False)
    with pytest.raises(SpecRejection) as caught:
        worker(CHAIN, model, SIZES, use_graphs=True)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    assert not worker(CHAIN, model, SIZES).use_graphs


def test_the_toys_are_models():
    assert isinstance(load_model(HashModel()), Model)
    assert isinstance(load_on_device(HashModel()), Model)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "float64", "bool"])
def test_an_unwritten_entry_is_loud_and_finite(dtype):
    value = np.array(poison_of(dtype), dtype=dtype)
    assert np.isfinite(value)
    assert value == poison_of(dtype)
    assert abs(float(value)) >= 1
