from itertools import product

import numpy as np
import pytest

from specsim.host.noise import PURPOSES, StreamKey, arrivals, philox, stream_key, stream_uniform, stream_uniforms
from specsim.rejection import Reason, SpecRejection


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_known_answers(counter, key, expected):
    assert " ".join(f"{word:08x}" for word in philox(counter, key)) == expected


def test_arrays_give_what_integers_give():
    counters = np.array([0, 1, 77, 2**32 - 1], dtype=np.uint64)
    together = philox((counters, 3, 2**32 - 1, 9), (5, 2**31))
    for place, counter in enumerate(counters.tolist()):
        assert [int(word[place]) for word in together] == [*philox((counter, 3, 2**32 - 1, 9), (5, 2**31))]


def test_a_key_has_seed_purpose_column_position_and_epoch():
    assert stream_key("accept", 2**40 + 5, 7, 3, 11) == StreamKey(5, 2**8, 1 + 8 * 3, 7, 11)
    assert stream_key("draft", 5, 7, 2**29 - 1, 0).purpose == 2**32 - 8


@pytest.mark.parametrize("purpose", ["token", "final"])
def test_an_output_token_has_one_key_whatever_drafts_it(purpose):
    assert stream_key(purpose, 1, 7, 3, 11) == stream_key(purpose, 1, 7)


def test_streams_are_disjoint():
    parts = product(PURPOSES, (0, 1, 2**32), (0, 1, 2), (0, 1), (0, 1))
    keys = [stream_key(*one) for one in parts if one[0] in ("draft", "accept") or one[3:] == (0, 0)]
    assert len(set(keys)) == len(keys)


def test_a_coin_is_the_middle_of_one_of_2_to_32_parts():
    key = stream_key("final", 0, 0)
    word = philox((0, *key[2:]), key[:2])[0]
    assert stream_uniform(key) == (word + 0.5) / 2**32
    assert 0 < 0.5 / 2**32 < (2**32 - 0.5) / 2**32 < 1


def test_a_race_has_one_number_a_token():
    key = stream_key("token", 9, 4)
    assert stream_uniforms(key, 11).tolist() == [stream_uniform(key, token) for token in range(11)]
    np.testing.assert_array_equal(arrivals(key, 11), -np.log1p(-stream_uniforms(key, 11)))


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        (("bonus", 0, 0, 0, 0), "purpose"),
        (("token", -1, 0, 0, 0), "seed"),
        (("token", 2**64, 0, 0, 0), "seed"),
        (("token", 0, 2**32, 0, 0), "position"),
        (("accept", 0, 0, 2**29, 0), "column"),
        (("accept", 0, 0, 0, -1), "epoch"),
    ],
)
def test_a_key_outside_its_range_is_refused(parts, what):
    with pytest.raises(SpecRejection) as refusal:
        stream_key(*parts)
    assert (refusal.value.reason, refusal.value.what) == (Reason.SCALAR_OUT_OF_RANGE, what)


@pytest.mark.parametrize("token", [-1, 2**34])
def test_a_token_that_no_counter_has_is_refused(token):
    with pytest.raises(SpecRejection) as refusal:
        stream_uniform(stream_key("token", 0, 0), token)
    assert refusal.value.reason is Reason.TOKEN_OUT_OF_RANGE
