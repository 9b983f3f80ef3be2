import numpy as np
import pytest

from specsim.rejection import Reason

WORD = 2**32 - 1
ROWS = pytest.mark.parametrize("num_tokens", [0, 1, 37])


def hidden(num_tokens, num_words=3):
    words = np.random.default_rng(num_tokens).integers(0, WORD, (num_tokens, num_words), endpoint=True)
    words[:1] = WORD
    return words


def context(num_tokens):
    words = np.random.default_rng(num_tokens + 1).integers(0, WORD, num_tokens, endpoint=True)
    words[:1] = WORD
    return words


def counts(num_orders, num_buckets, vocab_size):
    source = np.random.default_rng(num_orders)
    drawn = source.integers(0, 256, (num_orders, num_buckets, vocab_size)).astype(np.uint8)
    drawn[:, ::2] //= 64
    drawn[:, ::3] = 0
    return drawn


@ROWS
@pytest.mark.parametrize("vocab_size", [2, 33, 1024])
@pytest.mark.parametrize("seed", [0, 1, WORD])
def test_hash_target(agrees, num_tokens, vocab_size, seed):
    agrees("hash_target_logits", hidden_states=hidden(num_tokens), vocab_size=vocab_size, seed=seed)


@ROWS
@pytest.mark.parametrize("vocab_size", [2, 3, 21, 22, 33, 1024])
@pytest.mark.parametrize("seed", [0, WORD])
def test_hash_sampling(agrees, num_tokens, vocab_size, seed):
    agrees("hash_sampling_logits", hidden_states=hidden(num_tokens), vocab_size=vocab_size, seed=seed)


@ROWS
@pytest.mark.parametrize("num_orders", [1, 3, 5])
@pytest.mark.parametrize(("num_buckets", "vocab_size"), [(1, 2), (13, 33), (7, 300)])
def test_text_target(agrees, num_tokens, num_orders, num_buckets, vocab_size):
    ngram_counts = counts(num_orders, num_buckets, vocab_size)
    agrees("text_target_logits", hidden_states=hidden(num_tokens), ngram_counts=ngram_counts)


@ROWS
@pytest.mark.parametrize("vocab_size", [2, 33, 1024])
@pytest.mark.parametrize("agreement", [-1, 0, 1, 2**31, 2**32])
def test_hash_draft(agrees, num_tokens, vocab_size, agreement):
    agrees(
        "hash_draft_probabilities",
        hidden_states=hidden(num_tokens),
        context=context(num_tokens),
        vocab_size=vocab_size,
        seed=WORD - 5,
        agreement=agreement,
    )


@ROWS
@pytest.mark.parametrize("num_orders", [1, 2, 3])
@pytest.mark.parametrize(("num_buckets", "vocab_size"), [(1, 2), (13, 33), (7, 300)])
def test_text_draft(agrees, num_tokens, num_orders, num_buckets, vocab_size):
    agrees(
        "text_draft_probabilities",
        hidden_states=hidden(num_tokens, 2),
        context=context(num_tokens),
        ngram_counts=counts(num_orders, num_buckets, vocab_size),
    )


def test_strided_hidden_states(agrees):
    words = hidden(20, 8)[1::2, 1:7:2]
    agrees("hash_target_logits", hidden_states=words, vocab_size=33, seed=4)
    agrees("hash_sampling_logits", hidden_states=words, vocab_size=33, seed=4)
    agrees("text_target_logits", hidden_states=words, ngram_counts=counts(3, 10, 66)[:, 1::2, ::2])


def test_words_wider_than_32_bits_are_rejected(rejection):
    assert rejection("hash_target_logits", hidden_states=hidden(2) + 2**32, vocab_size=8, seed=0) is (
        Reason.COUNT_OUT_OF_RANGE
    )
    assert rejection("hash_target_logits", hidden_states=hidden(2), vocab_size=1025, seed=0) is (
        Reason.SCALAR_OUT_OF_RANGE
    )
