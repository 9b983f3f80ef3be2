import numpy as np

from specsim.hashing import digest, digest_rows, mix, mix_array


def test_array_hash_equals_integer_hash_on_any_64_bit_word():
    words = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size=(50, 4), dtype=np.int64)
    assert mix_array(words[:, 0]).tolist() == [mix(word) for word in words[:, 0].tolist()]
    assert digest_rows(words).tolist() == [digest(row) for row in words.tolist()]


def test_digest_depends_on_the_order_and_on_every_word():
    assert len({digest([1, 2, 3]), digest([3, 2, 1]), digest([1, 2]), digest([1, 2, 3, 0])}) == 4
