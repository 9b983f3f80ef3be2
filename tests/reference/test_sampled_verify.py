import numpy as np
import pytest

from specsim import reference
from specsim.host.noise import philox
from specsim.reference.margins import MARGINS
from specsim.rejection import Reason, SpecRejection


def call(i32, i64, f32, logits, **changed):
    """Return a call of one request with a row a node."""
    arguments = {
        "logits": f32(logits),
        "temperature": f32([1]),
        "top_k": i32([2**30]),
        "top_p": f32([1]),
        "min_p": f32([0]),
        "seeds": i64([0]),
        "positions": i64([[0] * len(logits)]),
    }
    return {**arguments, **changed}


def test_the_first_to_arrive_is_drawn(i32, i64, f32, equal):
    """By hand: seed 0, the token at position 1, four words of one counter, weights 1, 2, 1 and 4."""
    words = philox((0, 2, 1, 0), (0, 0))
    uniform = [(word + 0.5) / 2**32 for word in words]
    times = [-np.log(1 - u) / weight for u, weight in zip(uniform, (1, 2, 1, 4), strict=True)]
    got = reference.sample_target_predict(**call(i32, i64, f32, [np.log([1, 2, 1, 4])]))
    equal(got, i64([[times.index(min(times))]]))


def test_temperature_0_is_the_first_largest_logit(i32, i64, f32, equal):
    got = reference.sample_target_predict(**call(i32, i64, f32, [[1, 3, 3], [0, -1, -2]], temperature=f32([0])))
    equal(got, i64([[1, 0]]))


def test_filters_leave_one_token(i32, i64, f32, equal):
    one = call(i32, i64, f32, [[0, 1, 2, 1], [2, 1, 0, 0]])
    for cut in ({"top_k": i32([1])}, {"top_p": f32([0.1])}, {"min_p": f32([1])}):
        equal(reference.sample_target_predict(**{**one, **cut}), i64([[2, 0]]))


def test_a_forbidden_token_is_never_drawn(i32, i64, f32):
    logits = np.zeros((64, 3))
    logits[:, 1] = -np.inf
    drawn = reference.sample_target_predict(**call(i32, i64, f32, logits, positions=i64([range(64)])))
    assert set(drawn.ravel().tolist()) == {0, 2}


def test_draws_follow_the_distribution(i32, i64, f32):
    shares = np.array([0.5, 0.3, 0.2])
    logits = np.tile(np.log(shares), (1000, 1))
    calls = [call(i32, i64, f32, logits, positions=i64([range(1000)]), seeds=i64([seed])) for seed in range(4)]
    drawn = np.concatenate([reference.sample_target_predict(**one).ravel() for one in calls])
    np.testing.assert_allclose(np.bincount(drawn) / 4000, shares, atol=0.03)


def test_the_same_token_is_drawn_wherever_its_row_stands(i32, i64, f32):
    random = np.random.default_rng(0)
    row = random.normal(size=50)
    alone = reference.sample_target_predict(**call(i32, i64, f32, [row], seeds=i64([5]), positions=i64([[9]])))
    among = reference.sample_target_predict(
        **call(
            i32,
            i64,
            f32,
            [*random.normal(size=(3, 50)), row],
            seeds=i64([8, 5]),
            positions=i64([[9, 9], [3, 9]]),
            temperature=f32([1, 1]),
            top_k=i32([50, 50]),
            top_p=f32([1, 1]),
            min_p=f32([0, 0]),
        )
    )
    assert alone[0, 0] == among[1, 1]


def test_a_race_that_is_nearly_tied_is_a_margin_case(i32, i64, f32):
    one = call(i32, i64, f32, [[0.0, 0.0]])
    words = philox((0, 2, 1, 0), (0, 0))[:2]
    times = [-np.log1p(-(word + 0.5) / 2**32) for word in words]
    tie = float(np.log(times[1] / times[0]))
    near = {**one, "logits": f32([[0.0, tie]])}
    assert MARGINS["sample_target_predict"](near)[0] < 1 < MARGINS["sample_target_predict"](one)[0]
    cold = {**near, "temperature": f32([0])}
    assert MARGINS["sample_target_predict"](cold)[0] == np.inf


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"logits": [[-np.inf, -np.inf]]}, Reason.EMPTY_DISTRIBUTION),
        ({"logits": [[np.inf, 0]]}, Reason.INFINITE_LOGIT),
        ({"logits": [[np.nan, 0]]}, Reason.NAN_SCORE),
        ({"temperature": [-1]}, Reason.TEMPERATURE_OUT_OF_RANGE),
        ({"top_p": [0]}, Reason.PROBABILITY_OUT_OF_RANGE),
    ],
)
def test_bad_rows_and_parameters_are_refused(changed, reason, i32, i64, f32):
    arguments = {**call(i32, i64, f32, [[0, 1]]), **{name: f32(value) for name, value in changed.items()}}
    with pytest.raises(SpecRejection) as refusal:
        reference.sample_target_predict(**arguments)
    assert refusal.value.reason is reason


@pytest.mark.parametrize("changed", [{"seeds": [-1]}, {"positions": [[-1]]}, {"positions": [[2**32 - 1]]}])
def test_seeds_and_positions_outside_their_words_are_refused(changed, i32, i64, f32):
    arguments = {**call(i32, i64, f32, [[0, 1]]), **{name: i64(value) for name, value in changed.items()}}
    with pytest.raises(SpecRejection) as refusal:
        reference.sample_target_predict(**arguments)
    assert refusal.value.reason is Reason.COUNT_OUT_OF_RANGE
