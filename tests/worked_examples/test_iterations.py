"""K.1 to K.3 through the workers: a model that answers from tables, and the numbers that go in and come out."""

from types import SimpleNamespace

import numpy as np
import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import load
from specsim.gpu.arrays import from_numpy, to_numpy
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.stopping import StopRules
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.worker import PromptChunk
from tests.worked_examples.books import Books
from tests.worked_examples.conftest import LAYERS
from tests.worked_examples.numbers import (
    ACCEPT_INDEX,
    BONUS,
    DRAFT_TOKEN,
    NEXT_SIBLING,
    NEXT_TOKEN,
    POSITIONS,
    QLEN_ROWS,
    SEQ_LENS,
    VERIFY_SLOTS,
    i64,
)
from tests.worked_examples.scripted import ScriptedModel

PRODUCTION = "production"
WORKERS = (*LAYERS, PRODUCTION)
"""The loop of the reference on either layer, and that of the GPU."""

CONFIG, SIZES, ROWS = SpecConfig(2, 3, 6), PoolSizes(num_slots=40, num_rows=3, row_width=20), [1, 2]
PROMPTS = [list(range(1, 8)), list(range(51, 56))]
PREFIX_SLOTS = [[2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13]]
WINDOWS = [tuple(VERIFY_SLOTS[:6]), tuple(VERIFY_SLOTS[6:])]


def prefilled(worker):
    """Prefill both prompts and give V2 the slots after them."""
    ranges = [SlotRange(row, 0, len(slots), tuple(slots)) for row, slots in zip(ROWS, PREFIX_SLOTS, strict=True)]
    worker.assign_slots(ranges)
    assert worker.prefill(ROWS, [PromptChunk.whole(prompt) for prompt in PROMPTS]) == BONUS
    return worker


@pytest.fixture(params=WORKERS)
def v2(request):
    """Return a V2 worker after its prefill, and its model."""
    if request.param == PRODUCTION:
        model = ScriptedModel(from_numpy, to_numpy, "torch")
        worker = GpuWorker(CONFIG, model, SIZES, use_graphs=False)
    else:
        model = ScriptedModel()
        worker = ReferenceWorker(CONFIG, model, SIZES, load(request.param))
    prefilled(worker)
    worker.assign_slots(
        [SlotRange(row, length, length + 6, slots) for row, length, slots in zip(ROWS, SEQ_LENS, WINDOWS, strict=True)]
    )
    return SimpleNamespace(worker=worker, model=model)


def v1_with(layer, rules):
    books = Books(ROWS, SEQ_LENS, BONUS, WINDOWS, WINDOWS, rules)
    if layer == PRODUCTION:
        model = ScriptedModel(from_numpy, to_numpy, "torch")
        worker = GpuWorkerV1(CONFIG, model, SIZES, use_graphs=False)
    else:
        model = ScriptedModel()
        worker = ReferenceWorkerV1(CONFIG, model, SIZES, load(layer))
    worker.keep_books(books)
    return SimpleNamespace(worker=prefilled(worker), model=model, books=books)


def one_of(batches):
    (batch,) = batches
    return batch


def entries(buffer, slots):
    return np.asarray(buffer)[slots, 0].tolist()


def check_drafted(model, verify_input):
    """Compare what the forwards were given, and the tree, with K.1."""
    first, second = model.asked["draft_step"]
    assert (first.input_ids.tolist(), second.input_ids.tolist()) == ([11, 12, 31, 32], [21, 23, 41, 42])
    assert (first.positions.tolist(), second.positions.tolist()) == ([7, 7, 5, 5], [8, 8, 6, 6])
    assert first.out_cache_loc.tolist() == [20, 23, 30, 33]
    assert second.out_cache_loc.tolist() == [21, 24, 31, 34]
    assert second.hidden_states[:, 0].tolist() == [0, 1, 2, 2]
    assert verify_input.draft_token.tolist() == DRAFT_TOKEN
    assert verify_input.positions.tolist() == POSITIONS
    assert verify_input.retrieve_next_token.tolist() == NEXT_TOKEN
    assert verify_input.retrieve_next_sibling.tolist() == NEXT_SIBLING
    assert verify_input.tree_mask.tolist() == QLEN_ROWS.reshape(-1).tolist()
    assert verify_input.out_cache_loc.tolist() == VERIFY_SLOTS
    assert one_of(model.asked["verify"]).input_ids.tolist() == DRAFT_TOKEN


def check_verified(verify_output):
    """Compare what was accepted with K.2."""
    path = i64(ACCEPT_INDEX)[i64(ACCEPT_INDEX) >= 0]
    assert verify_output.accept_index.tolist() == ACCEPT_INDEX
    assert verify_output.predict[path].tolist() == [12, 23, 70, 31, 42, 63, 80]
    assert verify_output.num_accepted_drafts.tolist() == [2, 3]
    assert verify_output.num_accepted_tokens.tolist() == [3, 4]
    assert verify_output.bonus_tokens.tolist() == [70, 80]


def test_k1_to_k3_v2(v2):
    iteration = v2.worker.decode(ROWS)
    draft_input, verify_input, verify_output, extend_input = v2.worker.phases()
    assert (draft_input.seq_lens.tolist(), draft_input.bonus_tokens.tolist()) == (SEQ_LENS, BONUS)
    check_drafted(v2.model, verify_input)
    check_verified(verify_output)
    assert [iteration.tokens[0, :3].tolist(), iteration.tokens[1, :4].tolist()] == [[12, 23, 70], [31, 42, 63, 80]]
    _, extended = v2.model.asked["draft_extend"]
    assert extended.select.tolist() == extend_input.select_index.tolist() == [2, 9]
    assert extended.input_ids[[0, 1, 2, 6, 7, 8, 9]].tolist() == [12, 23, 70, 31, 42, 63, 80]
    assert extended.hidden_states[[0, 1, 2, 6, 7, 8, 9], 0].tolist() == [0, 2, 4, 6, 7, 9, 11]
    assert extended.positions.tolist() == [7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 10]
    state = v2.worker.state()
    (target,) = state["target_kv"]
    assert entries(target, [20, 21, 22]) == [10_007, 12_008, 23_009]
    assert entries(target, [30, 31, 32, 33]) == [30_005, 31_006, 42_007, 63_008]
    assert np.asarray(state["seq_lens"])[ROWS].tolist() == [10, 9]
    assert np.asarray(state["bonus_tokens"])[ROWS].tolist() == [70, 80]


@pytest.mark.parametrize("layer", WORKERS)
def test_k1_to_k3_v1(layer):
    v1 = v1_with(layer, [StopRules(9), StopRules(9)])
    iteration = v1.worker.decode(ROWS)
    _, verify_input, verify_output, _ = v1.worker.phases()
    check_drafted(v1.model, verify_input)
    check_verified(verify_output)
    assert iteration.num_accepted_drafts.tolist() == [2, 3]
    assert v1.books.freed == [21, 23, 25, 32, 34]
    assert v1.books.committed == [[20, 22, 24], [30, 31, 33, 35]]
    _, extended = v1.model.asked["draft_extend"]
    assert extended.input_ids.tolist() == [12, 23, 70, 31, 42, 63, 80]
    assert extended.positions.tolist() == [7, 8, 9, 5, 6, 7, 8]
    assert extended.hidden_states[:, 0].tolist() == [0, 2, 4, 6, 7, 9, 11]
    assert extended.keys.cu_seqlens_q.tolist() == [0, 3, 7]
    assert extended.keys.cache_seqlens.tolist() == [10, 9]
    state = v1.worker.state()
    rows, (target,) = np.asarray(state["req_to_token"]), state["target_kv"]
    assert rows[1, :10].tolist() == PREFIX_SLOTS[0] + [20, 22, 24]
    assert rows[2, :9].tolist() == PREFIX_SLOTS[1] + [30, 31, 33, 35]
    assert entries(target, rows[2, 5:9]) == [30_005, 31_006, 42_007, 63_008]
    assert np.asarray(state["seq_lens"])[ROWS].tolist() == [10, 9]
    assert np.asarray(state["bonus_tokens"])[ROWS].tolist() == [70, 80]


@pytest.mark.parametrize("layer", WORKERS)
def test_k3_v1_with_a_stop(layer):
    """Token 42 ends request 1: the path is cut after it, and only request 0 goes on."""
    v1 = v1_with(layer, [StopRules(9), StopRules(9, eos_tokens=frozenset({42}))])
    iteration = v1.worker.decode(ROWS)
    cut = v1.books.truncation
    assert cut.accept_index.tolist() == [[0, 2, 4, -1], [6, 7, -1, -1]]
    assert (cut.batch_num_accepted_drafts.tolist(), cut.request_num_accepted_drafts.tolist()) == ([2, 1], [2, 3])
    assert cut.appended == ((12, 23, 70), (31, 42))
    assert (iteration.num_accepted_drafts.sum(), iteration.num_accepted_tokens.tolist()) == (3, [3, 2])
    assert v1.books.freed == [21, 23, 25, 32, 33, 34, 35]
    _, _, _, going_on = v1.worker.phases()
    assert (going_on.input_ids.tolist(), going_on.hidden_states[:, 0].tolist()) == ([12, 23, 70], [0, 2, 4])
    assert (going_on.seq_lens.tolist(), going_on.num_accepted_drafts.tolist()) == ([10], [2])
    assert going_on.num_accepted_tokens_cpu == (3,)
    state = v1.worker.state()
    assert np.asarray(state["seq_lens"])[ROWS].tolist() == [10, 0]
    assert np.asarray(state["bonus_tokens"])[ROWS].tolist() == [70, 0]


def test_k3_v1_with_a_stop_advances_both_lengths():
    """The batch still lists the request that ended."""
    v1 = v1_with("specsim.reference", [StopRules(9), StopRules(9, eos_tokens=frozenset({42}))])
    v1.worker.decode(ROWS)
    assert v1.worker.batch.seq_lens.tolist() == [10, 7]
    assert v1.worker.batch.info.req_pool_indices.tolist() == [1]
