"""K.5 and K.6 inside an iteration: three trees on pages of four, their drafts, moves and freed pages."""

from types import SimpleNamespace

import numpy as np
import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import from_numpy, to_numpy
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.stopping import StopRules
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.memory import SlotRange
from specsim.simulation.requests import PromptChunk
from tests.worked_examples.books import Books
from tests.worked_examples.numbers import STEP_IDS, STEP_P
from tests.worked_examples.scripted import Script, ScriptedModel

WORKERS = ("reference", "production")
"""The loop of the reference, and that of the GPU."""

CONFIG, SIZES, ROWS = SpecConfig(2, 3, 6), PoolSizes(num_slots=140, num_rows=4, row_width=24, page_size=4), [1, 2, 3]
LENGTHS, BONUS = [9, 8, 10], [10, 10, 30]
PREFIX_SLOTS = [[*range(4, 12), 100], [*range(12, 20)], [*range(20, 28), 124, 125]]
DRAFT_SLOTS = [[*range(101, 108)], [*range(112, 120)], [*range(126, 140)]]
WINDOWS = [[*range(101, 107)], [*range(112, 118)], [*range(126, 132)]]
ACCEPT_INDEX = [[0, 2, -1, -1], [6, -1, -1, -1], [12, 13, 15, 17]]
KEPT = [[101, 102], [112], [126, 127, 128, 129]]
TEXT_ENDS, COPIES = [100, 124, 125], [104, 132, 133]
SCRIPT = Script(
    step_p=[[rows[0], rows[0], rows[1]] if step == 0 else [*rows[:2], *rows] for step, rows in enumerate(STEP_P)],
    step_ids=[[rows[0], rows[0], rows[1]] if step == 0 else [*rows[:2], *rows] for step, rows in enumerate(STEP_IDS)],
    bonus=BONUS,
    target_predict=[[12, 91, 70, 92, 93, 94], [99, 91, 92, 93, 94, 95], [31, 42, 95, 63, 96, 80]],
)
"""The first tree of K.1, of which a path of two and one of a root alone are accepted, and the second one whole."""


def prefilled(worker):
    """Prefill the prompts."""
    worker.assign_slots(
        [SlotRange(row, 0, len(slots), tuple(slots)) for row, slots in zip(ROWS, PREFIX_SLOTS, strict=True)]
    )
    prompts = [PromptChunk.whole(range(50, 50 + length)) for length in LENGTHS]
    assert worker.prefill(ROWS, prompts) == BONUS
    return worker


def entries(buffer, slots):
    return np.asarray(buffer)[slots, 0].tolist()


def check_drafted(model):
    """Beams lie on pages of their own, each after a copy of what the text has on its last page."""
    first, second = model.asked["draft_step"]
    assert first.out_cache_loc.tolist() == [101, 105, 112, 116, 126, 134]
    assert second.out_cache_loc.tolist() == [102, 106, 113, 117, 127, 135]
    draft = model.found["draft_step"][0]
    assert entries(draft, COPIES) == entries(draft, TEXT_ENDS)
    assert [entry % 1000 for entry in entries(draft, COPIES)] == [8, 8, 9]


def check_moved(worker):
    """Accepted entries lie in front of their windows, where the map names them."""
    state = worker.state()
    (target,) = state["target_kv"]
    assert [entries(target, slots) for slots in KEPT] == [
        [10_009, 12_010],
        [10_008],
        [30_010, 31_011, 42_012, 63_013],
    ]
    rows = np.asarray(state["req_to_token"])
    for row, length, slots in zip(ROWS, LENGTHS, KEPT, strict=True):
        assert rows[row, length : length + len(slots)].tolist() == slots


def build(loops, layer):
    """Return the first of two workers or, on the GPU, the second, and its model."""
    if layer == "production":
        model = ScriptedModel(from_numpy, to_numpy, "torch", SCRIPT)
        return loops[1](CONFIG, model, SIZES, use_graphs=False), model
    model = ScriptedModel(script=SCRIPT)
    return loops[0](CONFIG, model, SIZES), model


@pytest.mark.parametrize("layer", WORKERS)
def test_k5_and_k6_v2(layer):
    worker, model = build((ReferenceWorker, GpuWorker), layer)
    prefilled(worker)
    worker.assign_slots(
        [
            SlotRange(row, length, length + len(slots), tuple(slots))
            for row, length, slots in zip(ROWS, LENGTHS, DRAFT_SLOTS, strict=True)
        ]
    )
    worker.decode(ROWS)
    assert worker.phases()[2].accept_index.tolist() == ACCEPT_INDEX
    check_drafted(model)
    check_moved(worker)
    assert np.asarray(worker.state()["seq_lens"])[ROWS].tolist() == [11, 9, 14]


def v1_with(layer, rules):
    books = Books(ROWS, LENGTHS, BONUS, DRAFT_SLOTS, WINDOWS, rules, page_size=4)
    worker, model = build((ReferenceWorkerV1, GpuWorkerV1), layer)
    worker.keep_books(books)
    return SimpleNamespace(worker=prefilled(worker), model=model, books=books)


@pytest.mark.parametrize("layer", WORKERS)
def test_k6_v1_moves_before_it_frees_and_one_request_has_ended(layer):
    v1 = v1_with(layer, [StopRules(9), StopRules(9, eos_tokens=frozenset({99})), StopRules(9)])
    free, found = v1.books.free, []

    def watched(slots):
        found.append(entries(v1.model.cache_of("verify"), [102, 128, 129]))
        free(slots)

    v1.books.free = watched
    v1.worker.decode(ROWS)
    assert v1.worker.phases()[2].accept_index.tolist() == ACCEPT_INDEX
    assert found == [[12_010, 42_012, 63_013]]
    check_drafted(v1.model)
    check_moved(v1.worker)
    assert (v1.books.freed, v1.books.committed) == ([104, 105, 106, 116, 117], KEPT)
    going_on = v1.worker.phases()[3]
    assert going_on.out_cache_loc.tolist() == KEPT[0] + KEPT[2]
    assert (going_on.seq_lens.tolist(), going_on.num_accepted_drafts.tolist()) == ([11, 14], [1, 3])
    assert going_on.input_ids.tolist() == [12, 70, 31, 42, 63, 80]
    assert v1.worker.phases()[0].seq_lens.tolist() == v1.worker.phases()[1].seq_lens.tolist() == LENGTHS


@pytest.mark.parametrize(("ended", "going_on"), [(range(0), [1, 2, 3]), (range(3), [])])
def test_k6_v1_advances_the_lengths_of_ended_requests_too(ended, going_on):
    v1 = v1_with("reference", [StopRules(1 if place in ended else 9) for place in range(3)])
    v1.worker.decode(ROWS)
    assert v1.worker.batch.info.req_pool_indices.tolist() == going_on
    lengths = [9 + 1, 8 + 1, 10 + 1] if ended else [11, 9, 14]
    assert v1.worker.batch.seq_lens.tolist() == lengths
