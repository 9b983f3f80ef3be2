"""Where two runs first differ: which phase, field and entry are named."""

from dataclasses import replace

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence, first_divergence_of_v1
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

CONFIG = SpecConfig(2, 3, 6)


def requests():
    return [Request(number, [number, 7, 3], 9) for number in range(3)]


def worker_of(kind, agreement=0.7):
    return kind(CONFIG, load_model(HashModel(32, 3, agreement)), sizes_for(CONFIG, requests(), 3))


def phases_of(kind, asked=None):
    engine = Engine(worker_of(kind), 3)
    for request in requests() if asked is None else asked:
        engine.submit(request)
    engine.step()
    return engine.worker.phases()


@pytest.fixture(scope="module")
def phases():
    return phases_of(ReferenceWorker), phases_of(ReferenceWorkerV1)


def changed(values):
    values = values.copy()
    values[-1] += 1
    return values


def test_equal_iterations_of_both_workers_do_not_differ(phases):
    assert first_divergence_of_v1(4, *phases) is None


@pytest.mark.parametrize("name", ["input_ids", "hidden_states"])
def test_a_segment_that_differs_is_named_with_its_place(phases, name):
    v2, (*front, ragged) = phases
    broken = replace(ragged, **{name: changed(getattr(ragged, name))})
    divergence = first_divergence_of_v1(4, v2, (*front, broken))
    assert (divergence.iteration, divergence.phase, divergence.field) == (4, "EagleDraftExtendInput", name)
    assert divergence.index[0] == len(getattr(ragged, name)) - 1
    assert f"= {divergence.got}, but should be {divergence.expected}" in str(divergence)


def test_a_phase_before_the_extend_is_named_first(phases):
    v2, (draft, verify, output, ragged) = phases
    broken = replace(output, num_accepted_drafts=changed(output.num_accepted_drafts))
    divergence = first_divergence_of_v1(0, v2, (draft, verify, broken, ragged))
    assert (divergence.phase, divergence.field) == ("VerifyOutput", "num_accepted_drafts")
    assert divergence.index == (len(output.num_accepted_drafts) - 1,)


def test_another_number_of_requests_is_a_difference_of_shapes(phases):
    divergence = first_divergence(0, phases[0], phases_of(ReferenceWorker, requests()[:2]))
    assert (divergence.phase, divergence.index, divergence.expected, divergence.got) == ("DraftInput", (), (3,), (2,))


def test_predictions_off_the_path_are_not_compared(phases):
    v2, _ = phases
    output = v2[2]
    off = np.setdiff1d(np.arange(len(output.predict)), output.accept_index)
    predict = output.predict.copy()
    predict[off] += 1
    assert len(off)
    assert first_divergence(0, (output,), (replace(output, predict=predict),)) is None


def test_workers_of_different_models_part_at_the_first_iteration():
    workers = [worker_of(ReferenceWorker, agreement) for agreement in (0.9, 0.1)]
    divergence = find_divergence(*workers, requests(), max_batch=3)
    assert divergence is not None
    assert divergence.iteration == 0


def test_a_worker_that_is_done_before_the_other_one_differs():
    workers = [worker_of(ReferenceWorker, agreement) for agreement in (0.0, 1.0)]
    divergence = find_divergence(*workers, requests(), max_batch=3, compare=lambda number, one, other: None)
    assert (divergence.phase, divergence.field, divergence.expected, divergence.got) == ("Engine", "step", True, False)
    assert divergence.iteration > 1
