import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.choice import TokenChoice
from specsim.host.sampling import GREEDY, SamplingParameters
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)


def mixed_requests(count, max_new_tokens):
    """Return requests of which every third is greedy."""
    kinds = (SamplingParameters(1.5, seed=5), SamplingParameters(1.0, top_k=3, top_p=0.95, seed=9), None)
    return [
        Request(number, [number % 7, 2, 3], max_new_tokens + number % 2, sampling=kinds[number % 3])
        for number in range(count)
    ]


RULED = [(TREE, "token"), (CHAIN, "token"), (CHAIN, "block"), (TREE, "target-draw"), (CHAIN, "target-draw")]
LOOPS = {
    "V2, graphs": (ReferenceWorker, GpuWorker, True),
    "V1": (ReferenceWorkerV1, GpuWorkerV1, False),
}
"""The others are among the sequences of batch sizes of test_replays.py."""


@pytest.mark.parametrize(("believed", "own", "use_graphs"), LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(("config", "acceptance"), RULED)
def test_sampled_and_greedy_requests_equal_the_reference_in_every_phase(config, acceptance, believed, own, use_graphs):
    requests, model = mixed_requests(4, 3), HashModel(8, 1, 0.8)
    sizes = sizes_for(config, requests, 3)
    workers = (
        believed(config, load_model(model), sizes, acceptance=acceptance),
        own(config, load_on_device(model), sizes, use_graphs=use_graphs, acceptance=acceptance),
    )
    assert find_divergence(*workers, requests, max_batch=3, shuffle_seed=5) is None


@pytest.mark.parametrize("own", [GpuWorker, GpuWorkerV1])
def test_workers_refuse_rules_that_cannot_judge_their_drafts(own):
    requests, model = mixed_requests(2, 3), load_on_device(HashModel(8, 1, 0.8))
    sizes = sizes_for(TREE, requests, 2)
    with pytest.raises(SpecRejection) as caught:
        own(TREE, model, sizes, use_graphs=False, acceptance="block")
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    worker = own(CHAIN, model, sizes, use_graphs=False, acceptance="block")
    with pytest.raises(SpecRejection) as caught:
        worker.check_request(Request(0, [1], 2, sampling=SamplingParameters(threshold_acc=0.5)))
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@needs_gpu
@pytest.mark.parametrize(("config", "acceptance"), RULED)
def test_graphs_of_sampled_batches_equal_the_reference_in_every_phase(config, acceptance):
    requests, model = mixed_requests(24, 20), HashModel(64, 1, 0.8)
    sizes = sizes_for(config, requests, 11)
    believed, worker = (
        ReferenceWorker(config, load_model(model), sizes, acceptance=acceptance),
        GpuWorker(config, load_on_device(model), sizes, use_graphs=True, acceptance=acceptance),
    )
    assert find_divergence(believed, worker, requests, max_batch=11, shuffle_seed=5) is None


def test_the_host_knows_which_rows_are_sampled():
    sampling = ChoiceRows(5, DEVICE)
    sampling.assign([1, 2, 3], [TokenChoice(SamplingParameters()), TokenChoice(GREEDY), TokenChoice()])
    assert [sampling.asked([row]).is_sampled for row in (1, 2, 3, 4)] == [True, False, False, False]
    sampling.assign([1], [TokenChoice()])
    assert not sampling.asked([1, 2, 3]).is_sampled
