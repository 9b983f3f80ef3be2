from specsim.simulation.models.ground_truth import Prefix, greedy_choice, greedy_decode
from specsim.simulation.models.hash_model import HashModel


def test_context_word_holds_the_last_four_tokens():
    prefix = Prefix(HashModel())
    for token in (9, 1, 2, 3, 4):
        prefix.append(token)
    assert prefix.context_word == 1 << 24 | 2 << 16 | 3 << 8 | 4


def test_hash_model_depends_on_every_token_of_the_prefix():
    model = HashModel(vocab_size=1024)
    outputs = {tuple(greedy_decode(model, prompt, 4)) for prompt in ([1, 2, 3], [0, 2, 3], [1, 0, 3], [1, 2, 0])}
    assert len(outputs) == 4


def test_decoding_ends_with_eos_or_at_the_limit():
    model = HashModel(vocab_size=64)
    full = greedy_decode(model, [5], 8)
    assert len(full) == 8
    assert greedy_decode(model, [5], 8, eos_token=full[3]) == full[: full.index(full[3]) + 1]


def test_the_lowest_id_wins_among_equal_logits():
    assert greedy_choice([1, 3, 3, 2]) == 1
