import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.hashing import digest, digest_rows, mix, mix_array
from specsim.simulation.models.language_models import (
    HashModel,
    Prefix,
    TextModel,
    count_ngrams,
    default_text,
    greedy_decode,
)


def test_array_hash_equals_integer_hash_on_any_64_bit_word():
    words = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size=(50, 4), dtype=np.int64)
    assert mix_array(words[:, 0]).tolist() == [mix(word) for word in words[:, 0].tolist()]
    assert digest_rows(words).tolist() == [digest(row) for row in words.tolist()]


def test_digest_depends_on_the_order_and_on_every_word():
    assert len({digest([1, 2, 3]), digest([3, 2, 1]), digest([1, 2]), digest([1, 2, 3, 0])}) == 4


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


def test_counts_of_a_short_text_by_hand():
    counts = count_ngrams(b"abab", 2, 64)
    assert counts[0].sum(axis=0)[[ord("a"), ord("b")]].tolist() == [2, 2]
    bucket = mix(ord("a") + 0x9E3779B9) % 64
    assert counts[1, bucket, ord("b")] == 2
    assert counts[1].sum() == 3


def test_text_model_continues_the_text_it_counted():
    text = b"the quick brown fox jumps over the lazy dog. " * 3
    model = TextModel.from_text(text)
    assert bytes(greedy_decode(model, list(b"the qui"), 8)) == b"ck brown"


def test_default_text_is_there():
    assert b"def " in default_text()


def test_empty_text_is_rejected():
    with pytest.raises(SpecRejection) as caught:
        TextModel.from_text(b"")
    assert caught.value.reason is Reason.BAD_TEXT


@pytest.mark.parametrize(("num_right", "promises"), [(0, [-1, -1]), (1, [1 << 32, -1]), (2, [1 << 32, 1 << 32])])
def test_agreement_by_depth(num_right, promises):
    model = HashModel(num_right=num_right)
    assert [model.agreement_at(1), model.agreement_at(2)] == promises
