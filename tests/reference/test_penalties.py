import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

INF = float("inf")


@pytest.fixture
def chain(f32, i32, i64):
    """Return the call of the chain 1 → 0 → 0 over three tokens, of which token 1 was output once: the root."""
    return {
        "logits": f32([[4, 4, -4]] * 3),
        "token_counts": i32([[0, 1, 0]]),
        "draft_token": i64([1, 0, 0]),
        "tree_mask": np.tril(np.ones((3, 3), dtype=bool)).reshape(-1),
        "frequency_penalty": f32([0.5]),
        "presence_penalty": f32([1]),
        "repetition_penalty": f32([2]),
        "num_draft_tokens": 3,
    }


def test_a_node_counts_what_was_output_and_its_path(chain, equal, f32):
    got = reference.apply_penalties(**chain)
    equal(got, f32([[4, 1.25, -4], [1.25, 1.25, -4], [1, 1.25, -4]]))


def test_relaxed_penalties_are_the_requests(chain, equal, f32):
    equal(reference.apply_penalties(**chain, exact=False), f32([[4, 1.25, -4]] * 3))


def test_siblings_do_not_count(chain, equal, f32):
    star = np.eye(3, dtype=bool)
    star[:, 0] = True
    got = reference.apply_penalties(**{**chain, "tree_mask": star.reshape(-1)})
    equal(got[1:], f32([[1.25, 1.25, -4]] * 2))


def test_repetition_alone_divides_and_multiplies(chain, equal, f32, i32):
    zero = f32([0])
    changed = {"frequency_penalty": zero, "presence_penalty": zero, "token_counts": i32([[1, 0, 1]])}
    equal(reference.apply_penalties(**{**chain, **changed}, exact=False)[0], f32([2, 4, -8]))


def test_a_forbidden_token_stays_forbidden(chain, f32):
    got = reference.apply_penalties(**{**chain, "logits": f32([[0, -INF, -INF]] * 3)})
    assert np.isneginf(got[:, 1:]).all()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("repetition_penalty", 0, Reason.INFINITE_LOGIT),
        ("frequency_penalty", -(2.0**21), Reason.INFINITE_LOGIT),
        ("presence_penalty", INF, Reason.INFINITE_LOGIT),
        ("frequency_penalty", float("nan"), Reason.NAN_SCORE),
    ],
)
def test_penalties_out_of_range_are_rejected(name, value, reason, chain, f32):
    with pytest.raises(SpecRejection) as caught:
        reference.apply_penalties(**{**chain, name: f32([value])})
    assert (caught.value.reason, caught.value.what) == (reason, f"{name}[0]")
