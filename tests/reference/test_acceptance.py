import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.contracts.rounding import rounding_bound
from specsim.reference.closest import margin_of_draw
from specsim.reference.margins import MARGINS
from specsim.reference.walks import draw

ROWS = [
    [0.05, 0.30, 0.25, 0.25, 0.15],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.1, 0.1, 0.1, 0.3, 0.4],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.0, 0.5, 0.5, 0.0, 0.0],
]


@pytest.fixture
def tree(f32, i64):
    """Return the call of the tree 0 → 1, 2; 1 → 3; 2 → 4, in which node i holds token i."""
    rows = f32([ROWS])
    return {
        "candidates": i64([[0, 1, 2, 3, 4]]),
        "retrieve_index": i64([[0, 1, 2, 3, 4]]),
        "retrieve_next_token": i64([[1, 3, 4, -1, -1]]),
        "retrieve_next_sibling": i64([[-1, 2, -1, -1, -1]]),
        "uniform_samples": f32([[0.5] * 5]),
        "uniform_samples_for_final_sampling": f32([0.5]),
        "target_probs": rows,
        "draft_probs": np.zeros_like(rows),
        "threshold_single": f32([1]),
        "threshold_acc": f32([1]),
        "num_steps": 2,
    }


def sample(tree, coins, final, **changes):
    call = {**tree, "draft_probs": np.zeros_like(tree["target_probs"]), **changes}
    call["uniform_samples"] = np.array([[coins.get(node, 0.5) for node in range(5)]], dtype=np.float32)
    call["uniform_samples_for_final_sampling"] = np.array([final], dtype=np.float32)
    return (*reference.tree_speculative_sampling_target_only(**call), call["draft_probs"])


@pytest.mark.parametrize(
    ("coins", "final", "strict", "path", "output"),
    [
        ({0: 0.45, 2: 0.90}, 0.6, True, [0, 2], {0: 2, 2: 3}),
        ({0: 0.45, 2: 0.35}, 0.6, True, [0, 2, 4], {0: 2, 2: 4, 4: 2}),
        ({0: 0.80}, 0.99, True, [0], {0: 4}),
        ({0: np.float32(0.30), 1: 0.33}, 0.30, False, [0, 1], {0: 1, 1: 1}),
        ({0: np.float32(0.30), 2: 0.99}, 0.30, True, [0, 2], {0: 2, 2: 1}),
    ],
    ids=["A", "B", "C", "D older rule", "D"],
)
def test_worked_example(coins, final, strict, path, output, tree, equal, i32):
    predict, accept_index, counts, _ = sample(tree, coins, final, strict=strict)
    equal(accept_index, i32([path + [-1] * (3 - len(path))]))
    equal(counts, i32([len(path) - 1]))
    assert {node: int(predict[node]) for node in path} == output


def test_rejected_children_are_written_down(tree, equal, f32):
    *_, remembered = sample(tree, {0: 0.45, 2: 0.90}, 0.6)
    expected = np.zeros((1, 5, 5), dtype=np.float32)
    expected[0, 0, 1], expected[0, 2, 4] = f32(0.30), f32(0.4)
    equal(remembered, expected)


def test_a_full_path_ignores_its_children(tree, equal, i32):
    predict, accept_index, _, remembered = sample(tree, {0: 0.9}, 0.2, num_steps=0)
    equal(accept_index, i32([[0]]))
    assert predict[0] == 1
    assert not remembered.any()


def test_a_threshold_accepts_what_reaches_it(tree, equal, i32, f32):
    _, accept_index, _, _ = sample(tree, {0: 0.99, 1: 0.99}, 0.5, threshold_single=f32([0.30]))
    equal(accept_index, i32([[0, 1, -1]]))


def test_a_share_of_the_mass_can_be_enough(tree, equal, i32, f32):
    _, accept_index, _, _ = sample(tree, {0: 0.5, 1: 0.99}, 0.5, threshold_acc=f32([0.5]))
    equal(accept_index, i32([[0, 1, -1]]))


@pytest.mark.parametrize(("skip", "path"), [(True, [0, -1]), (False, [0, 2])])
def test_equal_siblings(skip, path, equal, f32, i32, i64):
    rows = f32([[[0.25, 0.75], [1, 0], [1, 0]]])
    got = reference.tree_speculative_sampling_target_only(
        i64([[1, 0, 0]]),
        i64([[0, 1, 2]]),
        i64([[1, -1, -1]]),
        i64([[-1, 2, -1]]),
        f32([[0.3, 0, 0]]),
        f32([0]),
        rows,
        np.zeros_like(rows),
        f32([1]),
        f32([1]),
        1,
        True,
        skip,
    )
    equal(got[1], i32([path]))
    assert got[0][0] == (1 if skip else 0)


def test_without_mass_the_last_token_is_drawn():
    assert draw(np.array([0.0, 0.0, 0.0]), 0.5) == 2
    assert margin_of_draw(np.array([0.0, 0.0, 0.0]), 0.5, 2) == float("inf")


@pytest.mark.parametrize(("coin", "token"), [(0.0, 1), (0.25, 1), (0.5, 3), (0.75, 3)])
def test_a_draw_skips_impossible_tokens(coin, token):
    assert draw(np.array([0.0, 0.25, 0.0, 0.25, 0.0]), coin) == token


@pytest.mark.parametrize(
    ("change", "reason", "what"),
    [
        (
            lambda call: call["uniform_samples"].__setitem__((0, 3), 1),
            Reason.COIN_OUT_OF_RANGE,
            "uniform_samples[0, 3]",
        ),
        (
            lambda call: call["target_probs"].__setitem__((0, 2), 0),
            Reason.EMPTY_DISTRIBUTION,
            "target_probs[0, 2].sum()",
        ),
        (lambda call: call["draft_probs"].__setitem__((0, 1, 2), 0.1), Reason.PROBABILITY_OUT_OF_RANGE, "draft_probs"),
        (
            lambda call: call["retrieve_next_token"].__setitem__((0, 4), 2),
            Reason.CYCLIC_TREE,
            "retrieve_next_token[0, 4]",
        ),
        (lambda call: call["candidates"].__setitem__((0, 4), 5), Reason.TOKEN_OUT_OF_RANGE, "candidates[0, 4]"),
        (lambda call: call["threshold_acc"].__setitem__(0, 1.5), Reason.PROBABILITY_OUT_OF_RANGE, "threshold_acc[0]"),
    ],
)
def test_the_tree_sampler_rejects(change, reason, what, tree):
    change(tree)
    with pytest.raises(SpecRejection) as caught:
        reference.tree_speculative_sampling_target_only(**tree)
    assert caught.value.reason is reason
    assert caught.value.what.startswith(what)


@pytest.fixture
def chain(f32, i32, i64):
    """Return the call of three requests with two, no and one draft over three tokens."""
    return {
        "draft_tokens": i64([0, 1, 2]),
        "cu_num_drafts": i32([0, 2, 2, 3]),
        "uniform_samples": f32([0.9, 0.5, 0.1]),
        "uniform_samples_for_final_sampling": f32([0.5, 0.75, 0.0]),
        "draft_probs": f32([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]),
        "target_probs": f32([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [1, 0, 0], [0.25, 0.25, 0.5], [0, 0, 1], [0, 1, 0]]),
        "max_num_drafts": 2,
    }


def test_chains_are_ragged(chain, equal, i32):
    output, counts = reference.chain_speculative_sampling(**chain)
    equal(output, i32([[0, 0, -1], [2, -1, -1], [2, 1, -1]]))
    equal(counts, i32([1, 0, 1]))


def test_a_certain_draft_is_accepted_with_its_own_probability(chain, equal, i32, f32):
    coins = f32([0.5, 0.25, 0.999])
    output, counts = reference.chain_speculative_sampling(**{**chain, "draft_probs": None, "uniform_samples": coins})
    equal(counts, i32([0, 0, 1]))
    equal(output[:, 0], i32([2, 2, 2]))


def test_a_sentinel_ends_the_draft(chain, equal, i32, i64):
    output, counts = reference.chain_speculative_sampling(**{**chain, "draft_tokens": i64([0, -1, -1])})
    equal(output, i32([[0, 1, -1], [2, -1, -1], [2, -1, -1]]))
    equal(counts, i32([1, 0, 0]))


def test_nothing_is_left_of_equal_laws(chain, equal, i32, f32):
    laws = f32([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0, 0, 1]])
    certain = {**chain, "draft_probs": laws, "uniform_samples": f32([0.9, 0.999, 0.5])}
    equal(reference.chain_speculative_sampling(**certain)[1], i32([2, 0, 1]))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cu_num_drafts", [0, 2, 1, 3], Reason.INCONSISTENT_LENGTHS),
        ("cu_num_drafts", [0, 2, 2, 2], Reason.INCONSISTENT_LENGTHS),
        ("max_num_drafts", 1, Reason.COUNT_OUT_OF_RANGE),
        ("draft_tokens", [0, 1, 3], Reason.TOKEN_OUT_OF_RANGE),
    ],
)
def test_the_chain_sampler_rejects(name, value, reason, chain):
    changed = np.array(value, dtype=chain[name].dtype) if isinstance(value, list) else value
    with pytest.raises(SpecRejection) as caught:
        reference.chain_speculative_sampling(**{**chain, name: changed})
    assert caught.value.reason is reason


def test_coins_are_those_of_seed_and_length(equal, i64):
    coins, final = reference.generate_coins(i64([5, 7]), i64([3, 3]), 4)
    alone, alone_final = reference.generate_coins(i64([7]), i64([3]), 6)
    equal(alone[:, :4], coins[1:])
    equal(alone_final, final[1:])
    assert ((coins * 2**24) % 1 == 0).all()
    assert len(np.unique(np.append(coins, final))) == 10


def test_a_simulated_batch_has_one_length(equal, i32):
    got = reference.generate_simulated_accept_index(i32([[0, 2, 3, -1], [4, -1, -1, -1]]), 3, 4)
    equal(got, (i32([100] * 8), i32([[0, 1, 2, -1], [4, 5, 6, -1]]), i32([2, 2])))


def test_more_simulated_tokens_than_a_path_holds_are_rejected(i32):
    with pytest.raises(SpecRejection) as caught:
        reference.generate_simulated_accept_index(i32([[0, -1]]), 3, 4)
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_a_margin_is_the_distance_of_the_closest_coin(tree, f32):
    call = {**tree, "strict": True, "skip_duplicates": True, "uniform_samples": f32([[0.27, 0.99, 0, 0, 0]])}
    call["uniform_samples_for_final_sampling"] = f32([0.4])
    margin = float(MARGINS["tree_speculative_sampling_target_only"](call)[0] * rounding_bound(5))
    # Node 1 is accepted with .27 against .30, node 3 rejected; .4 of the .8 that is left lies .08 of it before .4.
    assert margin == pytest.approx(min(0.03 / 0.3, 0.08 / 0.8), rel=1e-5)
