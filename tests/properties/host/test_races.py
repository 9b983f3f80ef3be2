"""The closed form of two draws on one noise, against the numbers of Q.3 and against simulated races."""

from fractions import Fraction

import numpy as np
import pytest

from specsim.properties.distribution import require_same_law
from specsim.properties.host.noise.races import NoClosedForm, Noise, same_winner, second_race, total_variation


def row(*shares):
    return tuple(Fraction(str(share)) for share in shares)


def shared_recovery(target, proposal):
    """Return the law of one rejection step whose last token is drawn on the noise of the draft."""
    left = tuple(max(p - q, Fraction(0)) for p, q in zip(target, proposal, strict=True))
    law = [min(p, q) for p, q in zip(target, proposal, strict=True)]
    for draft, (p, q) in enumerate(zip(target, proposal, strict=True)):
        if q > p:
            for token, chance in enumerate(second_race(proposal, left, draft)):
                law[token] += (q - p) * chance
    return tuple(law)


@pytest.mark.parametrize(
    ("target", "proposal", "expected"),
    [
        ((0.1, 0.6, 0.3), (0.6, 0.2, 0.2), "1/10 51/80 21/80"),
        ((0.1, 0.6, 0.3), (0.5, 0.25, 0.25), "1/10 63/100 27/100"),
        ((0.1, 0.6, 0.3), (0.5, 0.3, 0.2), "1/10 81/130 18/65"),
        ((0.1, 0.6, 0.3), (0.4, 0.4, 0.2), "1/10 3/5 3/10"),
        ((0.5, 0.3, 0.2), (0.2, 0.2, 0.6), "37/70 19/70 1/5"),
        ((0.1, 0.2, 0.3, 0.4), (0.7, 0.1, 0.1, 0.1), "1/10 23/130 271/910 387/910"),
    ],
)
def test_recovery_on_the_drafts_noise(target, proposal, expected):
    assert " ".join(map(str, shared_recovery(row(*target), row(*proposal)))) == expected


@pytest.mark.parametrize(
    ("target", "proposal"), [((0.1, 0.6, 0.3), (0.6, 0.2, 0.2)), ((0.1, 0.2, 0.3, 0.4), (0.7, 0.1, 0.1, 0.1))]
)
def test_simulated_races_agree(target, proposal):
    """Independently of the closed form: exponential numbers, divided by weights, decide who wins."""
    random, count = np.random.default_rng(3), 400_000
    p, q = np.array(target), np.array(proposal)
    exponential = random.exponential(size=(count, len(p)))
    draft = (exponential / q).argmin(axis=1)
    left = np.maximum(p - q, 1e-300)
    recovered = (exponential / left).argmin(axis=1)
    emitted = np.where(random.random(count) * q[draft] < p[draft], draft, recovered)
    found = np.bincount(emitted, minlength=len(p)) / count
    np.testing.assert_allclose(
        found, [float(share) for share in shared_recovery(row(*target), row(*proposal))], atol=4e-3
    )


def test_tokens_that_are_not_underweight_keep_their_mass():
    law = shared_recovery(row(0.1, 0.6, 0.3), row(0.9, 0.05, 0.05))
    assert law[0] == Fraction(1, 10)
    assert law[1] > Fraction(6, 10), "the token with the smaller share of the proposal gains"


def test_the_bonus_on_the_last_drafts_noise_depends_on_the_draft():
    proposal, following = row(0.6, 0.3, 0.1), row(0.5, 0.3, 0.2)
    laws = [second_race(proposal, following, draft) for draft in range(3)]
    assert [" ".join(map(str, law)) for law in laws] == ["5/6 1/22 4/33", "0 10/11 1/11", "0 0 1"]
    mixed = [sum(q * law[token] for q, law in zip(proposal, laws, strict=True)) for token in range(3)]
    assert tuple(mixed) == following, "of the bonus alone the law is right"


def test_two_races_on_one_noise_have_one_winner_more_often():
    target, proposal = row(0.5, 0.3, 0.2), row(0.6, 0.3, 0.1)
    assert sum(p * q for p, q in zip(target, proposal, strict=True)) == Fraction(41, 100)
    assert same_winner(target, proposal) == Fraction(48, 55)
    by_race = sum(q * second_race(proposal, target, token)[token] for token, q in enumerate(proposal))
    assert by_race == Fraction(48, 55)
    assert sum(map(min, target, proposal)) == Fraction(9, 10)
    assert same_winner(target, target) == 1


def test_a_race_that_is_run_again_has_its_winner():
    ((token, chance, noise), *_) = Noise().race("key", row(0.5, 0.5))
    assert [(one, share) for one, share, _ in noise.race("key", (Fraction(3), Fraction(3)))] == [(token, Fraction(1))]
    assert chance == Fraction(1, 2)


def test_a_third_race_has_no_closed_form():
    ((_, _, once), *_) = Noise().race("key", row(0.5, 0.5))
    ((_, _, twice), *_) = once.race("key", row(0.25, 0.75))
    with pytest.raises(NoClosedForm):
        list(twice.race("key", row(0.5, 0.5)))
    with pytest.raises(NoClosedForm):
        list(once.is_below("key", Fraction(1, 2)))
    assert len(list(twice.race("other", row(0.5, 0.5)))) == 2


def test_a_coin_remembers_what_it_was_compared_with():
    ((is_below, chance, noise),) = [one for one in Noise().is_below("key", Fraction(1, 3)) if not one[0]]
    assert (is_below, chance) == (False, Fraction(2, 3))
    assert [(one, share) for one, share, _ in noise.is_below("key", Fraction(2, 3))] == [
        (True, Fraction(1, 2)),
        (False, Fraction(1, 2)),
    ]
    assert [(token, share) for token, share, _ in noise.pick("key", row(0.25, 0.25, 0.5))] == [
        (1, Fraction(1, 4)),
        (2, Fraction(3, 4)),
    ]


def test_total_variation_is_half_of_all_differences():
    one, other = {(0,): Fraction(1, 2), (1,): Fraction(1, 2)}, {(0,): Fraction(1, 4), (2,): Fraction(3, 4)}
    assert total_variation(one, other) == Fraction(3, 4)
    require_same_law("itself", one, one)
