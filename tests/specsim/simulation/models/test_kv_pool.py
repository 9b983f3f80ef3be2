import numpy as np
import pytest

from specsim.simulation.models.kv_pool import KVPool


class Sums:
    """Adds up the words of entries of one buffer, and remembers of how many it was asked."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.asked = []

    def __call__(self, slots):
        self.asked.append(len(slots))
        return self.buffer[slots].reshape(len(slots), -1).sum(axis=1)


def pool(**options):
    buffers = {name: [np.arange(12, dtype=np.int64).reshape(6, 2) for _ in range(2)] for name in ("keys", "values")}
    return KVPool(buffers, 6, **options)


def test_buffers_come_layer_by_layer_whatever_their_number():
    layers = {"a": [np.zeros((6, 1)), np.ones((6, 1))], "b": [np.full((6, 1), 2.0)]}
    assert [int(one[0, 0]) for one in KVPool(layers, 6).layers()] == [0, 2, 1]


def test_only_what_was_written_is_read_again():
    kv = pool(is_watched=True)
    sums = Sums(kv["keys"][1])
    assert kv.words("keys", sums).tolist() == [1, 5, 9, 13, 17, 21]
    kv.open(np.array([3, 3, 1]))["keys"][1][[3, 1]] = 7
    assert kv.words("keys", sums).tolist() == [1, 14, 9, 14, 17, 21]
    assert sums.asked == [6, 2]
    assert kv.words("keys", sums).tolist() == [1, 14, 9, 14, 17, 21]
    assert sums.asked == [6, 2]


def test_a_write_of_any_component_and_layer_counts_wherever_it_goes():
    kv = pool(is_watched=True)
    sums = Sums(kv["keys"][0])
    before = kv.words("keys", sums).copy()
    with kv.writing() as buffers:
        buffers[0][5] = buffers[0][2]
        buffers[3][4] = 0
    assert kv.words("keys", sums).tolist() == [*before[:5].tolist(), 9]
    assert sums.asked == [6, 2]


def test_a_write_counts_that_ends_in_an_error():
    kv = pool(is_watched=True)
    sums = Sums(kv["keys"][0])
    kv.words("keys", sums)
    with pytest.raises(ValueError, match="half way"), kv.writing() as buffers:
        buffers[0][2] = 0
        raise ValueError("half way")
    assert kv.words("keys", sums)[2] == 0


def test_a_write_past_the_door_leaves_the_old_word_and_is_named():
    kv = pool(is_watched=True)
    sums = Sums(kv["keys"][0])
    kv.words("keys", sums)
    kv.check()
    kv["keys"][0][4] = 0
    assert kv.words("keys", sums)[4] == 17
    with pytest.raises(AssertionError) as caught:
        kv.check()
    assert str(caught.value) == "keys[4] = written past the door, but should be as it was read last"


def test_what_is_not_watched_may_not_be_kept():
    assert not pool().is_kept
    assert pool(is_watched=True).is_kept
