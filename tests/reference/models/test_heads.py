import numpy as np

from specsim import reference
from specsim.hashing import COIN_SALT, DRAFT_GOLDEN, GOLDEN, digest, mix


def test_hash_logits_by_hand(equal, i64):
    state = digest([123])
    expected = [((mix(state + 5 + (token + 1) * GOLDEN) & 0x3FFFFF) << 10) | token for token in range(3)]
    equal(reference.hash_target_logits(i64([[123, 9]]), 3, 5), i64([expected]))


def test_text_logits_let_the_longest_context_decide(equal, i64):
    counts = np.zeros((2, 4, 3), dtype=np.uint8)
    context_word = 1
    counts[0, mix(0) % 4] = [200, 9, 9]
    counts[1, mix(1 + GOLDEN) % 4] = [0, 0, 1]
    noise = [mix(digest([123]) + token * GOLDEN) & 0xFF for token in range(3)]
    expected = [(200 << 8) | noise[0], (9 << 8) | noise[1], ((9 + 256) << 8) | noise[2]]
    equal(reference.text_target_logits(i64([[123, context_word]]), counts), i64([expected]))


def test_hash_draft_by_hand(equal, i64, f32):
    hidden, context, vocab_size, seed = i64([[123, 9]]), i64([77]), 4, 5
    best = int(reference.hash_target_logits(hidden, vocab_size, seed)[0].argmax())
    state = digest([123]) + 77 + seed
    plain = [((mix(state + (token + 1) * DRAFT_GOLDEN) & 0xFFF) << 10) | token for token in range(vocab_size)]
    perfect, hostile = list(plain), list(plain)
    perfect[best] = ((1 << 24) - 1024) | best
    hostile[best] = 0
    coin = mix(state + COIN_SALT)
    for agreement, numerators in ((1 << 32, perfect), (coin + 1, perfect), (coin, plain), (-1, hostile)):
        got = reference.hash_draft_probabilities(hidden, context, vocab_size, seed, agreement)
        equal(got, f32([[numerator / 2**24 for numerator in numerators]]))


def test_text_draft_shares_the_weight(equal, i64, f32):
    counts = np.zeros((1, 1, 2), dtype=np.uint8)
    counts[0, 0] = [3, 1]
    noise = [mix(digest([123]) + 77 + token * GOLDEN) & 0xF for token in range(2)]
    shares = [3 * 2048 // 4, 1 * 2048 // 4]
    expected = [((share << 4) | low) / 2**16 for share, low in zip(shares, noise, strict=True)]
    equal(reference.text_draft_probabilities(i64([[123, 9]]), i64([77]), counts), f32([expected]))
