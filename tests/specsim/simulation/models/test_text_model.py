import pytest

from specsim import Reason, SpecRejection
from specsim.hashing import mix
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.text_model import TextModel, count_ngrams, default_text


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
