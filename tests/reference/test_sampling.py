import numpy as np

from specsim.conformance.backend import load
from specsim.host.sampling import SamplingParameters
from specsim.reference.worker.heads import Heads
from specsim.reference.worker.sampling import first_tokens
from specsim.reference.worker.sampling_rows import SamplingRows
from specsim.simulation.models.language_models import HashModel

ORACLE = load("specsim.reference")
HIDDEN = np.array([[5, 6, 7], [8, 9, 1]], dtype=np.int64)


def test_parameters_are_kept_by_row():
    rows = SamplingRows(4)
    rows.assign([3, 1], [SamplingParameters(0.5, 7, 0.9, 0.1, 0.8, 0.7, 11), None])
    assert rows.is_greedy(np.array([1, 3])).tolist() == [True, False]
    assert rows.has_sampled(np.array([1, 3]))
    assert not rows.has_sampled(np.array([1, 2]))
    assert not rows.has_sampled(np.array([], dtype=np.int64))
    assert rows.seeds(np.array([3])).tolist() == [11]
    got = rows.parameters(np.array([3]))
    assert {name: (value.dtype.name, value.item()) for name, value in got.items()} == {
        "temperature": ("float32", 0.5),
        "top_k": ("int32", 7),
        "top_p": ("float32", np.float32(0.9)),
        "min_p": ("float32", np.float32(0.1)),
        "threshold_single": ("float32", np.float32(0.8)),
        "threshold_acc": ("float32", np.float32(0.7)),
    }


def test_a_row_that_is_assigned_again_is_greedy():
    rows = SamplingRows(2)
    rows.assign([1], [SamplingParameters()])
    rows.assign([1], [None])
    assert rows.is_greedy(np.array([1])).tolist() == [True]


def test_first_tokens_have_the_coins_of_the_length_before_the_last_prompt_token():
    asked = []

    def call(operation, **arguments):
        if operation == "generate_coins":
            asked.append((arguments["seeds"].tolist(), arguments["seq_lens"].tolist(), arguments["num_draft_tokens"]))
        return ORACLE.call(operation, **arguments)

    heads = Heads(HashModel(4), 1, 3, call)
    heads.sampling.assign([1, 2], [SamplingParameters(seed=9), None])
    row, chosen = np.array([1, 2]), np.array([3, 2])
    got = first_tokens(row, np.array([1, 6], dtype=np.int32), HIDDEN, chosen, heads, call)
    assert asked == [([9, 0], [0, 5], 1)]
    assert got.dtype == np.int64
    assert got[1] == 2


def test_without_a_sampled_request_no_coin_is_drawn():
    def call(operation, **arguments):
        raise AssertionError(operation)

    heads = Heads(HashModel(4), 1, 3, call)
    chosen = np.array([3, 2])
    assert first_tokens(np.array([1, 2]), np.array([1, 6]), HIDDEN, chosen, heads, call) is chosen


def test_greedy_rows_of_the_logits_have_the_greedy_choice_on_top():
    heads = Heads(HashModel(4), 1, 3, ORACLE.call)
    logits = heads.sampling_logits(HIDDEN, np.array([2, 0]), np.array([True, False]))
    assert logits.dtype == np.float32
    assert logits[0].tolist() == [-1.0, -1.0, 0.0, -1.0]
    assert sorted(logits[1].tolist()) == [-3.0, -3.0, -2.0, -1.0]
