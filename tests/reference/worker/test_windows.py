"""Layers with a sliding window in whole runs: what is output, who is refused, and how little a long text needs."""

import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes, SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.autoregressive import PrefillDecoder
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)
MODEL = HashModel(32, 5, 0.8, target_pool=PoolKind.SWA, window=4)
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)


def engine(loop, config, schedule, sizes=None, observer=None):
    requests = [Request(number, list(PROMPT[number:]), 40) for number in range(2)]
    sizes = sizes or sizes_for(config, requests, 2, 1, MODEL.window, schedule)
    run = Engine(loop(config, load_model(MODEL), sizes), 2, 3, schedule=schedule, observer=observer or Reach())
    for request in requests:
        run.submit(request)
    return run


@pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_a_long_text_needs_slots_for_its_window_and_its_drafts_alone(loop, config):
    reach = Reach()
    run = engine(loop, config, Schedule(prefill_chunk=3), observer=reach)
    swa, most = run.scheduler.memory.swa, 0
    while run.has_work:
        run.step()
        most = max(most, swa.swa.num_slots - 1 - swa.swa.num_free)
    for request in run.scheduler.finished:
        assert request.output == greedy_decode(MODEL, request.prompt, 40)
    assert most < 40 < swa.full.num_slots and reach.counts[Tag.SWA] > 20
    assert swa.swa.num_free == swa.swa.num_slots - 1


def test_an_entry_that_went_too_early_changes_the_output():
    run = engine(ReferenceWorker, CHAIN, Schedule())
    run.step()
    request = run.scheduler.running[0]
    run.worker.state()["full_to_swa"][request.slots[request.num_committed - 1]] = 0
    run.run()
    assert request.output != greedy_decode(MODEL, request.prompt, 40)


def test_a_text_decodes_alone_in_fewer_slots_than_it_has_positions():
    worker = ReferenceWorker(CHAIN, load_model(MODEL), PoolSizes(60, 2, 60, 1, 9))
    decoder = PrefillDecoder(worker)
    for token in PROMPT:
        decoder.append(token)
    output = []
    for _ in range(20):
        output.append(decoder.next_token())
        decoder.append(output[-1])
    assert output == greedy_decode(MODEL, PROMPT, 20)


def test_a_model_with_a_window_needs_a_pool_for_it():
    with pytest.raises(SpecRejection) as caught:
        engine(ReferenceWorker, CHAIN, Schedule(), PoolSizes(200, 3, 100))
    assert str(caught.value) == (
        "BAD_CONFIGURATION: num_swa_slots is 0, but should be more than 0, "
        "because the layers that see a sliding window see 4 positions"
    )


def test_a_request_whose_window_never_fits_is_refused():
    with pytest.raises(SpecRejection) as caught:
        engine(ReferenceWorker, CHAIN, Schedule(), PoolSizes(200, 3, 100, 1, 8))
    assert caught.value.reason is Reason.OUT_OF_SLOTS
    assert "SWA" in str(caught.value)
