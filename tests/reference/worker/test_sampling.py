import numpy as np

from specsim.conformance.backend import load
from specsim.host.choice import TokenChoice
from specsim.host.sampling import SamplingParameters
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.sampling import first_tokens, greedy_choices, sampling_logits
from specsim.simulation.models.batches import TargetOutput

ORACLE = load("specsim.reference")
HIDDEN = np.array([[5, 6, 7], [8, 9, 1]], dtype=np.int64)
EXACT = ORACLE.call("hash_target_logits", hidden_states=HIDDEN, vocab_size=4, seed=0)
OUTPUT = TargetOutput(EXACT, HIDDEN, ORACLE.call("hash_sampling_logits", hidden_states=HIDDEN, vocab_size=4, seed=0))


def sampled_first():
    rows = ChoiceRows(3)
    rows.assign([1, 2], [TokenChoice(SamplingParameters(seed=9)), TokenChoice()])
    return rows


def test_first_tokens_have_the_coins_of_the_length_before_the_last_prompt_token():
    asked = []

    def watched(seeds, seq_lens, num_draft_tokens):
        asked.append((seeds.tolist(), seq_lens.tolist(), num_draft_tokens))
        return ORACLE.functions["generate_coins"](seeds, seq_lens, num_draft_tokens)

    operations = ORACLE.with_function("generate_coins", watched, "watched")
    row, chosen = np.array([1, 2]), np.array([3, 2])
    got = first_tokens(row, np.array([1, 6], dtype=np.int32), OUTPUT, chosen, sampled_first(), operations)
    assert asked == [([9, 0], [0, 5], 1)]
    assert got.dtype == np.int64
    assert got[1] == 2


def test_without_a_sampled_request_no_coin_is_drawn():
    chosen = np.array([3, 2])
    assert first_tokens(np.array([1, 2]), np.array([1, 6]), OUTPUT, chosen, ChoiceRows(3), None) is chosen


def test_greedy_rows_of_the_logits_have_the_greedy_choice_on_top():
    logits = sampling_logits(OUTPUT, np.array([2, 0]), np.array([True, False]))
    assert logits.dtype == np.float32
    assert logits[0].tolist() == [-1.0, -1.0, 0.0, -1.0]
    assert sorted(logits[1].tolist()) == [-3.0, -3.0, -2.0, -1.0]


def test_logits_that_serve_for_both_are_sampled_from_as_they_are():
    logits = np.array([[0.5, 2.0, 1.0]])
    got = sampling_logits(TargetOutput(logits, None), np.array([1]), np.array([True]))
    assert (got.dtype, got.tolist()) == (np.float32, logits.tolist())


def test_the_greedy_choice_of_logits_of_any_type_is_the_largest():
    for dtype in (np.int64, np.float32, np.float64, np.float16):
        output = TargetOutput(np.array([[1, 3, 2], [4, 4, 0]], dtype=dtype), None)
        assert greedy_choices(output, ORACLE).tolist() == [1, 0]
