import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim import Reason, SpecRejection, reference
from specsim.contracts.chains import draft_logits_read, target_logits_read
from specsim.contracts.logit_rows import log_probabilities
from specsim.properties.operations.generated.margin_cases import near_boundaries
from specsim.reference.margins import MARGINS

CHAIN = "chain_speculative_sampling_from_logits"
INF, NAN = float("inf"), float("nan")
FILTERS = ("top_k", "top_p", "min_p")


def logs(*rows):
    with np.errstate(divide="ignore"):
        return np.log(np.array(rows, dtype=np.float64)).astype(np.float32)


@pytest.fixture
def chain(f32, i32, i64):
    """Return two drafts of a request and none of another: p(1) = .3 and q(1) = .3, then p(0) = .2 and q(0) = .1."""
    return {
        "draft_tokens": i64([1, 0]),
        "cu_num_drafts": i32([0, 2, 2]),
        "uniform_samples": f32([0.9, 0.9]),
        "uniform_samples_for_final_sampling": f32([0.65, 0.25]),
        "draft_logits": logs([0.6, 0.3, 0.1], [0.1, 0.3, 0.6]),
        "target_logits": logs([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2]),
        "temperature": f32([1, 1]),
        "top_k": None,
        "top_p": None,
        "min_p": None,
        "draft_temperature": f32([1, 1]),
        "max_num_drafts": 3,
    }


def outputs(chain, **changed):
    tokens, counts = reference.chain_speculative_sampling_from_logits(**{**chain, **changed})
    return tokens.tolist(), counts.tolist()


def test_all_drafts_are_accepted(chain):
    assert outputs(chain) == ([[1, 0, 2, -1], [0, -1, -1, -1]], [2, 0])


def test_a_rejection_draws_from_what_is_left(chain, f32, i64):
    """Token 2 has q = .6 and p = .3, and max(p - q, 0) is (.1, .2, 0)."""
    rejected = {**chain, "draft_tokens": i64([1, 2])}
    assert outputs(rejected)[0][0] == [1, 1, -1, -1]
    assert outputs(rejected, uniform_samples_for_final_sampling=f32([0.33, 0]))[0][0] == [1, 0, -1, -1]
    assert outputs(rejected, uniform_samples=f32([0.9, 0.49]))[0][0] == [1, 2, 2, -1]


def test_each_side_has_its_own_temperature(chain, f32, i64):
    """At draft temperature 1/2 the draft's law (.1, .3, .6) becomes (1, 9, 36) / 46, and 46/1 * .2 > 1."""
    cold = {**chain, "draft_tokens": i64([1, 2]), "draft_temperature": f32([0.5, 0.5])}
    assert outputs(cold, uniform_samples=f32([0, 0.38]))[1] == [2, 0]
    assert outputs(cold, uniform_samples=f32([0, 0.39]))[1] == [1, 0]
    warm = {**chain, "draft_tokens": i64([1, 2]), "temperature": f32([0.5, 0.5])}
    assert outputs(warm, uniform_samples=f32([0, 0.39]))[1] == [2, 0]
    assert outputs(warm, uniform_samples=f32([0, 0.4]))[1] == [1, 0]


@pytest.mark.parametrize("how", ["no rows", "draft temperature 0"])
def test_certain_drafts(chain, f32, how):
    certain = {"no rows": {"draft_logits": None}, "draft temperature 0": {"draft_temperature": f32([0, 0])}}[how]
    assert outputs(chain, **certain, uniform_samples=f32([0.29, 0.19]))[0][0] == [1, 0, 2, -1]
    assert outputs(chain, **certain, uniform_samples=f32([0.29, 0.21]))[0][0] == [1, 2, -1, -1]
    assert outputs(chain, **certain, uniform_samples=f32([0.31, 0]))[0][0] == [0, -1, -1, -1]


def test_temperature_0_takes_the_first_largest_logit(chain, f32, i64):
    greedy = {**chain, "temperature": f32([0, 1]), "draft_logits": np.full((2, 3), NAN, dtype=np.float32)}
    assert outputs(greedy)[0][0] == [0, -1, -1, -1]
    assert outputs(greedy, draft_tokens=i64([0, 1]))[0] == [[0, 1, 2, -1], [0, -1, -1, -1]]
    tied = np.zeros((4, 3), dtype=np.float32)
    assert outputs(greedy, draft_tokens=i64([0, 1]), target_logits=tied)[0][0] == [0, 0, -1, -1]


def test_a_sentinel_ends_the_draft_and_subtracts_nothing(chain, f32, i64):
    ended = {**chain, "draft_tokens": i64([-1, 0]), "uniform_samples_for_final_sampling": f32([0.4, 0])}
    assert outputs(ended) == ([[0, -1, -1, -1], [0, -1, -1, -1]], [0, 0])


def test_a_smaller_vocabulary_of_the_draft(chain, f32, i64):
    """q is (2/3, 1/3): the rest of row 0 is (0, 0, .2), and token 2 is no draft."""
    small = {**chain, "draft_logits": chain["draft_logits"][:, :2], "draft_tokens": i64([0, 0])}
    assert outputs(small, uniform_samples=f32([0.8, 0]))[0][0] == [2, -1, -1, -1]
    assert outputs(small, draft_tokens=i64([2, 0]), uniform_samples=f32([0, 0]))[1] == [0, 0]


def test_a_larger_vocabulary_of_the_draft(chain, f32):
    """Three quarters of the draft's law are on a token of its own, so that q(1) is .075."""
    large = np.concatenate([chain["draft_logits"], logs([3], [3])], axis=1)
    assert outputs(chain, draft_logits=large, uniform_samples=f32([0.999, 0.999]))[1] == [2, 0]


def test_filters_are_those_of_the_target_alone(chain, f32, i32, i64):
    """Top-k 2 makes the first row (5/8, 3/8, 0) and the second one (0, 5/8, 3/8)."""
    filtered = {**chain, "top_k": i32([2, 2]), "draft_tokens": i64([1, 2])}
    assert outputs(filtered, uniform_samples=f32([0.999, 0.62]))[1] == [2, 0]
    assert outputs(filtered, uniform_samples=f32([0.999, 0.63]))[0][0] == [1, 1, -1, -1]
    assert outputs(filtered, draft_tokens=i64([2, 2]), uniform_samples=f32([0, 0]))[1] == [0, 0]
    by_p = {**chain, "top_p": f32([0.6, 0.4]), "uniform_samples_for_final_sampling": f32([0.999, 0.999])}
    assert outputs(by_p, draft_tokens=i64([-1, -1]))[0] == [[1, -1, -1, -1], [0, -1, -1, -1]]
    by_min = {**chain, "min_p": f32([0.5, 0.7]), "uniform_samples_for_final_sampling": f32([0.999, 0.999])}
    assert outputs(by_min, draft_tokens=i64([-1, -1]))[0] == [[1, -1, -1, -1], [0, -1, -1, -1]]


def test_a_rejection_that_leaves_nothing_draws_from_the_target(chain, f32, i64):
    same = logs([0.5, 0.5, 0])
    left = {**chain, "draft_logits": same.repeat(2, axis=0), "target_logits": same.repeat(4, axis=0)}
    assert outputs(left, draft_tokens=i64([2, 2]), uniform_samples=f32([0, 0]))[0][0] == [1, -1, -1, -1]


def test_probabilities_below_the_least_float_decide(chain, f32, i64):
    far = f32([[0, -200, -500], [0, 0, 0]])
    rows = f32([[0, -300, -500], [0, -1, -1], [0, 0, 0], [0, 0, 0]])
    given = {**chain, "draft_logits": far, "target_logits": rows, "draft_tokens": i64([1, 0])}
    assert outputs(given, uniform_samples=f32([0, 0]))[1] == [2, 0]
    assert outputs(given, uniform_samples=f32([2**-24, 0]))[1] == [0, 0]


@pytest.mark.parametrize("side", ["draft_logits", "target_logits"])
def test_bfloat16(chain, side):
    halves = {**chain, side: (np.round(chain[side] * 4) / 4).astype(bfloat16)}
    exact = {**halves, side: halves[side].astype(np.float32)}
    assert outputs(halves) == outputs(exact)


def test_rows_are_read_up_to_the_last_token(chain, f32, i64):
    first = {**chain, "draft_tokens": i64([2, 0]), "uniform_samples": f32([0.9, 0.9]), "temperature": f32([2, 0])}
    rejected = {**first, "draft_logits": logs([0.05, 0.05, 0.9], [1, 1, 1])}
    assert draft_logits_read(rejected).tolist() == [True, False]
    assert target_logits_read(rejected).tolist() == [True, False, False, True]
    assert draft_logits_read(chain).tolist() == [True, True]
    assert target_logits_read(chain).tolist() == [True] * 4
    for certain in ({"draft_logits": None}, {"draft_temperature": f32([0, 0])}, {"temperature": f32([0, 0])}):
        assert not draft_logits_read({**chain, **certain}).any()
    assert target_logits_read({**chain, "draft_tokens": i64([1, -1])}).tolist() == [True, True, False, True]


@pytest.mark.parametrize("garbage", [0.0, NAN, INF, -INF])
def test_rows_that_are_not_read_may_hold_anything(chain, i64, garbage):
    ended = {**chain, "draft_tokens": i64([1, -1])}
    before = outputs(ended)
    for name, rows_read in (("draft_logits", draft_logits_read), ("target_logits", target_logits_read)):
        is_read = rows_read(ended)
        assert not is_read.all()
        ended[name] = np.where(is_read[:, None], ended[name], np.float32(garbage))
    assert outputs(ended) == before


@pytest.mark.parametrize(
    ("name", "place", "value", "reason"),
    [
        ("target_logits", (1, 1), NAN, Reason.NAN_SCORE),
        ("target_logits", (3, 0), INF, Reason.INFINITE_LOGIT),
        ("target_logits", (2,), -INF, Reason.EMPTY_DISTRIBUTION),
        ("draft_logits", (1, 2), NAN, Reason.NAN_SCORE),
        ("draft_logits", (0, 0), INF, Reason.INFINITE_LOGIT),
        ("draft_logits", (1,), -INF, Reason.EMPTY_DISTRIBUTION),
        ("temperature", (0,), 2.0**21, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("draft_temperature", (1,), 2.0**-21, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("draft_temperature", (1,), -1.0, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("uniform_samples", (1,), 1.0, Reason.COIN_OUT_OF_RANGE),
        ("draft_tokens", (1,), 3, Reason.TOKEN_OUT_OF_RANGE),
        ("cu_num_drafts", (1,), 3, Reason.INCONSISTENT_LENGTHS),
    ],
)
def test_rejections(chain, name, place, value, reason):
    chain[name] = chain[name].copy()
    chain[name][place] = value
    with pytest.raises(SpecRejection) as caught:
        outputs(chain)
    assert caught.value.reason is reason


def test_too_long_a_draft_is_rejected(chain):
    with pytest.raises(SpecRejection) as caught:
        outputs(chain, max_num_drafts=1)
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_a_row_of_nothing_is_rejected(chain):
    with pytest.raises(SpecRejection) as caught:
        outputs(chain, draft_logits=np.zeros((2, 0), dtype=np.float32))
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_margins_are_those_of_the_closest_decision(chain, f32):
    far, other = MARGINS[CHAIN](chain)
    assert 1e3 < far < 1e6
    assert other > 1e4
    beside = MARGINS[CHAIN]({**chain, "uniform_samples": f32([0.9, 1 - 2**-23])})
    assert beside[0] > 1, "p / q is 2 there"
    ratio = float(np.exp(np.float64(chain["target_logits"][0, 0]) - np.float64(chain["draft_logits"][0, 0])))
    at = {**chain, "draft_tokens": np.array([0, 0]), "uniform_samples": f32([ratio, 0])}
    assert MARGINS[CHAIN](at)[0] < 1
    assert MARGINS[CHAIN]({**at, "temperature": f32([0, 1])})[0] == INF


def test_a_draw_is_near_where_its_aim_is_near_an_end(chain, f32):
    last = {**chain, "draft_tokens": np.array([-1, -1])}
    assert near_boundaries(CHAIN, {**last, "uniform_samples_for_final_sampling": f32([0.5, 0.6])}).tolist() == [
        True,
        False,
    ]
    assert near_boundaries(CHAIN, {**last, "uniform_samples_for_final_sampling": f32([0, 0.8])}).tolist() == [
        False,
        True,
    ]


def test_a_token_of_equal_laws_counts_as_possible(chain, f32):
    """The rest of row 0 is (0, 0, .1) but for rounding, so that a coin of 0 may draw another token elsewhere."""
    given = {**chain, "draft_logits": logs([0.6, 0.3, 0.1], [1, 1, 1]), "draft_tokens": np.array([0, 0])}
    assert outputs(given, uniform_samples_for_final_sampling=f32([0, 0]))[0][0][0] == 2
    assert near_boundaries(CHAIN, {**given, "uniform_samples_for_final_sampling": f32([0, 0.2])}).tolist() == [
        True,
        False,
    ]
    assert near_boundaries(CHAIN, {**given, "uniform_samples_for_final_sampling": f32([0.5, 0.2])}).tolist() == [
        False,
        False,
    ]


def test_ordinary_chains_are_hardly_ever_near_a_boundary(f32, i32):
    """Of 2,000 chains of five likely drafts, over few tokens and without filters, at most two are uncertain."""
    source, count, vocab = np.random.default_rng(0), 2000, 8
    target = source.normal(size=(count, 6, vocab)) * 3
    draft = target[:, :5] + 0.7 * source.normal(size=(count, 5, vocab))
    tokens = (draft / 0.8 + source.gumbel(size=draft.shape)).argmax(axis=2)
    near = near_boundaries(
        CHAIN,
        {
            "draft_tokens": tokens.reshape(-1),
            "cu_num_drafts": i32(np.arange(count + 1) * 5),
            "uniform_samples": f32(source.random(count * 5)),
            "uniform_samples_for_final_sampling": f32(source.random(count)),
            "draft_logits": draft.reshape(-1, vocab).astype(bfloat16),
            "target_logits": target.reshape(-1, vocab).astype(bfloat16),
            "temperature": f32(np.full(count, 0.8)),
            **dict.fromkeys(FILTERS),
            "draft_temperature": f32(np.full(count, 0.8)),
            "max_num_drafts": 5,
        },
    )
    assert near.sum() <= 2


def test_log_probabilities_by_hand():
    row = np.log(np.array([4.0, 2, 1, 1]))
    assert np.exp(log_probabilities(row, 1)).tolist() == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8])
    assert np.exp(log_probabilities(row, 0.5)).tolist() == pytest.approx([16 / 22, 4 / 22, 1 / 22, 1 / 22])
    assert np.exp(log_probabilities(row, 1, top_k=3)).tolist() == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8])
    assert np.exp(log_probabilities(row, 1, top_k=2)).tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert np.exp(log_probabilities(row, 1, top_p=0.7)).tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert np.exp(log_probabilities(row, 1, top_k=2, top_p=0.6)).tolist() == pytest.approx([1, 0, 0, 0])
    assert np.exp(log_probabilities(row, 1, min_p=0.4)).tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert np.exp(log_probabilities(np.array([0, -INF]), 1)).tolist() == [1, 0]
